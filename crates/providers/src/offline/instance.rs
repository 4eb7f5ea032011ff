//! Generation of a small value that matches a JSON Schema.
//!
//! Only required properties are filled in. `pattern`, `not`, `if`, and `uniqueItems` are ignored, so the value may
//! not match a schema that depends on them. Depth, size, and work are bounded; a schema that cannot be satisfied
//! within the bounds gets `null`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::number::{self, Bounds};

/// Maximum depth of nested schemas, and maximum number of schemas visited in total.
const MAX_DEPTH: u32 = 64;
const MAX_NODES: u32 = 5_000;
/// Maximum number of values copied to merge schemas.
const MAX_MERGED: usize = 200_000;
/// Maximum length of strings and of lists.
const MAX_STRING: u64 = 65_536;
const MAX_LIST: u64 = 1_000;

type Object = Map<String, Value>;

/// Creates a value that matches `schema`.
pub(super) fn instance(schema: &Value) -> Value {
    let mut generator = Generator {
        root: schema,
        open_refs: vec!["#".to_owned()],
        nodes: MAX_NODES,
        merged: MAX_MERGED,
        depth: MAX_DEPTH,
    };
    generator.make(schema).unwrap_or(Value::Null)
}

struct Generator<'a> {
    root: &'a Value,
    /// References on the path from the root to here. The smallest value never needs one of them again.
    open_refs: Vec<String>,
    nodes: u32,
    merged: usize,
    depth: u32,
}

impl<'a> Generator<'a> {
    fn make(&mut self, schema: &Value) -> Option<Value> {
        match schema {
            Value::Bool(true) => Some(Value::Null),
            Value::Object(schema) => self.make_object_schema(schema),
            _ => None,
        }
    }

    fn make_object_schema(&mut self, schema: &Object) -> Option<Value> {
        self.nodes = self.nodes.checked_sub(1)?;
        self.depth = self.depth.checked_sub(1)?;
        let value = self.make_any(schema);
        self.depth += 1;
        value
    }

    fn make_any(&mut self, schema: &Object) -> Option<Value> {
        if let Some(reference) = schema.get("$ref") {
            return self.follow(schema, reference.as_str()?);
        }
        if let Some(Value::Array(all)) = schema.get("allOf") {
            let mut merged = without(schema, "allOf");
            for part in all {
                let part = self.open(part)?;
                merged = self.merge(merged, &part)?;
            }
            return self.make_object_schema(&merged);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = schema.get(key) {
                let rest = without(schema, key);
                return branches.iter().find_map(|branch| match branch {
                    Value::Object(branch) => {
                        self.charge(&rest)?;
                        let merged = self.merge(rest.clone(), branch)?;
                        self.make_object_schema(&merged)
                    }
                    Value::Bool(true) => self.make_object_schema(&rest),
                    _ => None,
                });
            }
        }
        supplied(schema).or_else(|| self.make_typed(schema))
    }

    fn follow(&mut self, schema: &Object, reference: &str) -> Option<Value> {
        if self.open_refs.iter().any(|open| open == reference) {
            return None;
        }
        let target = self.resolve(reference)?;
        let merged = match target {
            Value::Object(target) => {
                self.charge(target)?;
                self.merge(target.clone(), &without(schema, "$ref"))?
            }
            Value::Bool(true) => without(schema, "$ref"),
            _ => return None,
        };
        self.open_refs.push(reference.to_owned());
        let value = self.make_object_schema(&merged);
        self.open_refs.pop();
        value
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// Returns a part of an `allOf` with its references resolved.
    fn open(&mut self, part: &Value) -> Option<Object> {
        let mut part = match part {
            Value::Object(part) => part.clone(),
            Value::Bool(true) => Object::new(),
            _ => return None,
        };
        for _ in 0..MAX_DEPTH {
            let Some(reference) = part.get("$ref") else {
                return Some(part);
            };
            let target = self.resolve(reference.as_str()?)?.as_object()?;
            self.charge(target)?;
            part = self.merge(target.clone(), &without(&part, "$ref"))?;
        }
        None
    }

    /// Merges two schemas into one that requires what both require.
    fn merge(&mut self, mut a: Object, b: &Object) -> Option<Object> {
        self.charge(b)?;
        merge(&mut a, b);
        Some(a)
    }

    /// Counts the values of a schema that is copied.
    fn charge(&mut self, schema: &Object) -> Option<()> {
        self.merged = self.merged.checked_sub(schema.values().map(count).sum())?;
        Some(())
    }

    fn make_typed(&mut self, schema: &Object) -> Option<Value> {
        match schema.get("type") {
            Some(Value::String(name)) => self.make_type(schema, name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).find_map(|name| self.make_type(schema, name))
            }
            _ => self.make_type(schema, implied_type(schema)),
        }
    }

