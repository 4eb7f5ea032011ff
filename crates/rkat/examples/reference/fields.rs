//! Rendering of JSON Schemas as table rows.

use serde_json::Value;

/// Describes the type of a value.
pub(crate) fn kind(schema: &Value) -> String {
    let mut all = words(schema);
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|word| seen.insert(word.clone()));
    match all.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => all.concat(),
    }
}

/// Lists the possible types and literals of a value.
fn words(schema: &Value) -> Vec<String> {
    let list = |key: &str| schema[key].as_array();
    let literal = |value: &Value| match value {
        Value::Null => "null".to_owned(),
        value => format!("`{value}`"),
    };
    if let Some(value) = schema.get("const") {
        return vec![literal(value)];
    }
    if let Some(values) = list("enum") {
        return values.iter().map(literal).collect();
    }
    if let Some(choices) = list("oneOf").or_else(|| list("anyOf")) {
        return choices.iter().flat_map(words).collect();
    }
    match types(schema).as_slice() {
        [] => vec!["any JSON".to_owned()],
        types => types.iter().map(|name| type_name(name, schema)).collect(),
    }
}

/// Returns the meaning of a value.
pub(crate) fn about(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace('\n', " ").replace('|', "\\|")
}

/// Lists the fields of an object, including nested objects: path, type, whether it is required, and meaning.
pub(crate) fn rows(schema: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    add(&mut rows, "", schema);
    rows
}

fn add(rows: &mut Vec<Vec<String>>, path: &str, schema: &Value) {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // A constant field is part of the path.
        if property.get("const").is_some() {
            continue;
        }
        let path = format!("{path}{name}");
        let needed = if is_required(name) { "yes" } else { "" };
        rows.push(vec![format!("`{path}`"), kind(property), needed.to_owned(), about(property)]);
        add_inside(rows, &path, property);
    }
}

fn add_inside(rows: &mut Vec<Vec<String>>, path: &str, schema: &Value) {
    if schema["items"].is_object() {
        add_inside(rows, &format!("{path}[]"), &schema["items"]);
    }
    add(rows, &format!("{path}."), schema);
    for choice in ["oneOf", "anyOf"].iter().filter_map(|key| schema[key].as_array()).flatten() {
        let tag = tag(choice);
        let mut choice = choice.clone();
        // Without a tag, no field is present in every choice.
        if let Some(object) = choice.as_object_mut().filter(|_| tag.is_empty()) {
            object.remove("required");
        }
        add_inside(rows, &tagged(path, &tag), &choice);
    }
}

/// Returns a tag that identifies a choice: its field with a constant value.
fn tag(choice: &Value) -> String {
    let fields = choice["properties"].as_object().into_iter().flatten();
    let fixed = fields.filter_map(|(name, field)| Some((name, field["const"].as_str()?))).next();
    fixed.map_or(String::new(), |(name, value)| format!("{name}: {value}"))
}

/// Adds a tag to a path: `messages[role: user]`.
fn tagged(path: &str, tag: &str) -> String {
    match path.strip_suffix(']') {
        _ if tag.is_empty() => path.to_owned(),
        Some(open) if open.ends_with('[') => format!("{open}{tag}]"),
        Some(open) => format!("{open}, {tag}]"),
        None => format!("{path}[{tag}]"),
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns `true` for a text such as `30s`, or a number of milliseconds.
fn is_duration(schema: &Value) -> bool {
    schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("(ms|s|m|h)"))
}

fn type_name(name: &str, schema: &Value) -> String {
    match name {
        "string" | "integer" if is_duration(schema) => "duration".to_owned(),
        "integer" => format!("integer{}", bounds(schema)),
        "array" => format!("array of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind(&schema["additionalProperties"]))
        }
        name => name.to_owned(),
    }
}

/// Returns the bounds of a number, except those that its width implies.
fn bounds(schema: &Value) -> String {
    let least = schema["minimum"].as_u64().filter(|least| *least > 0);
    let most = schema["maximum"].as_u64().filter(|most| *most < u64::from(u32::MAX));
    match (least, most) {
        (Some(least), Some(most)) if least == most => format!(" {least}"),
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" from {least}"),
        (None, Some(most)) => format!(" up to {most}"),
        (None, None) => String::new(),
    }
}
