//! A conversation in Anthropic's format: turns of blocks, the user first, every call with its result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meerkat_core::{AssistantBlock, Content, ContentBlock, Message, ModelProfile, Provider, ToolResult};
use serde_json::{Value, json};

use crate::history;
use crate::image_types::{COMMON, inline_image};
use crate::wire::plain_name;

/// Maximum length of a tool name.
const MAX_NAME: usize = 128;

/// Whether images are sent or replaced by a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Images {
    Sent,
    Named,
}

impl Images {
    const fn sent_if(can_be: bool) -> Self {
        if can_be { Self::Sent } else { Self::Named }
    }
}

/// Author of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

/// Consecutive blocks of one role.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn {
    pub(super) role: Role,
    pub(super) blocks: Vec<Value>,
}

impl Turn {
    pub(super) fn into_json(self) -> Value {
        let role = if self.role == Role::User { "user" } else { "assistant" };
        json!({ "role": role, "content": self.blocks })
    }

    fn starts_with_thinking(&self) -> bool {
        self.blocks.first().is_some_and(is_thinking)
    }

    /// Returns `true` if a call of one of the provider's own tools has no result yet.
    fn has_open_call(&self) -> bool {
        let has_result = |id: &str| self.blocks.iter().any(|block| result_id(block) == Some(id));
        let calls = self.blocks.iter().filter(|block| is_server_side(kind(block)));
        calls.filter_map(call_id).any(|id| !has_result(id))
    }

    fn has_results(&self) -> bool {
        self.blocks.iter().any(|block| kind(block) == "tool_result")
    }
}

/// Converts a history into turns.
pub(super) fn turns(messages: &[Arc<Message>], profile: ModelProfile) -> Vec<Turn> {
    let history = history::normalize(messages, history::tag(Provider::Anthropic));
    let server = ServerCalls::from_history(&history);
    let mut ids = CallIds::default();
    let mut turns = Vec::new();
    for (at, message) in history.iter().enumerate() {
        let (role, blocks) = match message {
            Message::Assistant { blocks, .. } => (Role::Assistant, assistant(blocks, at, &server, &mut ids)),
            Message::ToolResults { results, .. } => {
                (Role::User, results.iter().filter_map(|result| answer(result, profile, &ids)).collect())
            }
            Message::User { content, .. } => {
                (Role::User, content_blocks(content, Images::sent_if(profile.vision)))
            }
            Message::System { content: body, .. } | Message::SystemNotice { body, .. } => {
                (Role::User, vec![text(&format!("[SYSTEM NOTICE] {body}"))])
            }
        };
        push(&mut turns, role, blocks);
    }
    frame(&mut turns);
    turns
}

/// Returns `true` if the model's current turn started without thinking: such a turn cannot be continued with a
/// fixed thinking budget.
pub(super) fn began_without_thinking(turns: &[Turn]) -> bool {
    let start = turns.iter().rposition(|turn| turn.role == Role::User && !turn.has_results());
    let first = turns.iter().skip(start.map_or(0, |at| at + 1)).find(|turn| turn.role == Role::Assistant);
    first.is_some_and(|turn| !turn.starts_with_thinking())
}

fn push(turns: &mut Vec<Turn>, role: Role, blocks: Vec<Value>) {
    match turns.last_mut() {
        _ if blocks.is_empty() => {}
        Some(last) if last.role == role => last.blocks.extend(blocks),
        _ => turns.push(Turn { role, blocks }),
    }
}

/// Ensures that the user speaks first and last; only unfinished work of the provider's own tools may come last.
fn frame(turns: &mut Vec<Turn>) {
    let prompt_to_continue = || Turn { role: Role::User, blocks: vec![text("Continue.")] };
    if turns.first().is_none_or(|turn| turn.role == Role::Assistant) {
        turns.insert(0, prompt_to_continue());
    }
    let is_open = |turn: &Turn| {
        let is_server_block = |block: &Value| is_server_side(kind(block));
        turn.role == Role::Assistant
            && !turn.blocks.last().is_some_and(is_server_block)
            && !turn.has_open_call()
    };
    if turns.last().is_some_and(is_open) {
        turns.push(prompt_to_continue());
    }
}

fn answer(result: &ToolResult, profile: ModelProfile, ids: &CallIds) -> Option<Value> {
    let id = ids.current.get(&result.tool_use_id)?;
    // An error result may contain only text, and must not be empty.
    let images = Images::sent_if(profile.image_tool_results && !result.is_error);
    let mut content = content_blocks(&result.content, images);
    if content.is_empty() && result.is_error {
        content.push(text("the tool failed without saying why"));
    }
    let mut answer = json!({ "type": "tool_result", "tool_use_id": id });
    if !content.is_empty() {
        answer["content"] = Value::Array(content);
    }
    if result.is_error {
        answer["is_error"] = Value::Bool(true);
    }
    Some(answer)
}

fn content_blocks(content: &Content, images: Images) -> Vec<Value> {
    content.blocks().iter().filter_map(|block| content_block(block, images)).collect()
}

fn content_block(block: &ContentBlock, images: Images) -> Option<Value> {
    if let Some((media_type, data)) = inline_image(block, &COMMON).filter(|_| images == Images::Sent) {
        let source = json!({ "type": "base64", "media_type": media_type, "data": data });
        return Some(json!({ "type": "image", "source": source }));
    }
    let words = block.to_text();
    (!words.trim().is_empty()).then(|| text(&words))
}

