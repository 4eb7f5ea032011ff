//! Tests of the wire format.

mod errors;
mod malformed;
mod params;
mod request;
mod stream;

use std::sync::{Arc, Mutex};

use meerkat_core::{
    AssistantBlock, Content, Delta, Message, ModelError, ModelInfo, ModelProfile, ModelRequest,
    ModelResponse, Provider, StopReason, Timestamp, ToolDef, ToolResult,
};
use serde_json::{Value, json};

use super::{Gemini, VERSION};
use crate::reader::Reader;
use crate::wire::Wire;

fn wire() -> Gemini {
    Gemini { version: VERSION.to_owned() }
}

/// Returns a model with all capabilities.
fn able() -> ModelInfo {
    let profile = ModelProfile {
        supports_temperature: true,
        supports_thinking: true,
        supports_web_search: true,
        vision: true,
        image_tool_results: true,
        inline_video: true,
        ..ModelProfile::default()
    };
    let info = ModelInfo::new("gemini-3-flash-preview", Provider::Gemini);
    ModelInfo { max_output_tokens: Some(65_536), profile, ..info }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: String::new(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::from([]),
        max_tokens: 100,
        temperature: None,
        output_schema: None,
        provider_params: None,
    }
}

fn with_params(params: Value) -> ModelRequest {
    ModelRequest { provider_params: Some(Arc::new(params)), ..request(vec![user("hi")]) }
}

fn body(info: &ModelInfo, request: &ModelRequest) -> Value {
    let body = wire().body(info, request);
    assert_eq!(body.left_out, []);
    body.json
}

fn contents(messages: Vec<Message>) -> Value {
    body(&able(), &request(messages))["contents"].clone()
}

const AT: Timestamp = Timestamp::UNIX_EPOCH;

fn user(text: &str) -> Message {
    Message::User { content: Content::text(text), created_at: AT }
}

fn model(blocks: Vec<AssistantBlock>) -> Message {
    Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: AT }
}

fn text(text: &str, meta: Option<Value>) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned(), meta }
}

fn call(id: &str, name: &str, args: Value, meta: Option<Value>) -> AssistantBlock {
    AssistantBlock::ToolUse { id: id.to_owned(), name: name.to_owned(), args, meta }
}

fn results(results: Vec<ToolResult>) -> Message {
    Message::ToolResults { results, created_at: AT }
}

fn result(id: &str, content: Content) -> ToolResult {
    ToolResult { tool_use_id: id.to_owned(), content, is_error: false }
}

fn weather() -> ToolDef {
    ToolDef {
        name: "get_weather".to_owned(),
        description: "Weather for a city".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }),
    }
}

/// Creates a stream of chunks.
fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

/// Decodes a stream that arrives in pieces.
fn read(pieces: &[&[u8]]) -> (Result<ModelResponse, ModelError>, Vec<Delta>) {
    let deltas = Mutex::new(Vec::new());
    let sink = |delta| deltas.lock().unwrap().push(delta);
    let wire = wire();
    let mut reader = Reader::new(wire.provider(), wire.decoder());
    let fed = pieces.iter().try_for_each(|piece| reader.feed(piece, &sink));
    let answer = fed.and_then(|()| reader.finish());
    (answer, deltas.into_inner().unwrap())
}
