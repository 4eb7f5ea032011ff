//! Conversion of schemas into ones that a provider accepts.
//!
//! A provider rejects a whole request because of one schema it does not support, so no schema is sent
//! unmodified. A tool's schema is first made [`plain`]: no references, one draft, every keyword of the right type,
//! bounded in depth and size. Then the rules of the dialect are applied. Anything lost on the way only widens what
//! the model may write; the tool itself still validates its arguments. A tool that cannot be repaired is omitted;
//! the others are still sent.

mod gemini;
mod merge;
mod names;
mod output;
mod pattern;
mod plain;
mod strict;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use meerkat_core::{Provider, SchemaWarning, ToolDef};
use serde_json::{Map, Value};

pub(crate) use output::{output, output_warnings};

/// Maximum length of a tool's description, in bytes.
const MAX_DESCRIPTION: usize = 8 * 1024;
/// Maximum size of a tool's schema, in bytes of JSON.
const MAX_SCHEMA: usize = 200 * 1024;
/// Maximum number of schemas nested in one.
const MAX_NODES: usize = 4_000;

/// A schema object.
type Node = Map<String, Value>;

/// The provider whose rules a schema must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Anthropic's rules.
    Anthropic,
    /// Rules of OpenAI and compatible servers.
    OpenAi,
    /// Gemini's rules.
    Gemini,
}

impl Dialect {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }
}

/// A problem that cannot be repaired, and its location in the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at `{path}`: {what}")]
struct SchemaProblem {
    path: String,
    what: String,
}

impl SchemaProblem {
    fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

/// Converts tools into ones that a provider accepts; those that cannot be repaired are omitted, with the reason.
pub(crate) fn sanitize(tools: &[ToolDef], dialect: Dialect) -> (Vec<ToolDef>, Vec<(String, String)>) {
    let mut accepted: Vec<ToolDef> = Vec::with_capacity(tools.len());
    let mut left_out = Vec::new();
    let mut seen = HashSet::new();
    for tool in tools {
        if seen.contains(tool.name.as_str()) {
            left_out.push((tool.name.clone(), "at `name`: another tool already has this name".to_owned()));
            continue;
        }
        match repair(tool, dialect) {
            Ok(repaired) => {
                seen.insert(tool.name.as_str());
                accepted.push(repaired);
            }
            Err(error) => left_out.push((tool.name.clone(), error.to_string())),
        }
    }
    (accepted, left_out)
}

fn repair(tool: &ToolDef, dialect: Dialect) -> Result<ToolDef, SchemaProblem> {
    names::check_tool(&tool.name, dialect)?;
    if !matches!(tool.input_schema, Value::Object(_) | Value::Null | Value::Bool(true)) {
        return Err(SchemaProblem::new("input_schema", "not a schema"));
    }
    let schema = merge::flatten(plain::plain(&tool.input_schema)?)
        .ok_or_else(|| SchemaProblem::new("input_schema/type", "the arguments are not an object"))?;
    let mut schema = root(schema);
    if dialect != Dialect::OpenAi {
        names::check_properties(&mut schema, "input_schema", dialect)?;
    }
    if dialect == Dialect::Gemini {
        schema = root(gemini::lower(schema)?);
    }
    let input_schema = Value::Object(schema);
    let size = input_schema.to_string().len();
    if size > MAX_SCHEMA {
        let what = format!("the schema has {size} bytes; the limit is {MAX_SCHEMA}");
        return Err(SchemaProblem::new("input_schema", what));
    }
    let description = shorten(&tool.description);
    Ok(ToolDef { name: tool.name.clone(), description, input_schema })
}

/// Reduces the top level of a schema to the keywords that are allowed there.
fn root(mut schema: Node) -> Node {
    let mut root = Node::new();
    root.insert("type".to_owned(), "object".into());
    schema.entry("properties").or_insert_with(|| Value::Object(Node::new()));
    for key in ["title", "description", "properties", "required", "additionalProperties"] {
        root.extend(schema.remove_entry(key));
    }
    root
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_DESCRIPTION {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_DESCRIPTION - '…'.len_utf8());
    format!("{}…", &text[..end])
}

/// Returns the types a schema names; empty if it names none.
fn types(node: &Node) -> Vec<&str> {
    node.get("type").map(type_names).unwrap_or_default()
}

fn type_names(value: &Value) -> Vec<&str> {
    match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the values that `const` or `enum` allows.
fn allowed_values(node: &Node) -> Option<Vec<Value>> {
    match (node.get("const"), node.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

/// Returns the parts of an output schema that a provider does not support.
#[must_use]
pub fn schema_warnings(provider: Provider, schema: &Value) -> Vec<SchemaWarning> {
    let dialect = match provider {
        Provider::Anthropic => Dialect::Anthropic,
        Provider::Gemini => Dialect::Gemini,
        Provider::OpenAi | Provider::SelfHosted | Provider::Other => return Vec::new(),
    };
    let warning = |(path, message)| SchemaWarning { provider, path, message };
    output_warnings(schema, dialect).into_iter().map(warning).collect()
}
