//! Responses of Anthropic's Messages API.

use meerkat_providers::fuzzing::Format;
use serde_json::{Value, json};

use super::streams::{self, named_events};
use crate::engine::Target;
use crate::mutate::Style;

pub(super) const TARGET: Target = Target {
    name: "anthropic",
    style: Style::Stream,
    corpus,
    run: |input, random| streams::run(Format::Anthropic, input, random),
};

fn corpus() -> Vec<Vec<u8>> {
    let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let refusal = json!({ "type": "message_delta", "delta": {
        "stop_reason": "refusal", "stop_details": { "explanation": "no" } } });
    vec![
        answer(
            vec![block(
                0,
                &json!({ "type": "text", "text": "" }),
                &[
                    json!({ "type": "text_delta", "text": "It \"rains\" ☔\n" }),
                    json!({ "type": "citations_delta", "citation": { "type": "page", "url": "u" } }),
                    json!({ "type": "text_delta", "text": "." }),
                ],
            )],
            "end_turn",
        ),
        answer(
            vec![
                block(
                    0,
                    &json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    &[
                        json!({ "type": "thinking_delta", "thinking": "Hm." }),
                        json!({ "type": "signature_delta", "signature": "c2ln" }),
                    ],
                ),
                block(1, &json!({ "type": "redacted_thinking", "data": "eHg=" }), &[]),
                block(
                    2,
                    &json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": {} }),
                    &[
                        json!({ "type": "input_json_delta", "partial_json": "{\"where\":" }),
                        json!({ "type": "input_json_delta", "partial_json": " \"here\"}" }),
                    ],
                ),
                block(3, &json!({ "type": "tool_use", "id": "toolu_2", "name": "look", "input": {} }), &[]),
            ],
            "tool_use",
        ),
        answer(
            vec![
                block(
                    0,
                    &json!({ "type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {} }),
                    &[json!({ "type": "input_json_delta", "partial_json": "{\"query\":\"x\"}" })],
                ),
                block(
                    1,
                    &json!({ "type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{ "url": "u" }] }),
                    &[],
                ),
                block(
                    2,
                    &json!({ "type": "compaction", "content": null }),
                    &[json!({ "type": "compaction_delta", "content": "so far" })],
                ),
            ],
            "pause_turn",
        ),
        named_events(&[start(), error]),
        named_events(&[start(), refusal, json!({ "type": "message_stop" })]),
    ]
}

fn start() -> Value {
    let usage = json!({ "input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3 });
    json!({ "type": "message_start", "message": { "id": "m", "usage": usage } })
}

fn block(index: u64, content: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({ "type": "content_block_start", "index": index, "content_block": content })];
    let delta = |delta: &Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    events.extend(deltas.iter().map(delta));
    events.push(json!({ "type": "content_block_stop", "index": index }));
    events
}

fn answer(blocks: Vec<Vec<Value>>, reason: &str) -> Vec<u8> {
    let mut events = vec![start(), json!({ "type": "ping" })];
    events.extend(blocks.into_iter().flatten());
    let usage = json!({ "output_tokens": 9 });
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    named_events(&events)
}
