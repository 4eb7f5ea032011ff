//! Responses of Gemini.

use meerkat_providers::fuzzing::Format;
use serde_json::{Value, json};

use super::streams::{self, unnamed_events};
use crate::engine::Target;
use crate::mutate::Style;

pub(super) const TARGET: Target = Target {
    name: "gemini",
    style: Style::Stream,
    corpus,
    run: |input, random| streams::run(Format::Gemini, input, random),
};

fn corpus() -> Vec<Vec<u8>> {
    let part = |part: Value| chunk(&[part], None);
    let call = json!({ "functionCall": { "name": "look", "args": { "x": 1 } }, "thoughtSignature": "c2ln" });
    let mut grounded = chunk(&[json!({ "text": "." })], Some("STOP"));
    grounded["candidates"][0]["groundingMetadata"] = json!({ "webSearchQueries": ["x"] });
    let bare = json!({ "candidates": [{ "content": { "parts": [call] }, "finishReason": "STOP" }] });
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY", "blockReasonMessage": "no" } });
    let failure = json!({ "error": { "code": 503, "status": "UNAVAILABLE", "message": "busy",
        "details": [{ "retryDelay": "3s" }] } });
    vec![
        unnamed_events(&[
            part(json!({ "text": "Hm.", "thought": true })),
            part(json!({ "text": "", "thought": true, "thoughtSignature": "c2ln" })),
            part(json!({ "text": "It\nrains ☔" })),
            grounded,
        ]),
        unnamed_events(&[
            part(call),
            chunk(&[json!({ "functionCall": { "id": "a", "name": "look", "args": "{}" } })], Some("STOP")),
        ]),
        unnamed_events(&[bare]),
        unnamed_events(&[
            part(json!({ "executableCode": { "language": "PYTHON", "code": "1" } })),
            part(json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } })),
            part(json!({ "inlineData": { "mimeType": "image/png", "data": "eHg=" } })),
            chunk(&[json!({ "text": "" })], Some("MAX_TOKENS")),
        ]),
        unnamed_events(&[blocked]),
        unnamed_events(&[failure]),
        unnamed_events(&[json!([
            chunk(&[json!({ "text": "a" })], None),
            chunk(&[json!({ "text": "b" })], Some("SAFETY"))
        ])]),
    ]
}

fn chunk(parts: &[Value], reason: Option<&str>) -> Value {
    let usage = json!({ "promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 1 });
    let mut chunk = json!({ "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }],
        "usageMetadata": usage, "modelVersion": "m", "responseId": "r" });
    if let Some(reason) = reason {
        chunk["candidates"][0]["finishReason"] = json!(reason);
    }
    chunk
}
