//! The first step: one draft, no references, no keyword of the wrong type, bounded size.
//!
//! The output is valid in every draft and uses few keywords: the only combining one is `anyOf`. Constraints that
//! few providers support (`not`, `if`, `patternProperties`, and the like) are dropped.

use meerkat_core::percent_decoded;
use serde_json::{Value, json};

use super::merge::{merge, unique};
use super::{MAX_NODES, Node, SchemaProblem, pattern, types};

/// Maximum nesting depth of schemas; deeper ones are replaced by an unrestricted schema.
const MAX_DEPTH: usize = 12;
/// Maximum nesting depth of references.
const MAX_REFERENCES: usize = 24;

/// Converts a schema into its plain form.
pub(super) fn plain(schema: &Value) -> Result<Node, SchemaProblem> {
    Walk { root: schema, references: Vec::new(), nodes: 0 }.node(schema, 0)
}

struct Walk<'a> {
    root: &'a Value,
    /// References that are being followed.
    references: Vec<String>,
    nodes: usize,
}

impl Walk<'_> {
    fn node(&mut self, schema: &Value, depth: usize) -> Result<Node, SchemaProblem> {
        // Any value in place of a schema counts: it becomes one.
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(SchemaProblem::new("input_schema", format!("more than {MAX_NODES} nested schemas")));
        }
        let Value::Object(raw) = schema else { return Ok(Node::new()) };
        if depth > MAX_DEPTH {
            return Ok(Node::new());
        }
        let mut node: Node =
            raw.iter().filter_map(|(key, value)| Some((key.clone(), leaf(key, value)?))).collect();
        old_drafts(raw, &mut node);
        self.object(raw, &mut node, depth)?;
        self.array(raw, &mut node, depth)?;
        self.combined(raw, &mut node, depth)?;
        if types(&node).contains(&"array") && !node.contains_key("items") {
            node.insert("items".to_owned(), json!({}));
        }
        Ok(node)
    }

    fn object(&mut self, raw: &Node, node: &mut Node, depth: usize) -> Result<(), SchemaProblem> {
        if let Some(Value::Object(properties)) = raw.get("properties") {
            let mut plain = Node::new();
            for (name, schema) in properties {
                plain.insert(name.clone(), self.node(schema, depth + 1)?.into());
            }
            node.insert("properties".to_owned(), plain.into());
        }
        // Without its patterns, an object that disallows other properties would allow too little.
        let has_patterns =
            matches!(raw.get("patternProperties"), Some(Value::Object(map)) if !map.is_empty());
        match raw.get("additionalProperties") {
            _ if has_patterns => {}
            Some(Value::Bool(allowed)) => {
                node.insert("additionalProperties".to_owned(), Value::Bool(*allowed));
            }
            Some(schema @ Value::Object(_)) => {
                node.insert("additionalProperties".to_owned(), self.node(schema, depth + 1)?.into());
            }
            _ => {}
        }
        Ok(())
    }

    fn array(&mut self, raw: &Node, node: &mut Node, depth: usize) -> Result<(), SchemaProblem> {
        let (prefix, items) = match raw.get("items") {
            Some(Value::Array(prefix)) => (Some(prefix), raw.get("additionalItems")),
            items => (raw.get("prefixItems").and_then(Value::as_array), items),
        };
        if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
            let prefix: Result<Vec<_>, _> =
                prefix.iter().map(|schema| self.node(schema, depth + 1)).collect();
            node.insert("prefixItems".to_owned(), prefix?.into());
            node.insert("items".to_owned(), json!({}));
        }
        if let Some(schema @ (Value::Object(_) | Value::Bool(_))) = items {
            node.insert("items".to_owned(), self.node(schema, depth + 1)?.into());
        }
        Ok(())
    }

    fn combined(&mut self, raw: &Node, node: &mut Node, depth: usize) -> Result<(), SchemaProblem> {
        for key in ["anyOf", "oneOf"] {
            let Some(Value::Array(choices)) = raw.get(key) else { continue };
            let possible = choices.iter().filter(|choice| **choice != Value::Bool(false));
            let choices: Result<Vec<_>, _> =
                possible.map(|choice| self.node(choice, depth + 1).map(Value::Object)).collect();
            let choices = unique(choices?);
            if !choices.is_empty() && !node.contains_key("anyOf") {
                node.insert("anyOf".to_owned(), choices.into());
            }
        }
        if let Some(Value::Array(parts)) = raw.get("allOf") {
            for part in parts {
                merge(node, self.node(part, depth + 1)?);
            }
        }
        if let Some(Value::String(reference)) = raw.get("$ref") {
            merge(node, self.referred(reference, depth)?);
        }
        Ok(())
    }

    /// Follows a reference; one without a target, or out of the schema, gives an unrestricted schema.
    fn referred(&mut self, reference: &str, depth: usize) -> Result<Node, SchemaProblem> {
        let Some(pointer) = reference.strip_prefix('#').map(percent_decoded) else { return Ok(Node::new()) };
        let root = self.root;
        let Some(target) = root.pointer(&pointer) else { return Ok(Node::new()) };
        if self.references.contains(&pointer) || self.references.len() >= MAX_REFERENCES {
            return Ok(recursive(target, &pointer));
        }
        self.references.push(pointer);
        let node = self.node(target, depth);
        self.references.pop();
        node
    }
}