fn assistant(blocks: &[AssistantBlock], at: usize, server: &ServerCalls, ids: &mut CallIds) -> Vec<Value> {
    ids.current.clear();
    let mut out: Vec<_> = blocks.iter().filter_map(|block| assistant_block(block, at, server, ids)).collect();
    // A turn must not end with thinking.
    while out.last().is_some_and(is_thinking) {
        out.pop();
    }
    out
}

fn assistant_block(
    block: &AssistantBlock,
    at: usize,
    server: &ServerCalls,
    ids: &mut CallIds,
) -> Option<Value> {
    match block {
        AssistantBlock::Text { text: words, meta } => {
            let mut block = text(words);
            if let Some(Value::Array(citations)) = meta.as_ref().and_then(|meta| meta.get("citations")) {
                block["citations"] = citations.iter().cloned().map(citation).collect();
            }
            Some(block)
        }
        AssistantBlock::Reasoning { text, meta } => thinking(text, meta.as_ref()?),
        AssistantBlock::ToolUse { id, name, args, meta } => {
            let input = if args.is_object() { args.clone() } else { json!({ "unreadable": args }) };
            let mut call = json!({
                "type": "tool_use", "id": ids.assign(id)?, "name": plain_name(name, MAX_NAME, "unknown"), "input": input,
            });
            if let Some(caller @ Value::Object(_)) = meta.as_ref().and_then(|meta| meta.get("caller")) {
                call["caller"] = caller.clone();
            }
            Some(call)
        }
        AssistantBlock::ServerToolContent { content, .. } => {
            (is_server_side(kind(content)) && server.may_send(content, at)).then(|| content.clone())
        }
        AssistantBlock::Image(image) => Some(text(&format!("[image: {}]", image.media_type))),
    }
}

fn thinking(text: &str, meta: &Value) -> Option<Value> {
    if let Some(data @ Value::String(_)) = meta.get("data") {
        return Some(json!({ "type": "redacted_thinking", "data": data }));
    }
    let signature = meta.get("signature").filter(|signature| signature.is_string())?;
    Some(json!({ "type": "thinking", "thinking": text, "signature": signature }))
}

/// Removes fields that Anthropic returns in a citation but does not accept.
fn citation(mut citation: Value) -> Value {
    if let Value::Object(fields) = &mut citation {
        fields.shift_remove("file_id");
    }
    citation
}

fn text(words: &str) -> Value {
    json!({ "type": "text", "text": words })
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_thinking(block: &Value) -> bool {
    matches!(kind(block), "thinking" | "redacted_thinking")
}

/// Returns `true` if a block of this type is work of the provider's own tools.
fn is_server_side(kind: &str) -> bool {
    !matches!(kind, "" | "text" | "thinking" | "redacted_thinking" | "tool_use" | "tool_result" | "image")
}

/// The ids of calls in the request: they contain only allowed characters, and each is unique in the conversation.
#[derive(Debug, Default)]
struct CallIds {
    used: BTreeSet<String>,
    /// Calls of the current step, by their original ids.
    current: BTreeMap<String, String>,
}

impl CallIds {
    /// Returns the id to send; `None` if the step already has that call.
    fn assign(&mut self, id: &str) -> Option<String> {
        if self.current.contains_key(id) {
            return None;
        }
        let base = plain_name(id, usize::MAX, "call");
        let mut unique = base.clone();
        let mut number = 1_u64;
        while !self.used.insert(unique.clone()) {
            number += 1;
            unique = format!("{base}_{number}");
        }
        self.current.insert(id.to_owned(), unique.clone());
        Some(unique)
    }
}

/// Calls of the provider's own tools and their results, which may only be sent in pairs.
#[derive(Debug, Default)]
struct ServerCalls {
    calls: BTreeSet<String>,
    results: BTreeSet<String>,
    /// Index of the message whose calls may still be running.
    open: Option<usize>,
}

impl ServerCalls {
    fn from_history(history: &[Message]) -> Self {
        let mut all = Self::default();
        for (at, message) in history.iter().enumerate() {
            match message {
                Message::Assistant { blocks, .. } => {
                    all.open = Some(at);
                    all.note(blocks);
                }
                Message::ToolResults { .. } => {}
                _ => all.open = None,
            }
        }
        all
    }

    fn note(&mut self, blocks: &[AssistantBlock]) {
        for block in blocks {
            let AssistantBlock::ServerToolContent { content, .. } = block else { continue };
            if let Some(id) = call_id(content) {
                self.calls.insert(id.to_owned());
            }
            if let Some(id) = result_id(content).filter(|id| self.calls.contains(*id)) {
                self.results.insert(id.to_owned());
            }
        }
    }

    fn may_send(&self, content: &Value, at: usize) -> bool {
        let has_result = |id: &str| self.results.contains(id);
        let call = call_id(content).is_none_or(|id| has_result(id) || self.open == Some(at));
        call && result_id(content).is_none_or(has_result)
    }
}

fn call_id(content: &Value) -> Option<&str> {
    let id = content.get("id").and_then(Value::as_str)?;
    kind(content).ends_with("tool_use").then_some(id)
}

fn result_id(content: &Value) -> Option<&str> {
    let id = content.get("tool_use_id").and_then(Value::as_str)?;
    kind(content).ends_with("tool_result").then_some(id)
}
