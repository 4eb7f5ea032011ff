//! Output schemas in a provider's dialect.
//!
//! References stay, since every provider supports them here. Unsupported keywords are removed, with a warning; the
//! answer is still validated against the original schema, so nothing invalid gets through.

use serde_json::Value;

use super::{Dialect, Node, strict, types};

/// Keywords that Gemini supports.
const GEMINI_SUPPORTED: [&str; 24] = [
    "$id",
    "$defs",
    "$ref",
    "$anchor",
    "type",
    "format",
    "title",
    "description",
    "const",
    "default",
    "examples",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
    "propertyOrdering",
];
/// Keywords that neither Anthropic nor OpenAI's strict mode accepts.
const REJECTED: [&str; 14] = [
    "contains",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// Further keywords that Anthropic rejects.
const ANTHROPIC_REJECTED: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
];
/// Keywords that do not constrain values and are removed without a warning.
const ANNOTATIONS: [&str; 2] = ["$schema", "$comment"];

/// Converts an output schema into one that a provider accepts.
///
/// In OpenAI's strict mode, an optional property may be returned as null.
pub(crate) fn output(schema: &Value, dialect: Dialect, strict: bool) -> Value {
    if dialect == Dialect::OpenAi && !strict {
        return schema.clone();
    }
    compile(schema, dialect).0
}

/// Returns the parts of an output schema that a provider does not support: the path and a description of each.
pub(crate) fn output_warnings(schema: &Value, dialect: Dialect) -> Vec<(String, String)> {
    compile(schema, dialect).1
}

fn rejects(dialect: Dialect, key: &str, value: &Value) -> bool {
    match dialect {
        // Only `minItems` of 0 and 1 are supported.
        Dialect::Anthropic => {
            REJECTED.contains(&key)
                || ANTHROPIC_REJECTED.contains(&key)
                || (key == "minItems" && value.as_u64().is_none_or(|n| n > 1))
        }
        Dialect::OpenAi => REJECTED.contains(&key),
        Dialect::Gemini => !GEMINI_SUPPORTED.contains(&key) && key != "nullable",
    }
}

/// Converts a schema, for OpenAI into one of strict mode.
fn compile(schema: &Value, dialect: Dialect) -> (Value, Vec<(String, String)>) {
    let mut compiled = schema.clone();
    match dialect {
        Dialect::Anthropic => {}
        Dialect::OpenAi => strict::join(&mut compiled),
        Dialect::Gemini => rename_definitions(&mut compiled),
    }
    let mut compiler = Compiler { dialect, warnings: Vec::new() };
    compiler.node(&mut compiled, "");
    (compiled, compiler.warnings)
}

struct Compiler {
    dialect: Dialect,
    warnings: Vec<(String, String)>,
}

impl Compiler {
    fn node(&mut self, schema: &mut Value, path: &str) {
        let Value::Object(node) = schema else { return };
        let (dialect, warnings) = (self.dialect, &mut self.warnings);
        node.retain(|key, value| {
            if ANNOTATIONS.contains(&key.as_str()) {
                return false;
            }
            let is_rejected = rejects(dialect, key, value);
            if is_rejected {
                let name = dialect.as_str();
                let message =
                    format!("`{key}` is not sent to {name}; the answer is still validated against it");
                warnings.push((format!("{path}/{}", escaped(key)), message));
            }
            !is_rejected
        });
        each_child(node, path, &mut |child, path| self.node(child, path));
        let is_object = types(node).contains(&"object")
            || node.contains_key("properties")
            || node.contains_key("required");
        if is_object && self.dialect != Dialect::Gemini {
            self.close(node, path);
        }
        if self.dialect == Dialect::OpenAi {
            require_all(node);
        }
    }

    /// Disallows additional properties.
    fn close(&mut self, node: &mut Node, path: &str) {
        let previous = node.insert("additionalProperties".to_owned(), Value::Bool(false));
        let is_open = match &previous {
            Some(value) => *value != Value::Bool(false),
            None => !node.contains_key("properties"),
        };
        if is_open {
            let name = self.dialect.as_str();
            let message = format!("{name} allows only the listed properties");
            self.warnings.push((format!("{path}/additionalProperties"), message));
        }
    }
}

/// Requires every property; one that was optional may be null instead.
fn require_all(node: &mut Node) {
    let required = match node.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    };
    let Some(Value::Object(properties)) = node.get_mut("properties") else { return };
    for (name, schema) in properties.iter_mut() {
        if !required.iter().any(|other| other == name) {
            allow_null(schema);
        }
    }
    let all: Vec<Value> = properties.keys().map(|name| name.clone().into()).collect();
    node.insert("required".to_owned(), all.into());
}

fn allow_null(schema: &mut Value) {
    let null = || serde_json::json!({ "type": "null" });
    let Value::Object(node) = schema else { return };
    if let Some(Value::Array(choices)) = node.get_mut("anyOf") {
        if !choices.contains(&null()) {
            choices.push(null());
        }
        return;
    }
    let names: Vec<Value> = types(node).into_iter().map(Value::from).collect();
    if names.iter().any(|name| name == "null") {
        return;
    }
    if names.is_empty() || node.contains_key("const") || node.contains_key("$ref") {
        let inner = std::mem::take(node);
        node.insert("anyOf".to_owned(), Value::Array(vec![inner.into(), null()]));
        return;
    }
    let names: Vec<Value> = names.into_iter().chain(["null".into()]).collect();
    node.insert("type".to_owned(), names.into());
    if let Some(Value::Array(values)) = node.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

/// Renames definitions, which Gemini supports only under their newer name.
fn rename_definitions(schema: &mut Value) {
    let Value::Object(root) = schema else { return };
    if root.contains_key("$defs") {
        return;
    }
    if let Some(definitions @ Value::Object(_)) = root.shift_remove("definitions") {
        root.insert("$defs".to_owned(), definitions);
        rename_references(schema);
    }
}

fn rename_references(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    if let Some(Value::String(reference)) = node.get_mut("$ref")
        && let Some(name) = reference.strip_prefix("#/definitions/")
    {
        *reference = format!("#/$defs/{name}");
    }
    each_child(node, "", &mut |child, _| rename_references(child));
}

/// Visits the direct subschemas of a schema, and nothing that only resembles one.
pub(super) fn each_child(node: &mut Node, path: &str, visit: &mut dyn FnMut(&mut Value, &str)) {
    for (key, value) in node.iter_mut() {
        match (key.as_str(), value) {
            (
                "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(map),
            ) => {
                for (name, child) in map {
                    visit(child, &format!("{path}/{}/{}", escaped(key), escaped(name)));
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(list)) => {
                for (index, child) in list.iter_mut().enumerate() {
                    visit(child, &format!("{path}/{key}/{index}"));
                }
            }
            ("items" | "additionalProperties" | "not" | "contains", child @ Value::Object(_)) => {
                visit(child, &format!("{path}/{key}"));
            }
            _ => {}
        }
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
