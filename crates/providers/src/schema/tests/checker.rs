//! The rules of providers, implemented separately from the code that follows them.

use serde_json::Value;

use super::Dialect;

/// Returns why a provider would reject a tool's schema, if it would.
pub(super) fn check(schema: &Value, dialect: Dialect) -> Result<(), String> {
    let root = schema.as_object().ok_or("not an object")?;
    if root.get("type").and_then(Value::as_str) != Some("object") || !root["properties"].is_object() {
        return Err(format!("no object at the top: {schema}"));
    }
    for key in ["anyOf", "oneOf", "allOf", "not", "enum", "const"] {
        if root.contains_key(key) {
            return Err(format!("`{key}` at the top"));
        }
    }
    if dialect == Dialect::Gemini {
        return gemini(schema);
    }
    jsonschema::draft202012::new(schema).map_err(|error| format!("{error}: {schema}"))?;
    standard(schema, dialect)
}

pub(super) fn name_is_fine(name: &str, dialect: Dialect) -> bool {
    let first = name.bytes().next();
    name.len() <= 64
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-'))
        && match dialect {
            Dialect::Gemini => matches!(first, Some(b'a'..=b'z' | b'A'..=b'Z' | b'_')),
            _ => first.is_some(),
        }
}

fn standard(schema: &Value, dialect: Dialect) -> Result<(), String> {
    let Some(node) = schema.as_object() else {
        return schema.as_bool().map(|_| ()).ok_or_else(|| format!("not a schema: {schema}"));
    };
    for (key, value) in node {
        match (key.as_str(), value) {
            ("properties", Value::Object(map)) => {
                for (name, child) in map {
                    if dialect == Dialect::Anthropic && !property_is_fine(name) {
                        return Err(format!("property `{name}`"));
                    }
                    standard(child, dialect)?;
                }
            }
            ("anyOf" | "prefixItems", Value::Array(list)) if !list.is_empty() => {
                list.iter().try_for_each(|child| standard(child, dialect))?;
            }
            ("items" | "additionalProperties", child) => standard(child, dialect)?,
            (key, _) if key.starts_with('$') => return Err(format!("keyword `{key}`")),
            ("definitions" | "nullable" | "allOf" | "oneOf" | "not" | "if" | "anyOf" | "prefixItems", _) => {
                return Err(format!("keyword `{key}`"));
            }
            _ => {}
        }
    }
    let is_array = match node.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        _ => false,
    };
    if is_array && !node.get("items").is_some_and(Value::is_object) {
        return Err(format!("array schema missing items: {schema}"));
    }
    Ok(())
}

fn property_is_fine(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.'))
}

fn gemini(schema: &Value) -> Result<(), String> {
    let reject = |what: &str| Err(format!("{what}: {schema}"));
    let Some(node) = schema.as_object() else { return reject("not an object") };
    if let Some(choices) = node.get("anyOf") {
        let Some(choices) = choices.as_array().filter(|list| list.len() > 1) else {
            return reject("choices");
        };
        if node.len() > 1 {
            return reject("any_of must be the only field");
        }
        return choices.iter().try_for_each(gemini);
    }
    let Some(kind) = node.get("type").and_then(Value::as_str) else { return reject("no type") };
    let format = node.get("format").map(|format| format.as_str().unwrap_or_default());
    let (keys, formats): (&[&str], &[&str]) = match kind {
        "string" => (&["enum", "format"], &["date-time"]),
        "integer" => (&["format", "minimum", "maximum"], &["int32", "int64"]),
        "number" => (&["format", "minimum", "maximum"], &["float", "double"]),
        "boolean" => (&[], &[]),
        "array" => (&["items", "minItems", "maxItems"], &[]),
        "object" => (&["properties", "required"], &[]),
        _ => return reject("unknown type"),
    };
    let common = ["type", "title", "description", "nullable"];
    if let Some(key) =
        node.keys().find(|key| !keys.contains(&key.as_str()) && !common.contains(&key.as_str()))
    {
        return reject(key);
    }
    if format.is_some_and(|format| !formats.contains(&format)) {
        return reject("format");
    }
    if let Some(values) = node.get("enum") {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        if !values.as_array().is_some_and(|values| !values.is_empty() && values.iter().all(is_text)) {
            return reject("enum");
        }
    }
    match kind {
        "array" => node.get("items").map_or_else(|| reject("items: missing field"), gemini),
        "object" => {
            let properties = node.get("properties").and_then(Value::as_object);
            for name in node.get("required").and_then(Value::as_array).into_iter().flatten() {
                if !properties.is_some_and(|map| name.as_str().is_some_and(|name| map.contains_key(name))) {
                    return reject("required: property is not defined");
                }
            }
            properties.into_iter().flatten().try_for_each(|(name, child)| {
                if property_is_fine(name) { gemini(child) } else { Err(format!("property `{name}`")) }
            })
        }
        _ => Ok(()),
    }
}
