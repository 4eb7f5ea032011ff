//! Long responses as providers send them: mostly pieces of text, occasionally a piece of a call's arguments.

use meerkat_providers::fuzzing::Format;
use serde_json::{Value, json};

/// Text of the response, repeated, with typical escapes and letters.
const WORDS: [&str; 24] = [
    "The",
    " river",
    " rises",
    " in",
    " the",
    " hills",
    ",",
    " runs",
    " past",
    " old",
    " mills",
    " and",
    "\n\n",
    " \"falls\"",
    " into",
    " a",
    " lake",
    ".",
    " Über",
    " 300",
    " km",
    " — slowly",
    ";",
    " then it stops.",
];

/// Every `CALL_EVERY`th event belongs to a call.
const CALL_EVERY: usize = 20;

/// Creates a stream of about `events` events.
pub(super) fn stream(format: Format, events: usize) -> Vec<u8> {
    let mut out = String::new();
    match format {
        Format::Anthropic => anthropic(&mut out, events),
        Format::Responses => responses(&mut out, events),
        Format::Chat => chat(&mut out, events),
        Format::Gemini => gemini(&mut out, events),
    }
    out.into_bytes()
}

fn word(at: usize) -> &'static str {
    WORDS[at % WORDS.len()]
}

/// Splits the number of events: those with text, and those with arguments.
fn shares(events: usize) -> (usize, usize) {
    (events - events / CALL_EVERY, events / CALL_EVERY)
}

/// Returns the arguments of one long call, in pieces.
fn arguments(count: usize) -> impl Iterator<Item = String> {
    let middle = (0..count.saturating_sub(2)).map(|at| format!("line {at} \\\"ok\\\" "));
    std::iter::once("{\"text\":\"".to_owned()).chain(middle).chain(std::iter::once("\"}".to_owned()))
}

fn push_event(out: &mut String, value: &Value) {
    let name = value["type"].as_str().unwrap_or_default();
    out.push_str(&format!("event: {name}\ndata: {value}\n\n"));
}

fn anthropic(out: &mut String, events: usize) {
    let (texts, pieces) = shares(events);
    let usage = json!({ "input_tokens": 25, "output_tokens": 1 });
    push_event(
        out,
        &json!({ "type": "message_start", "message": { "id": "msg_01", "role": "assistant", "usage": usage } }),
    );
    push_event(
        out,
        &json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
    );
    for at in 0..texts {
        let delta = json!({ "type": "text_delta", "text": word(at) });
        push_event(out, &json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
    }
    push_event(out, &json!({ "type": "content_block_stop", "index": 0 }));
    let call = json!({ "type": "tool_use", "id": "toolu_01", "name": "write", "input": {} });
    push_event(out, &json!({ "type": "content_block_start", "index": 1, "content_block": call }));
    for piece in arguments(pieces) {
        let delta = json!({ "type": "input_json_delta", "partial_json": piece });
        push_event(out, &json!({ "type": "content_block_delta", "index": 1, "delta": delta }));
    }
    push_event(out, &json!({ "type": "content_block_stop", "index": 1 }));
    let usage = json!({ "output_tokens": events });
    push_event(
        out,
        &json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": usage }),
    );
    push_event(out, &json!({ "type": "message_stop" }));
}

fn responses(out: &mut String, events: usize) {
    let (texts, pieces) = shares(events);
    let id = "msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654";
    let item = json!({ "type": "message", "id": id, "role": "assistant", "content": [] });
    push_event(out, &json!({ "type": "response.output_item.added", "output_index": 0, "item": item }));
    for at in 0..texts {
        push_event(
            out,
            &json!({
                "type": "response.output_text.delta", "item_id": id, "output_index": 0, "content_index": 0,
                "delta": word(at), "sequence_number": at, "logprobs": [], "obfuscation": "sJ4c0aNAcP",
            }),
        );
    }
    let id = "fc_67ca09c6bedc8190a7abfec07b1a1332096610f474011cc0";
    let item =
        json!({ "type": "function_call", "id": id, "call_id": "call_1", "name": "write", "arguments": "" });
    push_event(out, &json!({ "type": "response.output_item.added", "output_index": 1, "item": item }));
    for (at, piece) in arguments(pieces).enumerate() {
        push_event(
            out,
            &json!({
                "type": "response.function_call_arguments.delta", "item_id": id, "output_index": 1,
                "delta": piece, "sequence_number": texts + at, "obfuscation": "k2Yp",
            }),
        );
    }
    let usage = json!({ "input_tokens": 36, "output_tokens": events });
    push_event(
        out,
        &json!({ "type": "response.completed", "response": { "status": "completed", "usage": usage } }),
    );
}

fn chat(out: &mut String, events: usize) {
    let (texts, pieces) = shares(events);
    let mut say = |delta: &Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        let chunk = json!({
            "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG", "object": "chat.completion.chunk",
            "created": 1_741_570_283, "model": "qwen3-8b", "system_fingerprint": "fp_44709d6fcb",
            "choices": [choice],
        });
        out.push_str(&format!("data: {chunk}\n\n"));
    };
    say(&json!({ "role": "assistant", "content": "" }), Value::Null);
    for at in 0..texts {
        say(&json!({ "content": word(at) }), Value::Null);
    }
    let first = json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "write", "arguments": "" } });
    say(&json!({ "tool_calls": [first] }), Value::Null);
    for piece in arguments(pieces) {
        let call = json!({ "index": 0, "function": { "arguments": piece } });
        say(&json!({ "tool_calls": [call] }), Value::Null);
    }
    say(&json!({}), json!("tool_calls"));
    out.push_str("data: [DONE]\n\n");
}

fn gemini(out: &mut String, events: usize) {
    // Gemini sends calls in one piece, longer than the pieces of other providers.
    let (texts, calls) = (events - events / 1000, events / 1000);
    let mut say = |part: Value, at: usize, finish: Option<&str>| {
        let mut candidate = json!({ "content": { "parts": [part], "role": "model" }, "index": 0 });
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        let usage = json!({
            "promptTokenCount": 8, "candidatesTokenCount": at, "totalTokenCount": at + 8,
            "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": 8 }],
        });
        let chunk = json!({
            "candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-flash-preview",
            "responseId": "oZ3RaOuRLs2VkdUP9LvX4AQ",
        });
        out.push_str(&format!("data: {chunk}\r\n\r\n"));
    };
    for at in 0..texts {
        say(json!({ "text": word(at) }), at, None);
    }
    for at in 0..calls {
        let text: String = (0..20).map(word).collect();
        say(json!({ "functionCall": { "name": "write", "args": { "text": text } } }), texts + at, None);
    }
    say(json!({ "text": "" }), events, Some("STOP"));
}