/// Returns the placeholder for a schema inside itself.
fn recursive(target: &Value, pointer: &str) -> Node {
    let name = pointer.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("the whole");
    let mut node = Node::new();
    if target.get("type").is_some_and(|name| name == "object") || target.get("properties").is_some() {
        node.insert("type".to_owned(), "object".into());
    }
    node.insert("description".to_owned(), format!("Again of the same shape as `{name}`.").into());
    node
}

/// Returns the value of a keyword without subschemas, if it is valid.
fn leaf(key: &str, value: &Value) -> Option<Value> {
    let is_valid = match key {
        "type" => return type_names(value),
        "enum" => return enum_values(value),
        "required" => return name_list(value),
        "title" | "description" | "format" => value.as_str().is_some_and(|text| !text.is_empty()),
        "pattern" => value.as_str().is_some_and(pattern::is_common),
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => value.is_boolean(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.as_u64().is_some_and(|number| number <= u64::from(u32::MAX))
        }
        "examples" => value.is_array(),
        "default" | "const" => true,
        _ => false,
    };
    is_valid.then(|| value.clone())
}

fn type_names(value: &Value) -> Option<Value> {
    let names = match value {
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(names) => names,
        _ => return None,
    };
    let names = names.iter().filter_map(|name| type_name(name.as_str()?)).map(Value::from).collect();
    let mut names = unique(names);
    match names.len() {
        0 => None,
        1 => names.pop(),
        _ => Some(names.into()),
    }
}

/// Returns the JSON Schema type for the names that people use.
fn type_name(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "string" | "str" | "text" => "string",
        "integer" | "int" => "integer",
        "number" | "float" | "double" => "number",
        "boolean" | "bool" => "boolean",
        "object" | "dict" | "map" => "object",
        "array" | "list" => "array",
        "null" | "none" => "null",
        _ => return None,
    })
}

fn enum_values(value: &Value) -> Option<Value> {
    let values = unique(value.as_array()?.clone());
    (!values.is_empty()).then(|| values.into())
}

fn name_list(value: &Value) -> Option<Value> {
    let names = value.as_array()?.iter().filter(|name| name.is_string()).cloned().collect();
    Some(unique(names).into())
}

/// Converts constructs of older drafts and OpenAPI into current ones.
fn old_drafts(raw: &Node, node: &mut Node) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if raw.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = node.remove(bound)
        {
            node.insert(exclusive.to_owned(), value);
        }
    }
    let names = types(node);
    if raw.get("nullable") == Some(&Value::Bool(true)) && !names.is_empty() && !names.contains(&"null") {
        let names: Vec<Value> = names.into_iter().chain(["null"]).map(Value::from).collect();
        node.insert("type".to_owned(), names.into());
    }
}
