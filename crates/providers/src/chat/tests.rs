//! Tests of requests and decoding without a server, and one with a server.

mod bodies;
mod broken;
mod conversations;
mod habits;
mod refusals;
mod server;
mod spoken;
mod streams;

use std::sync::{Arc, Mutex};

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, Delta, MediaSource, Message, ModelError, ModelErrorKind,
    ModelInfo, ModelRequest, ModelResponse, Provider, StopReason, Timestamp, ToolDef, ToolResult,
};
use serde_json::{Value, json};

use super::Chat;
use crate::reader::Reader;
use crate::wire::{Body, Wire as _};

const WHEN: Timestamp = Timestamp::UNIX_EPOCH;

fn wire(provider: Provider) -> Chat {
    Chat { provider, remote_model: "qwen3:8b".to_owned() }
}

fn info() -> ModelInfo {
    ModelInfo::new("local", Provider::SelfHosted)
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: String::new(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::new([]),
        max_tokens: 1000,
        temperature: None,
        output_schema: None,
        provider_params: None,
    }
}

fn tool(name: &str, description: &str, schema: Value) -> ToolDef {
    ToolDef { name: name.to_owned(), description: description.to_owned(), input_schema: schema }
}

fn body(info: &ModelInfo, request: &ModelRequest) -> Value {
    let Body { json, left_out } = wire(info.provider).body(info, request);
    assert_eq!(left_out, []);
    json
}

fn messages(info: &ModelInfo, messages: Vec<Message>) -> Value {
    body(info, &request(messages))["messages"].take()
}

fn user(text: &str) -> Message {
    Message::User { content: Content::text(text), created_at: WHEN }
}

fn assistant(blocks: Vec<AssistantBlock>) -> Message {
    Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: WHEN }
}

fn results(results: Vec<ToolResult>) -> Message {
    Message::ToolResults { results, created_at: WHEN }
}

fn image() -> ContentBlock {
    ContentBlock::Image {
        media_type: "image/png".to_owned(),
        source: MediaSource::Inline { data: "aGk=".to_owned() },
    }
}

fn text(text: &str) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned(), meta: None }
}

fn reasoning(text: &str, field: &str) -> AssistantBlock {
    let meta = Some(json!({ "provider": "self_hosted", "field": field }));
    AssistantBlock::Reasoning { text: text.to_owned(), meta }
}

fn call(id: &str, name: &str, args: Value) -> AssistantBlock {
    AssistantBlock::ToolUse { id: id.to_owned(), name: name.to_owned(), args, meta: None }
}

/// Creates a stream of chunks; the last one may be anything.
fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// Creates a chunk with one delta.
fn delta(delta: Value) -> Value {
    let mut chunk = json!({
        "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "qwen3:8b",
        "choices": [{ "index": 0, "finish_reason": null }],
    });
    chunk["choices"][0]["delta"] = delta;
    chunk
}

fn stop(reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

/// Creates a stream with a regular end.
fn complete_stream(chunks: &[Value], reason: &str) -> String {
    sse(chunks) + &sse(&[stop(reason)]) + "data: [DONE]\n\n"
}

/// Result of a stream: the response, and the concatenated text and reasoning deltas.
type Outcome = Result<(ModelResponse, String, String), ModelError>;

fn replay(pieces: &[&[u8]]) -> Outcome {
    let wire = wire(Provider::SelfHosted);
    let mut reader = Reader::new(wire.provider(), wire.decoder());
    let seen = Mutex::new((String::new(), String::new()));
    let sink = |delta| match delta {
        Delta::Text(text) => seen.lock().unwrap().0.push_str(&text),
        Delta::Reasoning(text) => seen.lock().unwrap().1.push_str(&text),
        Delta::Received | Delta::ToolOmitted { .. } => unreachable!(),
    };
    pieces.iter().try_for_each(|piece| reader.feed(piece, &sink))?;
    let answer = reader.finish()?;
    let (text, reasoning) = seen.into_inner().unwrap();
    Ok((answer, text, reasoning))
}

/// Decodes a stream at once and split at every byte, with the same result.
fn read(stream: &str) -> (ModelResponse, String, String) {
    let expected = replay(&[stream.as_bytes()]).unwrap();
    for cut in 0..=stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        assert_eq!(replay(&[head, tail]).as_ref(), Ok(&expected), "cut at {cut}");
    }
    expected
}

fn blocks(stream: &str) -> Vec<AssistantBlock> {
    read(stream).0.blocks
}

fn failure(stream: &str) -> (ModelErrorKind, String) {
    let error = replay(&[stream.as_bytes()]).unwrap_err();
    (error.kind, error.message)
}
