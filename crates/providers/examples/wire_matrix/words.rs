//! Short constructors for parts of conversations.

use std::sync::Arc;

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, MediaSource, Message, ModelRequest, StopReason, Timestamp,
    ToolDef, ToolOutput, ToolResult,
};
use serde_json::{Value, json};

/// Time of every message.
pub(crate) const AT: Timestamp = Timestamp::UNIX_EPOCH;
/// The smallest possible PNG.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

pub(crate) fn ask(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: "You are helpful.".to_owned(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::new([]),
        max_tokens: 4096,
        temperature: None,
        output_schema: None,
        provider_params: None,
    }
}

pub(crate) fn with_params(params: Value) -> ModelRequest {
    ModelRequest { provider_params: Some(Arc::new(params)), ..ask(vec![user("go")]) }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User { content: Content::text(text), created_at: AT }
}

pub(crate) fn shows(blocks: Vec<ContentBlock>) -> Message {
    Message::User { content: blocks.into(), created_at: AT }
}

pub(crate) fn assistant(blocks: Vec<AssistantBlock>) -> Message {
    Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: AT }
}

pub(crate) fn results(results: Vec<ToolResult>) -> Message {
    Message::ToolResults { results, created_at: AT }
}

pub(crate) fn text_result(id: &str, text: &str) -> ToolResult {
    ToolOutput::text(text).into_result(id)
}

pub(crate) fn media_result(id: &str, blocks: Vec<ContentBlock>) -> ToolResult {
    ToolOutput { content: blocks.into(), is_error: false, images: Vec::new() }.into_result(id)
}

pub(crate) fn failed(result: ToolResult) -> ToolResult {
    ToolResult { is_error: true, ..result }
}

pub(crate) fn says(text: &str) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned(), meta: None }
}

pub(crate) fn calls(id: &str, name: &str, args: Value) -> AssistantBlock {
    AssistantBlock::ToolUse { id: id.to_owned(), name: name.to_owned(), args, meta: None }
}

pub(crate) fn thinks(text: &str, meta: Option<Value>) -> AssistantBlock {
    AssistantBlock::Reasoning { text: text.to_owned(), meta }
}

pub(crate) fn words(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

pub(crate) fn image_block(media_type: &str) -> ContentBlock {
    let source = MediaSource::Inline { data: PIXEL.to_owned() };
    ContentBlock::Image { media_type: media_type.to_owned(), source }
}

pub(crate) fn clip() -> ContentBlock {
    let source = MediaSource::Inline { data: PIXEL.to_owned() };
    ContentBlock::Video { media_type: "video/mp4".to_owned(), duration_ms: 10, source }
}

pub(crate) fn tool(name: &str, input_schema: Value) -> ToolDef {
    ToolDef { name: name.to_owned(), description: format!("Does {name}."), input_schema }
}

/// Returns two typical tools.
pub(crate) fn tools() -> Arc<[ToolDef]> {
    let path =
        json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
    Arc::from([tool("read_file", path.clone()), tool("list_files", path)])
}
