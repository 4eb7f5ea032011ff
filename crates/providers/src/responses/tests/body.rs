//! Request bodies, apart from the conversation.

use meerkat_core::{OutputSchema, SchemaCompat};

use super::*;
use crate::schema::{self, Dialect};

#[test]
fn plain_request_to_a_reasoning_model() {
    assert_eq!(
        body(&model(), &asking(vec![user("hi")])),
        json!({
            "model": "gpt-5.5",
            "input": [user_item("hi")],
            "max_output_tokens": 500,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": false,
            "stream": true,
        })
    );
}

#[test]
fn plain_request_to_a_self_hosted_server() {
    let request = ModelRequest {
        system: "be brief".to_owned(),
        temperature: Some(0.7),
        max_tokens: 3,
        ..asking(vec![user("hi")])
    };
    assert_eq!(
        body(&own_model(), &request),
        json!({
            "model": "llama",
            "instructions": "be brief",
            "input": [user_item("hi")],
            "max_output_tokens": 16,
            "temperature": 0.7,
            "store": false,
            "stream": true,
        })
    );
}

#[test]
fn limits_and_temperature_follow_the_model() {
    let request = ModelRequest { temperature: Some(0.2), max_tokens: 5000, ..asking(vec![user("hi")]) };
    let sent = body(&model(), &request);
    assert_eq!(sent["max_output_tokens"], 1000);
    assert_eq!(sent.get("temperature"), None);
    assert_eq!(body(&own_model(), &request)["max_output_tokens"], 5000);
}

#[test]
fn tools_are_functions_next_to_web_search() {
    let tools: Arc<[ToolDef]> = Arc::new([weather()]);
    let function = json!({
        "type": "function",
        "name": "weather",
        "description": "Weather of a city",
        "parameters": schema::sanitize(&[weather()], Dialect::OpenAi).0[0].input_schema,
        "strict": false,
    });
    let search = json!({"type": "web_search", "search_context_size": "low"});
    let cases = [
        (json!({}), json!([function])),
        (json!({"web_search": search}), json!([function, search])),
        (json!({"web_search": {}}), json!([function, {"type": "web_search"}])),
        (json!({"web_search": false}), json!([function])),
        (json!({"web_search": null}), json!([function])),
    ];
    for (params, expected) in cases {
        let request = ModelRequest { tools: Arc::clone(&tools), ..with_params(params.clone()) };
        let sent = body(&model(), &request);
        assert_eq!(sent["tools"], expected, "{params}");
        assert_eq!(sent.get("web_search"), None);
    }
    assert_eq!(body(&model(), &with_params(json!({"web_search": false}))).get("tools"), None);
}

#[test]
fn output_schema_sets_the_format() {
    let cases = [(None, false, "output"), (Some("my person"), true, "my_person")];
    for (name, strict, sent_name) in cases {
        let schema = OutputSchema {
            schema: weather_schema(),
            name: name.map(str::to_owned),
            strict,
            compat: SchemaCompat::Lossy,
        };
        let request = ModelRequest {
            output_schema: Some(Arc::new(schema)),
            ..with_params(json!({"text": {"verbosity": "low"}}))
        };
        assert_eq!(
            body(&model(), &request)["text"],
            json!({
                "format": {
                    "type": "json_schema",
                    "name": sent_name,
                    "schema": schema::output(&weather_schema(), Dialect::OpenAi, strict),
                    "strict": strict,
                },
                "verbosity": "low",
            })
        );
    }
}

#[test]
fn callers_effort_is_sent() {
    let cases = [
        (json!({"reasoning_effort": "high"}), json!({"effort": "high", "summary": "auto"})),
        (json!({"reasoning_effort": "none"}), json!({"effort": "none"})),
        (json!({"reasoning_effort": null}), json!({"effort": "medium", "summary": "auto"})),
        (json!({"reasoning": {"summary": "detailed"}}), json!({"effort": "medium", "summary": "detailed"})),
    ];
    for (params, expected) in cases {
        let sent = body(&model(), &with_params(params.clone()));
        assert_eq!(sent["reasoning"], expected, "{params}");
        assert_eq!(sent.get("reasoning_effort"), None);
    }
    let sent = body(&own_model(), &with_params(json!({"reasoning_effort": "low"})));
    assert_eq!((&sent["reasoning"], sent.get("include")), (&json!({"effort": "low"}), None));
}

#[test]
fn unknown_params_pass_but_reserved_ones_do_not() {
    let params = json!({
        "seed": 7, "frequency_penalty": 0.5, "presence_penalty": 0.25, "top_p": 0.9, "metadata": {"k": "v"},
        "include": ["web_search_call.action.sources", "reasoning.encrypted_content"],
        "input": "x", "messages": [], "contents": [], "tools": [], "stream": false, "model": "other",
    });
    assert_eq!(
        body(&model(), &with_params(params)),
        json!({
            "model": "gpt-5.5",
            "input": [user_item("hi")],
            "max_output_tokens": 500,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
            "store": false,
            "stream": true,
            "top_p": 0.9, "metadata": {"k": "v"},
        }),
        "parameters that OpenAI would reject are omitted"
    );
    let params = json!({"seed": 7, "temperature": 0.5});
    let sent = body(&own_model(), &with_params(params.clone()));
    assert_eq!((&sent["seed"], &sent["temperature"]), (&json!(7), &json!(0.5)));
    let sent = body(&model(), &with_params(params));
    assert_eq!((sent.get("seed"), sent.get("temperature")), (None, None));
    assert_eq!(body(&model(), &with_params(json!("odd"))), body(&model(), &asking(vec![user("hi")])));
}

#[test]
fn null_and_foreign_params_are_not_sent() {
    let params = json!({"store": null, "metadata": null, "google_search": {}, "thinking_level": "low", "effort": "low"});
    let mut expected = body(&model(), &asking(vec![user("hi")]));
    expected.as_object_mut().unwrap().remove("store");
    assert_eq!(body(&model(), &with_params(params)), expected);
}
