//! Features that a caller can request, and their place in the request.

use meerkat_core::OutputSchema;

use super::*;
use crate::schema::{self, Dialect};

const COMPACT: &str = "compact_20260112";

fn beta(body: &Value) -> Option<String> {
    wire().headers_for(body).into_iter().next().map(|(name, value)| format!("{name}: {value}"))
}

#[test]
fn key_and_version_are_sent_as_headers() {
    let version = |wire: &Messages| wire.headers("k").into_iter().collect::<Vec<_>>();
    let header =
        |version: &str| vec![("anthropic-version", version.to_owned()), ("x-api-key", "k".to_owned())];
    assert_eq!(version(&wire()), header("2023-06-01"));
    assert_eq!(version(&newer()), header("2026-10-21"));
    assert_eq!(wire().headers(""), vec![("anthropic-version", "2023-06-01".to_owned())]);
    assert_eq!(wire().path(&info()), "/v1/messages");
}

#[test]
fn temperature_is_sent_only_if_accepted() {
    let warm = |params: Value| ModelRequest { temperature: Some(0.7), ..with_params(params) };
    let mut fixed = info();
    fixed.profile.supports_temperature = false;
    assert_eq!(json_of(&warm(json!({})))["temperature"], json!(0.7));
    let hot = ModelRequest { temperature: Some(1.5), ..with_params(json!({})) };
    assert_eq!(json_of(&hot)["temperature"], json!(1.0));
    let cases = [
        (wire().body(&fixed, &warm(json!({ "top_k": 3, "temperature": 1 }))), "a model without"),
        (
            newer().body(&info(), &warm(json!({ "top_p": 0.5, "top_k": 3, "temperature": 1 }))),
            "a newer version",
        ),
        (body_of(&warm(json!({ "thinking": { "type": "adaptive" }, "top_k": 3 }))), "a model that thinks"),
    ];
    for (body, case) in cases {
        for key in ["temperature", "top_p", "top_k"] {
            assert_eq!(body.json.get(key), None, "{case}: {key}");
        }
    }
    let chosen = json_of(&warm(json!({ "top_p": 0.5, "top_k": 3 })));
    assert_eq!(
        (&chosen["top_p"], &chosen["top_k"], chosen.get("temperature")),
        (&json!(0.5), &json!(3), None)
    );
}

#[test]
fn all_thinking_options_are_supported() {
    let enabled = |tokens: u64| json!({ "type": "enabled", "budget_tokens": tokens });
    let cases = [
        (json!({}), Value::Null),
        (json!({ "thinking": null, "thinking_budget": 0 }), Value::Null),
        (json!({ "thinking": { "type": "adaptive" } }), json!({ "type": "adaptive" })),
        (json!({ "thinking": "adaptive" }), json!({ "type": "adaptive" })),
        (
            json!({ "thinking": { "type": "adaptive" }, "thinking_budget": 2000 }),
            json!({ "type": "adaptive" }),
        ),
        (json!({ "thinking": { "type": "disabled" } }), json!({ "type": "disabled" })),
        (json!({ "thinking": false }), json!({ "type": "disabled" })),
        (json!({ "thinking_budget": 2000 }), enabled(2000)),
        (json!({ "thinking_budget": 10 }), enabled(1024)),
        (json!({ "thinking": { "type": "enabled" }, "thinking_budget": 3000 }), enabled(3000)),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 2500 } }), enabled(2500)),
        (json!({ "thinking": { "budget_tokens": 2500 } }), enabled(2500)),
    ];
    for (params, expected) in cases {
        let body = json_of(&with_params(params.clone()));
        assert_eq!(body.get("thinking").cloned().unwrap_or_default(), expected, "{params}");
        assert_eq!(body.get("thinking_budget"), None, "{params}");
    }
}

