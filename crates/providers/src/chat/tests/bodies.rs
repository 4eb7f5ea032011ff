use std::sync::Arc;

use meerkat_core::{ModelInfo, ModelProfile, ModelRequest, OutputSchema, Provider};
use serde_json::{Value, json};

use super::super::versioned;
use super::{body, info, request, tool, user, wire};
use crate::wire::Wire as _;

fn with(profile: ModelProfile) -> ModelInfo {
    ModelInfo { profile, ..info() }
}

fn params(params: Value) -> ModelRequest {
    ModelRequest { provider_params: Some(Arc::new(params)), ..request(vec![user("hi")]) }
}

#[test]
fn plain_request_is_minimal() {
    assert_eq!(
        body(&info(), &request(vec![user("hi")])),
        json!({
            "model": "qwen3:8b",
            "messages": [{ "role": "user", "content": "hi" }],
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_tokens": 1000,
        })
    );
}

#[test]
fn tools_are_functions_and_system_comes_first() {
    let schema =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let request = ModelRequest {
        system: "be brief".to_owned(),
        tools: Arc::new([tool("weather", "Says it.", schema.clone()), tool("now", " ", schema.clone())]),
        ..request(vec![user("hi")])
    };
    let body = body(&info(), &request);
    assert_eq!(body["messages"][0], json!({ "role": "system", "content": "be brief" }));
    assert_eq!(
        body["tools"],
        json!([
            {
                "type": "function",
                "function": { "name": "weather", "description": "Says it.", "parameters": schema },
            },
            { "type": "function", "function": { "name": "now", "parameters": schema } },
        ])
    );
}

#[test]
fn output_limit_uses_the_key_of_its_server() {
    let small = ModelInfo { max_output_tokens: Some(100), ..info() };
    assert_eq!(body(&small, &request(vec![user("hi")]))["max_tokens"], 100);
    for provider in [Provider::OpenAi, Provider::Other] {
        let body = body(&ModelInfo::new("m", provider), &request(vec![user("hi")]));
        assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(1000)));
    }
    for (key, sent) in [
        ("max_tokens", "max_tokens"),
        ("max_completion_tokens", "max_completion_tokens"),
        ("max_output_tokens", "max_tokens"),
    ] {
        let body = body(&info(), &params(json!({ key: 7 })));
        let limits: Vec<_> =
            body.as_object().unwrap().iter().filter(|(key, _)| key.starts_with("max_")).collect();
        assert_eq!(limits, [(&sent.to_owned(), &json!(7))], "{key}");
    }
    assert_eq!(body(&info(), &params(json!({ "max_tokens": null }))).get("max_tokens"), None);
}

#[test]
fn temperature_is_sent_only_if_supported() {
    let request = ModelRequest { temperature: Some(0.7), ..request(vec![user("hi")]) };
    assert_eq!(body(&info(), &request).get("temperature"), None);
    let warm = with(ModelProfile { supports_temperature: true, ..ModelProfile::default() });
    assert_eq!(body(&warm, &request)["temperature"].to_string(), "0.7");
}

#[test]
fn output_schema_becomes_response_format() {
    let schema = json!({
        "type": "object", "properties": { "age": { "type": "integer" } }, "required": ["age"],
        "additionalProperties": false,
    });
    let format = |wrapper: Value| {
        let output = OutputSchema::parse(wrapper).unwrap();
        let request = ModelRequest { output_schema: Some(Arc::new(output)), ..request(vec![user("hi")]) };
        body(&info(), &request)["response_format"].take()
    };
    let expected = |name: &str, strict: bool| {
        json!({
            "type": "json_schema", "json_schema": { "name": name, "schema": schema, "strict": strict },
        })
    };
    assert_eq!(
        format(json!({ "schema": schema, "name": "a person", "strict": true })),
        expected("a_person", true)
    );
    assert_eq!(format(schema.clone()), expected("output", false));
}

#[test]
fn params_pass_but_reserved_ones_do_not() {
    let own = json!({
        "reasoning_effort": "low", "chat_template_kwargs": { "enable_thinking": false }, "top_k": 20, "odd": [1],
        "model": "x", "messages": [], "tools": [], "stream": false, "stream_options": null, "input": [], "contents": [],
    });
    assert_eq!(
        body(&info(), &params(own)),
        json!({
            "model": "qwen3:8b",
            "messages": [{ "role": "user", "content": "hi" }],
            "stream": true,
            "max_tokens": 1000,
            "reasoning_effort": "low",
            "chat_template_kwargs": { "enable_thinking": false },
            "top_k": 20,
            "odd": [1],
        })
    );
    assert_eq!(body(&info(), &params(json!("odd"))), body(&info(), &request(vec![user("hi")])));
}

#[test]
fn web_search_is_sent_only_if_supported() {
    let able = with(ModelProfile { supports_web_search: true, ..ModelProfile::default() });
    let cases = [
        (
            &able,
            json!({ "type": "web_search", "search_context_size": "low" }),
            json!({ "search_context_size": "low" }),
        ),
        (&able, json!(true), json!({})),
        (&able, json!(false), Value::Null),
        (&able, Value::Null, Value::Null),
        (&info(), json!({ "type": "web_search" }), Value::Null),
    ];
    for (info, value, sent) in cases {
        let body = body(info, &params(json!({ "web_search": value, "google_search": {} })));
        assert_eq!(body.get("web_search_options").unwrap_or(&Value::Null), &sent, "{value}");
        assert!(body.get("web_search").is_none() && body.get("google_search").is_none());
    }
}

#[test]
fn version_occurs_once_in_the_url() {
    let cases = [
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("http://localhost:11434/", "http://localhost:11434/v1"),
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("http://localhost:11434/v1/", "http://localhost:11434/v1"),
        (" http://h/v1// ", "http://h/v1"),
        ("https://h/api", "https://h/api/v1"),
        ("https://h/api/paas/v4/", "https://h/api/paas/v4"),
        ("https://h/v1/chat/completions", "https://h/v1"),
        ("https://h/vllm", "https://h/vllm/v1"),
    ];
    for (base, expected) in cases {
        assert_eq!(versioned(base), expected, "{base}");
    }
    assert_eq!(wire(Provider::SelfHosted).path(&info()), "/chat/completions");
}

#[test]
fn token_is_sent_if_set() {
    let wire = wire(Provider::SelfHosted);
    assert_eq!(wire.headers(""), []);
    assert_eq!(wire.headers("k"), [("authorization", "Bearer k".to_owned())]);
}