    fn make_type(&mut self, schema: &Object, name: &str) -> Option<Value> {
        match name {
            "null" => Some(Value::Null),
            "boolean" => Some(Value::Bool(false)),
            "integer" => number::integer(&Bounds::from_schema(schema)),
            "number" => number::number(&Bounds::from_schema(schema)),
            "string" => string(schema),
            "array" => self.list(schema),
            "object" => self.object(schema),
            _ => None,
        }
    }

    fn list(&mut self, schema: &Object) -> Option<Value> {
        let count = size(schema, "minItems");
        if count > MAX_LIST {
            return None;
        }
        let any = Value::Bool(true);
        let (first, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(first)), rest) => (first.as_slice(), rest),
            // Older drafts have the list under `items`.
            (_, Some(Value::Array(first))) => (first.as_slice(), schema.get("additionalItems")),
            (_, rest) => ([].as_slice(), rest),
        };
        let rest = std::iter::repeat(rest.unwrap_or(&any));
        let schemas = first.iter().chain(rest).take(usize::try_from(count).ok()?);
        schemas.map(|schema| self.make(schema)).collect()
    }

    fn object(&mut self, schema: &Object) -> Option<Value> {
        let empty = Object::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required: BTreeSet<_> = strings(schema.get("required")).into_iter().collect();
        let mut values = Object::new();
        for (name, property) in properties {
            if required.contains(name.as_str()) {
                values.insert(name.clone(), self.make(property)?);
            }
        }
        let any = Value::Bool(true);
        let other = schema.get("additionalProperties").unwrap_or(&any);
        for name in required {
            if !values.contains_key(name) {
                values.insert(name.to_owned(), self.make(other)?);
            }
        }
        let minimum = size(schema, "minProperties");
        if minimum > MAX_LIST {
            return None;
        }
        let mut optional = properties.iter();
        let mut number = 0;
        while (values.len() as u64) < minimum {
            let (name, property) = optional.next().map_or_else(
                || {
                    number += 1;
                    (Cow::Owned(format!("property{number}")), other)
                },
                |(name, property)| (Cow::Borrowed(name), property),
            );
            if !values.contains_key(&*name) {
                values.insert(name.into_owned(), self.make(property)?);
            }
        }
        Some(Value::Object(values))
    }
}

/// Returns a value that the schema itself supplies.
fn supplied(schema: &Object) -> Option<Value> {
    if let Some(value) = schema.get("const") {
        return Some(value.clone());
    }
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        return values.iter().find(|value| is_valid(value, schema)).cloned();
    }
    let examples = list("examples").into_iter().flatten();
    let mut candidates = schema.get("default").into_iter().chain(examples);
    candidates.find(|value| is_valid(value, schema)).cloned()
}

/// Returns `true` if a value supplied by the schema has the right type; authors are not always careful.
fn is_valid(value: &Value, schema: &Object) -> bool {
    let types = types(schema.get("type"));
    let has_type = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    let is_complete = |object: &Object| {
        let required = strings(schema.get("required"));
        required.iter().all(|name| object.contains_key(*name))
    };
    (types.is_empty() || types.iter().any(has_type)) && value.as_object().is_none_or(is_complete)
}