#[test]
fn thinking_leaves_room_for_the_answer() {
    let limits = |cap: Option<u32>, max_tokens: u32, budget: u64| {
        let model = ModelInfo { max_output_tokens: cap, ..info() };
        let request = ModelRequest { max_tokens, ..with_params(json!({ "thinking_budget": budget })) };
        let body = wire().body(&model, &request).json;
        (
            body["max_tokens"].as_u64().unwrap(),
            body.pointer("/thinking/budget_tokens").and_then(Value::as_u64),
        )
    };
    assert_eq!(limits(Some(64_000), 4096, 2000), (4096, Some(2000)));
    assert_eq!(limits(Some(64_000), 4096, 10_000), (14_096, Some(10_000)));
    assert_eq!(limits(Some(8000), 4096, 10_000), (8000, Some(7999)));
    assert_eq!(limits(Some(1024), 4096, 10_000), (1024, None));
    assert_eq!(limits(None, 4096, 10_000), (14_096, Some(10_000)));
    assert_eq!(limits(Some(2000), 90_000, 1500), (2000, Some(1500)));
    assert_eq!(limits(Some(64_000), 0, 0), (1, None));
}

#[test]
fn turn_started_without_thinking_stays_without() {
    let run = |first: Vec<AssistantBlock>, params: Value| {
        let mut blocks = first;
        blocks.push(call("a", "t", json!({})));
        let outputs = results(vec![result("a", vec![words("ok")])]);
        let more = assistant(vec![call("b", "t", json!({}))]);
        let last = results(vec![result("b", vec![words("ok")])]);
        let history = request(vec![user("go"), assistant(blocks), outputs, more, last]);
        json_of(&ModelRequest { provider_params: Some(Arc::new(params)), ..history })
    };
    let thinking = || thought("t", json!({ "provider": "anthropic", "signature": "s" }));
    let fixed = json!({ "thinking_budget": 2000 });
    assert_eq!(run(vec![], fixed.clone()).get("thinking"), None);
    assert_eq!(run(vec![thinking()], fixed)["thinking"]["type"], json!("enabled"));
    assert_eq!(run(vec![], json!({ "thinking": "adaptive" }))["thinking"]["type"], json!("adaptive"));
}

#[test]
fn web_search_is_sent_as_a_tool() {
    let tools = |params: Value, own: Vec<ToolDef>| {
        let body = body_of(&ModelRequest { tools: Arc::from(own), ..with_params(params) });
        let names = body.json.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        (names, body.left_out, body.json.get("web_search").cloned())
    };
    let mark = json!({ "type": "ephemeral" });
    let search = json!({ "type": "web_search_20250305", "name": "web_search" });
    let (sent, left_out, stray) = tools(json!({ "web_search": search }), vec![tool("one")]);
    assert_eq!((sent.len(), left_out.len(), stray), (2, 0, None));
    assert_eq!(sent[0].get("cache_control"), None);
    assert_eq!(
        sent[1],
        json!({ "type": "web_search_20250305", "name": "web_search", "cache_control": mark })
    );
    let (sent, ..) = tools(json!({ "web_search": { "max_uses": 3 } }), vec![]);
    let expected =
        json!({ "max_uses": 3, "type": "web_search_20250305", "name": "web_search", "cache_control": mark });
    assert_eq!(sent, vec![expected]);
    for off in [
        json!({}),
        json!({ "web_search": null }),
        json!({ "web_search": false }),
        json!({ "web_search": true }),
    ] {
        assert_eq!(tools(off.clone(), vec![]), (vec![], vec![], None), "{off}");
    }
    let (sent, left_out, _) = tools(json!({ "web_search": search }), vec![tool("web_search")]);
    assert_eq!((sent.len(), left_out[0].0.as_str()), (1, "web_search"));
}

#[test]
fn output_schema_and_effort_share_a_field() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
    let output_schema = Some(Arc::new(OutputSchema::parse(schema.clone()).unwrap()));
    let request = ModelRequest { output_schema, ..with_params(json!({ "effort": "high" })) };
    let body = json_of(&request);
    let sent = schema::output(&schema, Dialect::Anthropic, false);
    let expected = json!({ "effort": "high", "format": { "type": "json_schema", "schema": sent } });
    assert_eq!((&body["output_config"], body.get("effort")), (&expected, None));
    assert_eq!(beta(&body).as_deref(), Some("anthropic-beta: structured-outputs-2025-11-13"));
    assert_eq!(newer().headers_for(&body), vec![]);
}

