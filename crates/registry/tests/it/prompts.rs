//! Prompts: registration, and conversion of a handler's result to messages.

use meerkat_registry::Kind;
use serde_json::{Value, json};

use crate::support::{Answer, NOW, refusal, registry};

fn prompt(name: &str, description: &str, arguments: &Value, function: &str) -> Value {
    json!({ "name": name, "description": description, "arguments": arguments, "function_id": function })
}

#[tokio::test]
async fn invalid_prompt_reports_the_first_violation() {
    let (registry, bus) = registry();
    let none = json!([]);
    for (data, expected) in [
        (prompt("", "", &none, ""), "name must be non-empty".to_owned()),
        (prompt(&"a".repeat(65), "", &none, ""), "name too long (65 chars; max 64)".to_owned()),
        (
            prompt("a::b", "", &none, ""),
            "name may only contain lowercase ASCII letters, digits, '-' and '_': \"a::b\"".to_owned(),
        ),
        (prompt("a", " \n", &none, ""), "description must be non-empty".to_owned()),
        (prompt("a", "b", &json!([{ "name": "" }]), " "), "function_id must be non-empty".to_owned()),
        (prompt("a", "b", &json!([{ "name": " " }]), "f"), "argument name must be non-empty".to_owned()),
        (
            prompt("a", "b", &json!([{ "name": "x" }, { "name": "x" }, { "name": "" }]), "f"),
            "duplicate argument name: x".to_owned(),
        ),
        (
            prompt("a", "b", &json!([{ "name": "x" }, { "name": "" }, { "name": "x" }]), "f"),
            "argument name must be non-empty".to_owned(),
        ),
    ] {
        assert_eq!(refusal(&registry, "prompts::register", data).await, expected);
    }
    assert_eq!(
        refusal(&registry, "prompts::unregister", json!({ "name": "A" })).await,
        "name may only contain lowercase ASCII letters, digits, '-' and '_': \"A\""
    );
    assert!(bus.values.lock().unwrap().is_empty());
}

#[tokio::test]
async fn prompt_is_stored_verbatim_and_listed() {
    let (registry, bus) = registry();
    let arguments = json!([{ "name": "to", "description": "Who", "required": true }, { "name": "cc" }]);
    let answer = registry.call("prompts::register", prompt("send", " Send ", &arguments, " f ")).await;
    assert_eq!(answer.unwrap(), json!({ "name": "send", "registered_at": NOW }));
    let bare = json!({ "name": "bare", "description": "Bare", "function_id": "engine::x" });
    registry.call("prompts::register", bare).await.unwrap();
    bus.put("prompts", "junk", json!({ "name": "junk" }));

    let stored = bus.values.lock().unwrap()[&("prompts".to_owned(), "send".to_owned())].clone();
    let full = json!([{ "name": "to", "description": "Who", "required": true }, { "name": "cc", "required": false }]);
    let mut expected = prompt("send", " Send ", &full, " f ");
    expected["registered_at"] = json!(NOW);
    assert_eq!(stored, expected);
    assert_eq!(
        registry.call("prompts::list", json!({})).await.unwrap(),
        json!({ "prompts": [
            { "name": "bare", "function_id": "engine::x", "arguments": 0, "registered_at": NOW },
            { "name": "send", "function_id": " f ", "arguments": 2, "registered_at": NOW },
        ] })
    );
    assert_eq!(
        registry.call("prompts::mcp-list", json!({})).await.unwrap(),
        json!({ "prompts": [
            { "name": "bare", "description": "Bare", "arguments": [] },
            { "name": "send", "description": " Send ", "arguments": full },
        ] })
    );
    let remove = || registry.call("prompts::unregister", json!({ "name": "send" }));
    assert_eq!(remove().await.unwrap(), json!({ "name": "send", "removed": true }));
    assert_eq!(remove().await.unwrap(), json!({ "name": "send", "removed": false }));

    *bus.broken.lock().unwrap() = Some("no");
    assert_eq!(registry.call("prompts::mcp-list", json!({})).await.unwrap(), json!({ "prompts": [] }));
    assert_eq!(refusal(&registry, "prompts::list", json!({})).await, "remote error (LIST_ERROR): no");
}

#[tokio::test]
async fn handler_gets_arguments_and_returns_messages() {
    let (registry, bus) = registry();
    let registered =
        prompt("greet", "Greet a person.", &json!([{ "name": "who", "required": true }]), "demo::greet");
    registry.call("prompts::register", registered).await.unwrap();
    let user = |text: &str| json!([{ "role": "user", "content": { "type": "text", "text": text } }]);
    for (answer, messages) in [
        (json!("Hi"), user("Hi")),
        (json!({ "content": "Hi" }), user("Hi")),
        (json!({ "content": "no", "messages": [1, null] }), json!([1, null])),
    ] {
        bus.answer("demo::greet", Answer::Value(answer));
        let got = registry.call("prompts::mcp-get", json!({ "name": "greet" })).await.unwrap();
        assert_eq!(got, json!({ "description": "Greet a person.", "messages": messages }));
    }
    bus.calls.lock().unwrap().clear();
    for (data, passed) in [
        (json!({ "name": "greet" }), json!({})),
        (json!({ "name": "greet", "arguments": null }), json!({})),
        (json!({ "name": "greet", "arguments": { "other": 1 } }), json!({ "other": 1 })),
        (json!({ "name": "greet", "arguments": [1] }), json!([1])),
        (json!({ "name": "greet", "arguments": "x" }), json!("x")),
    ] {
        registry.call("prompts::mcp-get", data).await.unwrap();
        assert_eq!(bus.calls.lock().unwrap().pop(), Some(("demo::greet".to_owned(), passed)));
    }
}

#[tokio::test(start_paused = true)]
async fn failed_prompt_returns_the_reason() {
    let (registry, bus) = registry();
    for (name, function) in [("reserved", "skills::list"), ("blank", "a b"), ("good", "demo::x")] {
        registry.call("prompts::register", prompt(name, "d", &json!([]), function)).await.unwrap();
    }
    bus.put("prompts", "odd", json!({ "name": "odd" }));
    let shape =
        "prompt handler returned unsupported shape; expected string, { content }, or { messages: [...] }";
    let get = async |name: &str| {
        let error = registry.call("prompts::mcp-get", json!({ "name": name })).await.unwrap_err();
        (error.to_string(), error.kind())
    };
    for (name, expected, kind) in [
        ("", "name must be non-empty", Kind::Refused),
        ("none", "Prompt not found: none", Kind::NotFound),
        ("odd", "decode stored prompt odd: missing field `description`", Kind::Failed),
        (
            "reserved",
            "Prompt handler 'skills::list' is in an internal namespace and cannot back a prompt",
            Kind::Refused,
        ),
        ("blank", "Function id \"a b\" contains whitespace", Kind::Refused),
        ("good", "trigger demo::x: remote error (function_not_found): Function not found", Kind::NotFound),
    ] {
        assert_eq!(get(name).await, (expected.to_owned(), kind), "{name}");
    }
    for answer in [json!(null), json!([]), json!({ "content": 1 })] {
        bus.answer("demo::x", Answer::Value(answer));
        assert_eq!(get("good").await, (shape.to_owned(), Kind::Failed));
    }
    bus.answer("demo::x", Answer::Never);
    assert_eq!(get("good").await, ("trigger demo::x: invocation timed out".to_owned(), Kind::Failed));
}
