//! Tests of the wire format: bodies, streams, broken streams, errors.

mod broken;
mod conversation;
mod features;
mod refusal;
mod replay;

use std::sync::{Arc, Mutex};

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, Delta, MediaSource, Message, ModelError, ModelInfo, ModelProfile,
    ModelRequest, ModelResponse, Provider, StopReason, Timestamp, ToolDef, ToolResult,
};
use serde_json::{Value, json};

use super::{Messages, VERSION_2023};
use crate::reader::Reader;
use crate::wire::{Body, Wire};

fn wire() -> Messages {
    Messages { version: VERSION_2023.to_owned() }
}

fn newer() -> Messages {
    Messages { version: "2026-10-21".to_owned() }
}

fn info() -> ModelInfo {
    let profile = ModelProfile {
        supports_temperature: true,
        supports_thinking: true,
        supports_web_search: true,
        vision: true,
        image_tool_results: true,
        ..ModelProfile::default()
    };
    ModelInfo {
        max_output_tokens: Some(64_000),
        profile,
        ..ModelInfo::new("claude-sonnet-4-6", Provider::Anthropic)
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: String::new(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::from(Vec::new()),
        max_tokens: 4096,
        temperature: None,
        output_schema: None,
        provider_params: None,
    }
}

fn with_params(params: Value) -> ModelRequest {
    ModelRequest { provider_params: Some(Arc::new(params)), ..request(vec![user("hi")]) }
}

fn body_of(request: &ModelRequest) -> Body {
    wire().body(&info(), request)
}

fn json_of(request: &ModelRequest) -> Value {
    body_of(request).json
}

fn messages_of(messages: Vec<Message>) -> Value {
    json_of(&request(messages))["messages"].take()
}

fn content(content: Vec<ContentBlock>) -> Message {
    Message::User { content: content.into(), created_at: Timestamp::UNIX_EPOCH }
}

fn user(text: &str) -> Message {
    content(vec![words(text)])
}

fn assistant(blocks: Vec<AssistantBlock>) -> Message {
    Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: Timestamp::UNIX_EPOCH }
}

fn results(results: Vec<ToolResult>) -> Message {
    Message::ToolResults { results, created_at: Timestamp::UNIX_EPOCH }
}

fn result(id: &str, blocks: Vec<ContentBlock>) -> ToolResult {
    ToolResult { tool_use_id: id.to_owned(), content: Content::from(blocks), is_error: false }
}

fn failed(id: &str, blocks: Vec<ContentBlock>) -> ToolResult {
    ToolResult { is_error: true, ..result(id, blocks) }
}

fn words(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

fn image_block(media_type: &str) -> ContentBlock {
    let source = MediaSource::Inline { data: "iVBORw0=".to_owned() };
    ContentBlock::Image { media_type: media_type.to_owned(), source }
}

fn say(text: &str) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned(), meta: None }
}

fn call(id: &str, name: &str, args: Value) -> AssistantBlock {
    AssistantBlock::ToolUse { id: id.to_owned(), name: name.to_owned(), args, meta: None }
}

fn thought(text: &str, meta: Value) -> AssistantBlock {
    AssistantBlock::Reasoning { text: text.to_owned(), meta: Some(meta) }
}

fn served(content: Value) -> AssistantBlock {
    let meta = Some(json!({ "provider": "anthropic" }));
    AssistantBlock::ServerToolContent { id: None, name: "web_search".to_owned(), content, meta }
}

fn tool(name: &str) -> ToolDef {
    let input_schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    ToolDef { name: name.to_owned(), description: format!("Does {name}."), input_schema }
}

/// Formats events as a server does.
fn sse(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x")))
        .collect()
}

/// Wraps blocks in the events that start and end every response.
fn framed(blocks: Vec<Value>, stop_reason: &str) -> Vec<Value> {
    let usage = json!({
        "input_tokens": 25, "output_tokens": 1, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 9,
    });
    let mut events = vec![json!({
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        },
    })];
    events.extend(blocks);
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": stop_reason, "stop_sequence": null },
        "usage": { "output_tokens": 42 },
    }));
    events.push(json!({ "type": "message_stop" }));
    events
}

fn start(index: u64, content_block: Value) -> Value {
    let mut event = json!({ "type": "content_block_start", "index": index });
    event["content_block"] = content_block;
    event
}

fn delta(index: u64, delta: Value) -> Value {
    let mut event = json!({ "type": "content_block_delta", "index": index });
    event["delta"] = delta;
    event
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

/// The result of a response, and the concatenated text and reasoning deltas.
type Read = (Result<ModelResponse, ModelError>, String, String);

/// Decodes a stream that arrives in pieces.
fn read(pieces: &[&[u8]]) -> Read {
    let seen = Mutex::new((String::new(), String::new()));
    let sink = |delta: Delta| {
        let mut seen = seen.lock().unwrap();
        match delta {
            Delta::Text(text) => seen.0.push_str(&text),
            Delta::Reasoning(text) => seen.1.push_str(&text),
            Delta::Received | Delta::ToolOmitted { .. } => panic!("a decoder does not omit tools"),
        }
    };
    let wire = wire();
    let mut reader = Reader::new(wire.provider(), wire.decoder());
    let fed = pieces.iter().try_for_each(|piece| reader.feed(piece, &sink));
    let answer = fed.and_then(|()| reader.finish());
    let (text, reasoning) = seen.into_inner().unwrap();
    (answer, text, reasoning)
}