#[test]
fn beta_features_are_requested_only_when_used() {
    let with_tools =
        |params: Value| json_of(&ModelRequest { tools: Arc::from(vec![tool("one")]), ..with_params(params) });
    let adaptive = || json!({ "thinking": { "type": "adaptive" }, "compaction": true });
    let both = "anthropic-beta: interleaved-thinking-2025-05-14,compact-2026-01-12";
    assert_eq!(beta(&with_tools(adaptive())).as_deref(), Some(both));
    let alone = json_of(&with_params(json!({ "thinking": { "type": "adaptive" } })));
    assert_eq!(beta(&alone), None);
    assert_eq!(beta(&with_tools(json!({ "thinking": { "type": "disabled" } }))), None);
    let compact = vec![("anthropic-beta", "compact-2026-01-12".to_owned())];
    assert_eq!(newer().headers_for(&with_tools(adaptive())), compact);
}

#[test]
fn compaction_becomes_a_context_edit() {
    let edit = |more: &Value| {
        let mut edit = json!({ "type": COMPACT });
        edit.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        edit
    };
    let trigger = json!({ "trigger": { "type": "input_tokens", "value": 90_000 } });
    let cases = [
        (json!({ "compaction": true }), json!([edit(&json!({}))])),
        (json!({ "compaction": "auto" }), json!([edit(&json!({}))])),
        (json!({ "compaction": trigger }), json!([edit(&trigger)])),
        (json!({ "compaction": [{ "type": "other" }] }), json!([{ "type": "other" }])),
        (
            json!({ "compaction": {}, "context_management": { "edits": [{ "type": "other" }] } }),
            json!([{ "type": "other" }, edit(&json!({}))]),
        ),
    ];
    for (params, edits) in cases {
        let body = json_of(&with_params(params.clone()));
        assert_eq!(body["context_management"]["edits"], edits, "{params}");
        assert_eq!(body.get("compaction"), None, "{params}");
    }
    for off in [json!({ "compaction": false }), json!({ "compaction": null })] {
        assert_eq!(json_of(&with_params(off.clone())).get("context_management"), None, "{off}");
    }
}

#[test]
fn unknown_params_pass_but_reserved_ones_do_not() {
    let params = json!({
        "inference_geo": "eu", "service_tier": "auto", "metadata": { "user_id": "u" }, "stop_sequences": ["END"],
        "gone": null, "tool_choice": { "type": "any" }, "max_tokens": 100_000,
        "messages": [], "tools": [{}], "stream": false, "model": "other", "input": 1, "contents": 1,
    });
    let mut body = json_of(&with_params(params));
    let messages = body["messages"].take();
    let expected = json!({
        "model": "claude-sonnet-4-6", "max_tokens": 64_000, "stream": true, "messages": null,
        "inference_geo": "eu", "service_tier": "auto", "metadata": { "user_id": "u" }, "stop_sequences": ["END"],
    });
    assert_eq!((body, messages.as_array().map(Vec::len)), (expected, Some(1)));
}

#[test]
fn indirect_call_names_its_caller() {
    let caller = json!({ "type": "code_execution_20260120", "tool_id": "srvtoolu_1" });
    let indirect = AssistantBlock::ToolUse {
        id: "a".to_owned(),
        name: "t".to_owned(),
        args: json!({}),
        meta: Some(json!({ "provider": "anthropic", "caller": caller })),
    };
    let sent = messages_of(vec![user("go"), assistant(vec![indirect])]);
    assert_eq!(sent[1]["content"][0]["caller"], caller);
    assert_eq!(sent[2]["content"][0]["is_error"], json!(true));
}

#[test]
fn params_for_other_providers_are_not_sent() {
    let plain = json_of(&with_params(json!({})));
    let others =
        json!({ "google_search": {}, "reasoning_effort": "low", "thinking_level": "low", "seed": 7 });
    assert_eq!(json_of(&with_params(others)), plain);
}
