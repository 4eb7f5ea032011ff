//! Gemini's subset: every schema has one type or is a choice, and few keywords are supported.
//!
//! The output is valid both as a JSON Schema and in the older OpenAPI subset. What the subset cannot express but a
//! model can use (numeric enums, defaults, the values of a map) goes into the description.

use serde_json::{Value, json};

use super::merge::{merge, unique};
use super::{MAX_NODES, Node, SchemaProblem, allowed_values, types};

/// Maximum length of a note in the description, in bytes; longer ones are dropped.
const MAX_NOTE: usize = 400;

/// Lowers a plain schema.
pub(super) fn lower(node: Node) -> Result<Node, SchemaProblem> {
    Lower { nodes: 0 }.node(node)
}

struct Lower {
    nodes: usize,
}

impl Lower {
    fn node(&mut self, mut node: Node) -> Result<Node, SchemaProblem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let what = format!("more than {MAX_NODES} nested schemas for gemini");
            return Err(SchemaProblem::new("input_schema", what));
        }
        if let Some(Value::Array(choices)) = node.remove("anyOf") {
            return self.choice(&node, choices);
        }
        let names: Vec<String> = types(&node).into_iter().map(str::to_owned).collect();
        let is_nullable = names.iter().any(|name| name == "null");
        let mut kinds: Vec<String> = names.into_iter().filter(|name| name != "null").collect();
        if kinds.is_empty() {
            kinds = if is_nullable { vec!["string".to_owned()] } else { implied(&node) };
        }
        node.remove("type");
        if let [kind] = kinds.as_slice() {
            let mut single = self.single(node, kind)?;
            if is_nullable {
                single.insert("nullable".to_owned(), Value::Bool(true));
            }
            return Ok(single);
        }
        let null = is_nullable.then_some("null");
        let choices = kinds.iter().map(String::as_str).chain(null).map(|kind| json!({ "type": kind }));
        self.choice(&node, choices.collect())
    }

    /// Lowers a choice. It cannot have other keywords, so its siblings are merged into each member.
    fn choice(&mut self, siblings: &Node, choices: Vec<Value>) -> Result<Node, SchemaProblem> {
        let mut members = Vec::with_capacity(choices.len());
        let mut is_nullable = false;
        for choice in choices {
            let Value::Object(mut choice) = choice else { continue };
            if types(&choice) == ["null"] {
                is_nullable = true;
                continue;
            }
            merge(&mut choice, siblings.clone());
            let mut member = self.node(choice)?;
            match member.remove("anyOf") {
                Some(Value::Array(inner)) => members.extend(inner),
                _ => members.push(Value::Object(member)),
            }
        }
        if members.is_empty() {
            members.push(self.single(siblings.clone(), "string")?.into());
        }
        if is_nullable {
            for member in &mut members {
                member["nullable"] = Value::Bool(true);
            }
        }
        let mut members = unique(members);
        if members.len() == 1
            && let Some(Value::Object(only)) = members.pop()
        {
            return Ok(only);
        }
        let mut node = Node::new();
        node.insert("anyOf".to_owned(), members.into());
        Ok(node)
    }

    fn single(&mut self, mut node: Node, kind: &str) -> Result<Node, SchemaProblem> {
        let mut out = Node::new();
        let mut notes = Vec::new();
        out.insert("type".to_owned(), kind.into());
        out.extend(node.remove_entry("title"));
        values(&mut node, kind, &mut out, &mut notes);
        match kind {
            "string" => keep_format(&node, &mut out, &["date-time"]),
            "integer" => keep_format(&node, &mut out, &["int32", "int64"]),
            "number" => keep_format(&node, &mut out, &["float", "double"]),
            "array" => self.array(&mut node, &mut out)?,
            "object" => self.object(&mut node, &mut out, &mut notes)?,
            _ => {}
        }
        if matches!(kind, "integer" | "number") {
            bounds(&mut node, &mut out);
        }
        if let Some(default) = node.remove("default").filter(|value| !value.is_null()) {
            notes.push(format!("Default: {default}."));
        }
        describe(&mut node, &mut out, notes);
        Ok(out)
    }

    fn array(&mut self, node: &mut Node, out: &mut Node) -> Result<(), SchemaProblem> {
        for key in ["minItems", "maxItems"] {
            out.extend(node.remove_entry(key));
        }
        let items = match (node.remove("prefixItems"), node.remove("items")) {
            (Some(Value::Array(prefix)), _) => self.choice(&Node::new(), prefix)?,
            (_, Some(Value::Object(items))) => self.node(items)?,
            _ => self.node(Node::new())?,
        };
        out.insert("items".to_owned(), items.into());
        Ok(())
    }

    fn object(
        &mut self,
        node: &mut Node,
        out: &mut Node,
        notes: &mut Vec<String>,
    ) -> Result<(), SchemaProblem> {
        let mut properties = Node::new();
        if let Some(Value::Object(map)) = node.remove("properties") {
            for (name, schema) in map {
                let schema = if let Value::Object(schema) = schema { schema } else { Node::new() };
                properties.insert(name, self.node(schema)?.into());
            }
        }
        if let Some(Value::Array(mut required)) = node.remove("required") {
            required.retain(|name| name.as_str().is_some_and(|name| properties.contains_key(name)));
            if !required.is_empty() {
                out.insert("required".to_owned(), required.into());
            }
        }
        if let Some(Value::Object(values)) = node.remove("additionalProperties")
            && !values.is_empty()
        {
            notes.push(format!("Each further value fits {}.", Value::Object(values)));
        }
        if !properties.is_empty() {
            out.insert("properties".to_owned(), properties.into());
        }
        Ok(())
    }
}

