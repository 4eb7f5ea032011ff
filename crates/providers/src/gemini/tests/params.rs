//! Parameters that a caller passes through.

use std::sync::Arc;

use meerkat_core::{ModelInfo, ModelProfile};
use serde_json::{Value, json};

use super::{able, body, request, user, weather, with_params};

fn config(params: Value) -> Value {
    body(&able(), &with_params(params))["generationConfig"].clone()
}

#[test]
fn temperature_is_sent_only_if_supported() {
    let mut request = with_params(json!({ "temperature": 1.5 }));
    assert_eq!(body(&able(), &request)["generationConfig"]["temperature"], 1.5);
    request.temperature = Some(0.2);
    assert_eq!(body(&able(), &request)["generationConfig"]["temperature"], 0.2);
    let fixed = ModelInfo { profile: ModelProfile::default(), ..able() };
    assert_eq!(body(&fixed, &request)["generationConfig"].get("temperature"), None);
}

#[test]
fn output_limit_is_capped_by_the_model() {
    let mut request = request(vec![user("hi")]);
    request.max_tokens = 1_000_000;
    assert_eq!(body(&able(), &request)["generationConfig"]["maxOutputTokens"], 65_536);
    assert_eq!(config(json!({ "max_output_tokens": 7 }))["maxOutputTokens"], 7);
}

#[test]
fn thinking_has_a_level_or_a_budget() {
    let level = |level: &str| json!({ "thinkingLevel": level, "includeThoughts": true });
    let budget = |budget: i64| json!({ "thinkingBudget": budget, "includeThoughts": true });
    let cases = [
        (json!({ "thinking_level": "high" }), level("HIGH")),
        (json!({ "thinking_budget": 1024 }), budget(1024)),
        (json!({ "thinking": { "thinking_level": "low" } }), level("LOW")),
        (json!({ "thinking": { "thinking_budget": -1 } }), budget(-1)),
        (json!({ "thinking": { "thinking_budget": 5 }, "thinking_budget": 6 }), budget(6)),
        (json!({ "thinking": { "thinking_budget": 5 }, "thinking_level": "minimal" }), level("MINIMAL")),
        (json!({ "thinking_budget": 0 }), json!({ "thinkingBudget": 0 })),
        (json!({ "thinking": null, "thinking_level": null }), Value::Null),
        (json!({ "thinking": false }), Value::Null),
        (json!({}), Value::Null),
    ];
    for (params, expected) in cases {
        assert_eq!(config(params.clone())["thinkingConfig"], expected, "{params}");
    }
}

#[test]
fn sampling_goes_into_the_generation_config() {
    let params = json!({
        "top_k": 40, "top_p": 0.9, "seed": 7, "stop_sequences": ["END"],
        "presence_penalty": 0.1, "frequency_penalty": null,
    });
    let expected = json!({
        "maxOutputTokens": 100, "topK": 40, "topP": 0.9, "seed": 7, "stopSequences": ["END"],
        "presencePenalty": 0.1,
    });
    assert_eq!(config(params), expected);
}

#[test]
fn search_is_sent_as_a_tool() {
    let mut request = with_params(json!({ "google_search": {} }));
    let alone = body(&able(), &request);
    assert_eq!(alone["tools"], json!([{ "googleSearch": {} }]));
    assert_eq!(alone.get("toolConfig"), None);
    request.tools = Arc::from([weather()]);
    let both = body(&able(), &request);
    assert_eq!(both["tools"][0]["functionDeclarations"][0]["name"], "get_weather");
    assert_eq!(both["tools"][1], json!({ "googleSearch": {} }));
    assert_eq!(both["toolConfig"], json!({ "includeServerSideToolInvocations": true }));
    for off in [json!(null), json!(false), json!(true)] {
        let body = body(&able(), &with_params(json!({ "google_search": off })));
        assert_eq!(body.get("tools"), None, "{off}");
        assert_eq!(body.get("google_search"), None, "{off}");
    }
}

#[test]
fn other_keys_pass_but_reserved_ones_do_not() {
    let mut request = with_params(json!({
        "safetySettings": [{ "category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF" }],
        "tool_config": { "functionCallingConfig": { "mode": "ANY" } },
        "generationConfig": { "candidateCount": 1, "maxOutputTokens": 9 },
        "labels": null,
        "url_context": {},
        "contents": [], "tools": [], "model": "x", "stream": false, "messages": [], "input": [], "web_search": {}, "reasoning_effort": "low", "effort": "low",
    }));
    request.tools = Arc::from([weather()]);
    let mut plain = with_params(json!({ "url_context": {} }));
    plain.tools = Arc::from([weather()]);
    let mut expected = body(&able(), &plain);
    expected["safetySettings"] = json!([{ "category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF" }]);
    expected["toolConfig"]["functionCallingConfig"] = json!({ "mode": "ANY" });
    expected["generationConfig"] = json!({ "candidateCount": 1, "maxOutputTokens": 9 });
    assert_eq!(body(&able(), &request), expected);
}

#[test]
fn non_object_params_are_ignored() {
    assert_eq!(body(&able(), &with_params(json!([1]))), body(&able(), &request(vec![user("hi")])));
}
