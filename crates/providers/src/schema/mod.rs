//! Schemas that a provider takes, made of schemas as their authors wrote them.
//!
//! A provider refuses a whole request for one schema it does not like, so no tool may reach it as it came. A
//! tool's schema is first made [`plain`]: no references, one draft, every keyword of the right type, bounded in
//! depth and size. Then come the rules of the dialect. Whatever is lost on the way only widens what the model may
//! write; the tool itself still judges its arguments. A tool that cannot be mended is left out alone.

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
use std::fmt;

use meerkat_core::{Provider, SchemaWarning, ToolDef};
use serde_json::{Map, Value};

pub(crate) use output::{output, output_warnings};

/// How long a tool's description may be, in bytes.
const MAX_DESCRIPTION: usize = 8 * 1024;
/// How large one tool's schema may be, in bytes of JSON.
const MAX_SCHEMA: usize = 200 * 1024;
/// How many schemas there may be inside one.
const MAX_NODES: usize = 4_000;

/// One schema.
type Node = Map<String, Value>;

/// Whose rules a schema must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Anthropic's.
    Anthropic,
    /// OpenAI's, and those of servers that speak like it.
    OpenAi,
    /// Gemini's.
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

/// What cannot be mended, and where in the schema it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    path: String,
    what: String,
}

impl Fault {
    fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at `{}`: {}", self.path, self.what)
    }
}

/// Makes tools that a provider takes of tools as they are; one that cannot be mended is left out, with the
/// reason.
pub(crate) fn sanitise(tools: &[ToolDef], dialect: Dialect) -> (Vec<ToolDef>, Vec<(String, String)>) {
    let mut taken: Vec<ToolDef> = Vec::with_capacity(tools.len());
    let mut left_out = Vec::new();
    let mut seen = HashSet::new();
    for tool in tools {
        if seen.contains(tool.name.as_str()) {
            left_out.push((tool.name.clone(), "at `name`: another tool has it already".to_owned()));
            continue;
        }
        match mend(tool, dialect) {
            Ok(mended) => {
                seen.insert(tool.name.as_str());
                taken.push(mended);
            }
            Err(fault) => left_out.push((tool.name.clone(), fault.to_string())),
        }
    }
    (taken, left_out)
}

fn mend(tool: &ToolDef, dialect: Dialect) -> Result<ToolDef, Fault> {
    names::check_tool(&tool.name, dialect)?;
    if !matches!(tool.input_schema, Value::Object(_) | Value::Null | Value::Bool(true)) {
        return Err(Fault::new("input_schema", "it is not a schema"));
    }
    let schema = merge::flatten(plain::plain(&tool.input_schema)?)
        .ok_or_else(|| Fault::new("input_schema/type", "the arguments are not an object"))?;
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
        return Err(Fault::new("input_schema", format!("{size} bytes of schema, {MAX_SCHEMA} are allowed")));
    }
    let description = shorten(&tool.description);
    Ok(ToolDef { name: tool.name.clone(), description, input_schema })
}

/// The top of a schema may say less than the rest.
fn root(mut schema: Node) -> Node {
    let mut root = Node::new();
    root.insert("type".to_owned(), "object".into());
    for key in ["title", "description", "properties", "required", "additionalProperties"] {
        if let Some(value) = schema.remove(key) {
            root.insert(key.to_owned(), value);
        } else if key == "properties" {
            root.insert(key.to_owned(), Value::Object(Node::new()));
        }
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

/// Returns the types a schema names; none means that it does not say.
fn types(node: &Node) -> Vec<&str> {
    match node.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns what a provider does not take of an output schema.
#[must_use]
pub fn schema_warnings(provider: Provider, schema: &Value) -> Vec<SchemaWarning> {
    let dialect = match provider {
        Provider::Anthropic => Dialect::Anthropic,
        Provider::OpenAi => Dialect::OpenAi,
        Provider::Gemini => Dialect::Gemini,
        Provider::SelfHosted | Provider::Other => return Vec::new(),
    };
    output_warnings(schema, dialect)
        .into_iter()
        .map(|(path, message)| SchemaWarning { provider, path, message })
        .collect()
}