/// Infers the types of a schema that names none.
fn implied(node: &Node) -> Vec<String> {
    let has = |keys: &[&str]| keys.iter().any(|key| node.contains_key(*key));
    let kinds: &[&str] = if has(&["properties", "required", "additionalProperties"]) {
        &["object"]
    } else if has(&["items", "prefixItems"]) {
        &["array"]
    } else if let Some(kind) = allowed_values(node).and_then(|values| common_kind(&values)) {
        return vec![kind.to_owned()];
    } else if has(&["pattern", "minLength", "maxLength", "format"]) {
        &["string"]
    } else if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
        &["number"]
    } else {
        &["string", "number", "boolean", "object"]
    };
    kinds.iter().map(|kind| (*kind).to_owned()).collect()
}

fn common_kind(values: &[Value]) -> Option<&'static str> {
    let kind = |value: &Value| match value {
        Value::String(_) => Some("string"),
        Value::Bool(_) => Some("boolean"),
        Value::Number(number) if number.is_f64() => Some("number"),
        Value::Number(_) => Some("integer"),
        _ => None,
    };
    let mut kinds = values.iter().filter(|value| !value.is_null()).map(kind);
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

/// Lowers enums: only strings can be enumerated; other values go into the description.
fn values(node: &mut Node, kind: &str, out: &mut Node, notes: &mut Vec<String>) {
    let Some(mut values) = allowed_values(node) else { return };
    if values.iter().any(Value::is_null) {
        out.insert("nullable".to_owned(), Value::Bool(true));
        values.retain(|value| !value.is_null());
    }
    if kind == "string" && values.iter().all(Value::is_string) {
        values.retain(|value| value != "");
        if !values.is_empty() {
            out.insert("enum".to_owned(), values.into());
        }
    } else if !values.is_empty() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        notes.push(format!("One of: {}.", values.join(", ")));
    }
}

fn keep_format(node: &Node, out: &mut Node, known: &[&str]) {
    if let Some(Value::String(format)) = node.get("format")
        && known.contains(&format.as_str())
    {
        out.insert("format".to_owned(), format.clone().into());
    }
}

fn bounds(node: &mut Node, out: &mut Node) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if let Some(value) = node.remove(bound).or_else(|| node.remove(exclusive)) {
            out.insert(bound.to_owned(), value);
        }
    }
}

fn describe(node: &mut Node, out: &mut Node, notes: Vec<String>) {
    let text = match node.remove("description") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let short = notes.into_iter().filter(|note| note.len() <= MAX_NOTE);
    let parts: Vec<String> = text.into_iter().chain(short).collect();
    if !parts.is_empty() {
        out.insert("description".to_owned(), parts.join(" ").into());
    }
}
