//! Values of wrong types for every field of every tool, generated from the tools' own schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::support::{TestEnv, UNKNOWN_SESSION, assert_answers};

#[test]
fn wrong_types_are_rejected_with_field_name() {
    let env = TestEnv::new();
    let mut client = env.server();
    let listed = client.request("tools/list", json!({}));
    assert!(listed["result"]["nextCursor"].is_null(), "there are more tools on another page");
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    let mut tried = 0;
    let mut failures = Vec::new();
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        let cases = wrong_objects(&tool["inputSchema"], "");
        for field in
            tool["inputSchema"]["properties"].as_object().into_iter().flatten().map(|(field, _)| field)
        {
            let is_tried = cases.iter().any(|(path, _)| path == field);
            if !is_tried {
                failures.push(format!("{name}: no wrong value is known for `{field}`"));
            }
        }
        for (path, arguments) in cases {
            let reply = client.tool(name, arguments.clone());
            tried += 1;
            let message = reply.payload["message"].as_str().unwrap_or_default();
            // A list instead of an object may be rejected because of its items.
            let named =
                message.starts_with(&format!("`{path}`")) || message.starts_with(&format!("`{path}["));
            if !reply.is_error || reply.payload["code"] != "INVALID_PARAMS" || !named {
                failures
                    .push(format!("{name} {arguments}: expected `{path}` to be rejected: {}", reply.payload));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {tried}:\n{}", failures.len(), failures.join("\n"));
    assert!(tried > 300, "only {tried} cases: the schemas were not parsed correctly");
    assert_eq!(
        client.expect_tool("meerkat_sessions", json!({})),
        json!({ "sessions": [] }),
        "a run was started"
    );
    assert_answers(&mut client);
}

#[test]
fn missing_field_is_named() {
    let env = TestEnv::new();
    let mut client = env.server();
    let listed = client.request("tools/list", json!({}));
    for tool in listed["result"]["tools"].as_array().expect("tools") {
        let name = tool["name"].as_str().expect("a name");
        let schema = &tool["inputSchema"];
        for missing in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let mut arguments = required(schema);
            arguments.shift_remove(missing);
            let reply = client.tool(name, Value::Object(arguments));
            assert_eq!(
                reply.payload["code"], "INVALID_PARAMS",
                "{name} without {missing}: {}",
                reply.payload
            );
            let message = reply.payload["message"].as_str().unwrap_or_default();
            assert!(message.contains(&format!("`{missing}`")), "{name} without {missing}: {message}");
        }
    }
    assert_answers(&mut client);
}

#[test]
fn list_instead_of_object_is_rejected() {
    let env = TestEnv::new();
    let mut client = env.server();
    for (field, list) in [
        ("budget_limits", json!([])),
        ("budget_limits", json!([5, 6, 7])),
        ("builtin_config", json!([null, null])),
        ("tools", json!([["f", "d", {}, null]])),
    ] {
        let reply = client.tool("meerkat_run", json!({ "prompt": "say hi", field: list }));
        assert_eq!(reply.payload["code"], "INVALID_PARAMS", "`{field}` as {list}: {}", reply.payload);
    }
}

/// Builds values that violate a schema, each with the path of the error.
fn wrong(schema: &Value, path: &str) -> Vec<(String, Value)> {
    let types = types(schema);
    let candidates = [
        ("null", json!(null)),
        ("boolean", json!(true)),
        ("integer", json!(5)),
        ("number", json!(1.5)),
        ("negative", json!(-1)),
        ("string", json!("text")),
        ("array", json!([[]])),
        ("object", json!({ "no": { "such": "thing" } })),
    ];
    let fits = |kind: &str| match kind {
        "integer" => types.contains("integer") || types.contains("number"),
        "negative" => types.contains("number"),
        kind => types.contains(kind),
    };
    let mut wrong: Vec<_> = candidates
        .into_iter()
        .filter(|(kind, _)| !fits(kind))
        .map(|(_, value)| (path.to_owned(), value))
        .collect();
    wrong.extend(wrong_objects(schema, path));
    if let Some(items) = schema.get("items") {
        wrong.extend(
            self::wrong(items, &format!("{path}[0]")).into_iter().map(|(path, value)| (path, json!([value]))),
        );
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        let inside = self::wrong(values, &format!("{path}.key"));
        wrong.extend(inside.into_iter().map(|(path, value)| (path, json!({ "key": value }))));
    }
    wrong
}

/// Builds objects with one invalid field each.
fn wrong_objects(schema: &Value, path: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let field = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        for (path, value) in wrong(property, &field) {
            let mut object = required(schema);
            object.insert(name.clone(), value);
            found.push((path, Value::Object(object)));
        }
    }
    found
}

/// Builds the required fields of an object.
fn required(schema: &Value) -> Map<String, Value> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| (name.to_owned(), valid_value(name, &schema["properties"][name]))).collect()
}

fn valid_value(name: &str, schema: &Value) -> Value {
    let types = types(schema);
    if schema["pattern"].as_str().is_some_and(|pattern| pattern.starts_with("^([0-9a-fA-F]{32}|")) {
        json!(UNKNOWN_SESSION)
    } else if let Some(only) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        only.clone()
    } else if let Some(first) = schema["oneOf"].get(0).and_then(|one| one.get("const")) {
        first.clone()
    } else if types.contains("object") {
        Value::Object(required(schema))
    } else if types.contains("array") {
        json!([])
    } else if types.contains("boolean") {
        json!(false)
    } else {
        assert!(types.contains("string"), "no value is known for `{name}`: {schema}");
        json!("text")
    }
}

/// Returns the types that a schema accepts.
fn types(schema: &Value) -> BTreeSet<String> {
    let own = match &schema["type"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let unions = ["anyOf", "oneOf"].into_iter().filter_map(|union| schema[union].as_array());
    own.into_iter().chain(unions.flatten().flat_map(types)).collect()
}
