//! The exact descriptions and schemas of the functions and trigger types.

use meerkat_registry::{functions, trigger_types};
use serde_json::{Value, json};

use crate::support::{refusal, registry};

fn by_name(value: &Value) -> Vec<Value> {
    let mut entries = value.as_array().unwrap().clone();
    entries.sort_by_key(|entry| entry["name"].as_str().unwrap().to_owned());
    entries
}

#[test]
fn descriptions_and_schemas_match_the_reference() {
    let reference: Value = serde_json::from_str(include_str!("api_reference.json")).unwrap();
    let function = |function: &meerkat_registry::Descriptor| {
        json!({
            "name": function.id,
            "description": function.description,
            "metadata": {},
            "request_schema": function.request_format,
            "response_schema": function.response_format,
        })
    };
    let actual: Value = functions().iter().map(function).collect::<Vec<_>>().into();
    let (mut actual, mut expected) = (by_name(&actual), by_name(&reference["functions"]));
    // The order of required fields is irrelevant.
    for schema in actual.iter_mut().chain(&mut expected) {
        if let Some(required) = schema["request_schema"].get_mut("required").and_then(Value::as_array_mut) {
            required.sort_by_key(ToString::to_string);
        }
    }
    assert_eq!(actual, expected);
    let kinds: Vec<_> = trigger_types()
        .map(|kind| {
            json!({
                "name": kind.id, "description": kind.description,
                "invocation_schema": {}, "return_schema": {}, "metadata": {},
            })
        })
        .to_vec();
    assert_eq!(by_name(&Value::from(kinds)), by_name(&reference["triggers"]));
}

#[tokio::test]
async fn invalid_input_returns_the_decoder_error() {
    let (registry, _) = registry();
    for (function, data, expected) in [
        ("skills::register", json!({ "id": "a" }), "missing field `skill`"),
        ("skills::register", json!({ "skill": "x" }), "missing field `id`"),
        ("skills::register", json!(null), "invalid type: null, expected struct RegisterSkillInput"),
        (
            "skills::register",
            json!({ "id": 3, "skill": "x" }),
            "invalid type: integer `3`, expected a string",
        ),
        ("skills::unregister", json!({}), "missing field `id`"),
        ("skills::list", json!(null), "invalid type: null, expected struct ListSkillsInput"),
        ("skills::resources-list", json!(3), "invalid type: integer `3`, expected struct EmptyInput"),
        ("skills::resources-read", json!({}), "missing field `uri`"),
        ("skills::resources-templates", json!("x"), "invalid type: string \"x\", expected struct EmptyInput"),
        ("prompts::register", json!({ "name": "a", "description": "b" }), "missing field `function_id`"),
        ("prompts::unregister", json!({}), "missing field `name`"),
        ("prompts::list", json!(null), "invalid type: null, expected struct ListPromptsInput"),
        ("prompts::mcp-list", json!(null), "invalid type: null, expected struct EmptyInput"),
        ("prompts::mcp-get", json!({}), "missing field `name`"),
        ("skills::rename", json!({}), "`skills::rename` is not a function of the registry"),
    ] {
        assert_eq!(refusal(&registry, function, data).await, expected, "{function}");
    }
}

#[tokio::test]
async fn functions_without_input_accept_any_object() {
    let (registry, _) = registry();
    for function in [
        "skills::list",
        "skills::resources-list",
        "skills::resources-templates",
        "prompts::list",
        "prompts::mcp-list",
    ] {
        for data in [json!({}), json!({ "_caller_worker_id": "x" }), json!([])] {
            registry.call(function, data).await.unwrap();
        }
    }
}
