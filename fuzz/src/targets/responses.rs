//! Responses of the OpenAI Responses API.

use meerkat_providers::fuzzing::Format;
use serde_json::{Value, json};

use super::streams::{self, named_events, unnamed_events};
use crate::engine::Target;
use crate::mutate::Style;

pub(super) const TARGET: Target = Target {
    name: "responses",
    style: Style::Stream,
    corpus,
    run: |input, random| streams::run(Format::Responses, input, random),
};

fn corpus() -> Vec<Vec<u8>> {
    let mut thought = thought();
    thought.extend(message(1));
    thought.push(end(
        "completed",
        &json!({ "status": "completed", "usage": { "input_tokens": 3, "output_tokens": 4 } }),
    ));
    let mut calls = call(0, "{\"where\":\"here\"}");
    calls.extend(call(1, ""));
    calls.push(end("incomplete", &json!({ "incomplete_details": { "reason": "max_output_tokens" } })));
    let complete = json!({ "output": [
        { "type": "message", "id": "m", "content": [{ "type": "output_text", "text": "at once" }] },
        { "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "query": "x" } },
    ] });
    let failure =
        json!({ "status": "failed", "error": { "code": "rate_limit_exceeded", "message": "slow down" } });
    vec![
        named_events(&thought),
        named_events(&calls),
        named_events(&[end("completed", &complete)]),
        named_events(&[end("failed", &failure)]),
        unnamed_events(&[json!({ "error": { "message": "loading model", "code": 503 } })]),
    ]
}

fn end(kind: &str, response: &Value) -> Value {
    json!({ "type": format!("response.{kind}"), "response": response })
}

fn added(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": index, "item": item })
}

fn done(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn thought() -> Vec<Value> {
    let delta = |index: u64, text: &str| {
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "item_id": "rs",
            "summary_index": index, "delta": text })
    };
    let summary =
        json!([{ "type": "summary_text", "text": "Hm." }, { "type": "summary_text", "text": "Ah." }]);
    vec![
        added(0, &json!({ "type": "reasoning", "id": "rs", "summary": [] })),
        delta(0, "Hm."),
        delta(1, "A"),
        delta(1, "h."),
        done(0, &json!({ "type": "reasoning", "id": "rs", "encrypted_content": "eHg=", "summary": summary })),
    ]
}

fn message(index: u64) -> Vec<Value> {
    let delta = |text: &str| {
        json!({ "type": "response.output_text.delta", "output_index": index, "item_id": "m", "content_index": 0,
            "delta": text, "logprobs": [] })
    };
    let part = json!({ "type": "output_text", "text": "It\nrains ☔" });
    vec![
        added(index, &json!({ "type": "message", "id": "m", "role": "assistant", "content": [] })),
        json!({ "type": "response.content_part.added", "output_index": index, "content_index": 0,
            "part": { "type": "output_text", "text": "" } }),
        delta("It\n"),
        delta("rains ☔"),
        json!({ "type": "response.output_text.done", "output_index": index, "content_index": 0, "text": "It\nrains ☔" }),
        json!({ "type": "response.refusal.delta", "output_index": index, "content_index": 1, "delta": "no" }),
        done(index, &json!({ "type": "message", "id": "m", "phase": "final", "content": [part] })),
    ]
}

fn call(index: u64, arguments: &str) -> Vec<Value> {
    let id = format!("call_{index}");
    let item = |arguments: &str| {
        json!({ "type": "function_call", "id": format!("fc_{index}"), "call_id": id,
        "name": "look", "arguments": arguments })
    };
    let mut events = vec![added(index, &item(""))];
    for piece in arguments.split_inclusive(':') {
        events.push(json!({ "type": "response.function_call_arguments.delta", "output_index": index, "delta": piece }));
    }
    events.push(json!({ "type": "response.function_call_arguments.done", "output_index": index, "arguments": arguments }));
    events.push(done(index, &item(arguments)));
    events
}
