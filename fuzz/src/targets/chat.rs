//! Responses of the Chat Completions API.

use meerkat_providers::fuzzing::Format;
use serde_json::{Value, json};

use super::streams::{self, unnamed_events};
use crate::engine::Target;
use crate::mutate::Style;

pub(super) const TARGET: Target = Target {
    name: "chat",
    style: Style::Stream,
    corpus,
    run: |input, random| streams::run(Format::Chat, input, random),
};

fn corpus() -> Vec<Vec<u8>> {
    let text = |text: &str| json!({ "content": text });
    let call = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
        json!({ "tool_calls": [{ "index": index, "id": id, "type": "function",
            "function": { "name": name, "arguments": arguments } }] })
    };
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 6, "prompt_tokens_details": { "cached_tokens": 2 } });
    let mut counted = answer(&[text("It\n"), text("rains ☔")], "stop");
    counted.extend(unnamed_events(&[json!({ "choices": [], "usage": usage })]));
    vec![
        counted,
        answer(
            &[json!({ "reasoning_content": "Hm." }), json!({ "reasoning": "Ah." }), text("So.")],
            "length",
        ),
        answer(&[text("<thi"), text("nk>Hm.</th"), text("ink>\n\nSo. <"), text("b>")], "stop"),
        answer(
            &[
                call(0, Some("a"), Some("look"), ""),
                call(0, None, None, "{\"x\":"),
                call(0, None, None, "1}"),
                call(1, Some("b"), Some("look"), "{}"),
            ],
            "tool_calls",
        ),
        answer(
            &[json!({ "tool_calls": [{ "function": { "name": "look", "arguments": { "x": 1 } } }] })],
            "tool_calls",
        ),
        answer(
            &[text("I look. <tool_"), text("call>{\"name\":\"look\",\"arguments\":{}}</tool_call>")],
            "stop",
        ),
        answer(&[text("```json\n{\"name\": \"look\", "), text("\"arguments\": {\"x\": 1}}\n```")], "stop"),
        answer(&[json!({ "refusal": "no" })], "content_filter"),
        unnamed_events(&[json!({ "error": { "message": "context length exceeded", "code": 400 } })]),
        b"event: error\ndata: {\"message\":\"busy\"}\n\ndata: [DONE]\n\n".to_vec(),
    ]
}

fn answer(deltas: &[Value], reason: &str) -> Vec<u8> {
    let chunk = |delta: &Value, reason: Option<&str>| {
        json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason }] })
    };
    let mut chunks = vec![chunk(&json!({ "role": "assistant", "content": "" }), None)];
    chunks.extend(deltas.iter().map(|delta| chunk(delta, None)));
    chunks.push(chunk(&json!({}), Some(reason)));
    let mut out = unnamed_events(&chunks);
    out.extend_from_slice(b"data: [DONE]\n\n");
    out
}