fn implied_type(schema: &Object) -> &'static str {
    const KEYS: [(&str, &str); 14] = [
        ("properties", "object"),
        ("required", "object"),
        ("additionalProperties", "object"),
        ("minProperties", "object"),
        ("items", "array"),
        ("prefixItems", "array"),
        ("minItems", "array"),
        ("minLength", "string"),
        ("format", "string"),
        ("pattern", "string"),
        ("minimum", "number"),
        ("maximum", "number"),
        ("exclusiveMinimum", "number"),
        ("multipleOf", "number"),
    ];
    let known = KEYS.iter().find(|(key, _)| schema.contains_key(*key));
    known.map_or("null", |(_, name)| name)
}

fn string(schema: &Object) -> Option<Value> {
    let min_length = size(schema, "minLength");
    if min_length > MAX_STRING {
        return None;
    }
    let mut text = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("date") => "2026-01-01",
        Some("time") => "00:00:00Z",
        Some("duration") => "PT0S",
        Some("email" | "idn-email") => "user@example.com",
        Some("uri" | "url" | "iri" | "uri-reference") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("hostname") => "example.com",
        Some("ipv4") => "127.0.0.1",
        Some("ipv6") => "::1",
        _ => "",
    }
    .to_owned();
    let missing = usize::try_from(min_length).ok()?.saturating_sub(text.len());
    text.extend(std::iter::repeat_n('x', missing));
    Some(Value::String(text))
}

/// Merges a schema into another, which then requires what both require; if there is no simple form, `b` wins.
fn merge(a: &mut Object, b: &Object) {
    for (key, value) in b {
        match a.get_mut(key) {
            Some(first) => join(key, first, value),
            None => drop(a.insert(key.clone(), value.clone())),
        }
    }
}

fn join(key: &str, a: &mut Value, b: &Value) {
    let keep_a = match (key, &mut *a, b) {
        ("properties", Value::Object(a), Value::Object(b)) => {
            for (name, schema) in b {
                match (a.get_mut(name), schema) {
                    (Some(Value::Object(a)), Value::Object(b)) => merge(a, b),
                    _ => drop(a.insert(name.clone(), schema.clone())),
                }
            }
            true
        }
        ("required" | "allOf", Value::Array(a), Value::Array(b)) => {
            a.extend_from_slice(b);
            true
        }
        ("enum", Value::Array(a), Value::Array(b)) => {
            a.retain(|value| b.contains(value));
            true
        }
        ("type", a, b) => {
            *a = common_types(a, b);
            true
        }
        ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", a, b) => {
            a.as_f64() > b.as_f64()
        }
        ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems", a, b) => a.as_f64() < b.as_f64(),
        _ => false,
    };
    if !keep_a {
        *a = b.clone();
    }
}

/// Returns the number of values in a value.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

fn common_types(a: &Value, b: &Value) -> Value {
    let (a, b) = (types(Some(a)), types(Some(b)));
    let fits =
        |name: &str, list: &[&str]| list.contains(&name) || name == "integer" && list.contains(&"number");
    let from_a = a.iter().filter(|name| fits(name, &b));
    let from_b = b.iter().filter(|name| fits(name, &a) && !a.contains(name));
    from_a.chain(from_b).map(|name| Value::String((*name).to_owned())).collect()
}

fn types(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(name)) => vec![name],
        value => strings(value),
    }
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

fn size(schema: &Object, key: &str) -> u64 {
    let value = schema.get(key).and_then(Value::as_f64);
    value.map_or(0, |size| size.max(0.0) as u64)
}

fn without(schema: &Object, key: &str) -> Object {
    schema
        .iter()
        .filter(|(name, _)| *name != key)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
