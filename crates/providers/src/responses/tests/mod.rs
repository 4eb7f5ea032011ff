//! Tests of the wire format: requests, responses, and errors.

mod body;
mod broken;
mod decode;
mod history;
mod refusals;

use std::sync::{Arc, Mutex};

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, Delta, MediaSource, Message, ModelError, ModelInfo, ModelProfile,
    ModelRequest, ModelResponse, Provider, StopReason, Timestamp, ToolDef, ToolOutput,
};
use serde_json::{Value, json};

use super::{Responses, request, without_version};
use crate::reader::Reader;
use crate::wire::Wire;

const AT: Timestamp = Timestamp::UNIX_EPOCH;

fn wire(provider: Provider) -> Responses {
    Responses { provider }
}

/// Returns a reasoning model with vision.
fn model() -> ModelInfo {
    let profile = ModelProfile {
        supports_reasoning: true,
        supports_web_search: true,
        vision: true,
        ..ModelProfile::default()
    };
    ModelInfo { max_output_tokens: Some(1000), profile, ..ModelInfo::new("gpt-5.5", Provider::OpenAi) }
}

/// Returns a self-hosted model with few capabilities.
fn own_model() -> ModelInfo {
    let profile = ModelProfile { supports_temperature: true, ..ModelProfile::default() };
    ModelInfo { profile, ..ModelInfo::new("llama", Provider::SelfHosted) }
}

fn asking(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: String::new(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::new([]),
        max_tokens: 500,
        temperature: None,
        output_schema: None,
        provider_params: None,
    }
}

fn with_params(params: Value) -> ModelRequest {
    ModelRequest { provider_params: Some(Arc::new(params)), ..asking(vec![user("hi")]) }
}

fn user(text: &str) -> Message {
    Message::User { content: Content::text(text), created_at: AT }
}

fn assistant(blocks: Vec<AssistantBlock>) -> Message {
    Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: AT }
}

fn results(outputs: Vec<(&str, ToolOutput)>) -> Message {
    let results = outputs.into_iter().map(|(id, output)| output.into_result(id)).collect();
    Message::ToolResults { results, created_at: AT }
}

fn say(text: &str, meta: Option<Value>) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned(), meta }
}

fn think(text: &str, meta: Option<Value>) -> AssistantBlock {
    AssistantBlock::Reasoning { text: text.to_owned(), meta }
}

fn call(id: &str, name: &str, args: Value) -> AssistantBlock {
    AssistantBlock::ToolUse { id: id.to_owned(), name: name.to_owned(), args, meta: None }
}

fn image_block() -> ContentBlock {
    ContentBlock::Image {
        media_type: "image/png".to_owned(),
        source: MediaSource::Inline { data: "iVBORw0K".to_owned() },
    }
}

fn prose(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

fn weather() -> ToolDef {
    ToolDef {
        name: "weather".to_owned(),
        description: "Weather of a city".to_owned(),
        input_schema: weather_schema(),
    }
}

fn weather_schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

fn body(info: &ModelInfo, request: &ModelRequest) -> Value {
    request::body(info, request).json
}

fn input(info: &ModelInfo, messages: Vec<Message>) -> Value {
    body(info, &asking(messages))["input"].take()
}

fn user_item(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// Returns an answer sent to OpenAI without an id.
fn assistant_item(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": text})
}

/// Returns an answer sent back with an id.
fn identified(id: &str, text: &str) -> Value {
    json!({
        "type": "message", "role": "assistant", "id": id, "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    })
}

/// Result of a stream, with the deltas concatenated by kind.
#[derive(Debug, PartialEq)]
struct Read {
    answer: Result<ModelResponse, ModelError>,
    text: String,
    reasoning: String,
}

/// Decodes a stream in the given chunks.
fn read<'a>(provider: Provider, chunks: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let seen = Mutex::new((String::new(), String::new()));
    let sink = |delta: Delta| {
        let mut seen = seen.lock().unwrap();
        match delta {
            Delta::Text(text) => seen.0.push_str(&text),
            Delta::Reasoning(text) => seen.1.push_str(&text),
            Delta::Received | Delta::ToolOmitted { .. } => {}
        }
    };
    let answer = answer(provider, chunks, &sink);
    let (text, reasoning) = seen.into_inner().unwrap();
    Read { answer, text, reasoning }
}

fn answer<'a>(
    provider: Provider,
    chunks: impl IntoIterator<Item = &'a [u8]>,
    sink: meerkat_core::DeltaSink<'_>,
) -> Result<ModelResponse, ModelError> {
    let wire = wire(provider);
    let mut reader = Reader::new(wire.provider(), wire.decoder());
    chunks.into_iter().try_for_each(|chunk| reader.feed(chunk, sink))?;
    reader.finish()
}

fn read_whole(stream: &str) -> Read {
    read(Provider::OpenAi, [stream.as_bytes()])
}

/// Formats events as the provider does, each named by its type.
fn stream(events: &[Value]) -> String {
    let event =
        |value: &Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default());
    events.iter().map(event).collect()
}

#[test]
fn path_is_independent_of_base_url_version() {
    assert_eq!(wire(Provider::OpenAi).path(&model()), "/v1/responses");
    for base in ["http://host:8080", "http://host:8080/", "http://host:8080/v1", "http://host:8080/v1/"] {
        assert_eq!(without_version(base), "http://host:8080");
    }
    assert_eq!(without_version("http://host/api/v1"), "http://host/api");
}

#[test]
fn key_is_sent_as_a_header_if_set() {
    let wire = wire(Provider::SelfHosted);
    assert_eq!(wire.headers("k"), vec![("authorization", "Bearer k".to_owned())]);
    assert_eq!(wire.headers(""), vec![]);
    assert_eq!(wire.provider(), Provider::SelfHosted);
}
