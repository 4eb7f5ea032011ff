//! A conversation as Anthropic takes it: turns of blocks, the user first, every call with its result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, MediaSource, Message, ModelProfile, Provider, ToolResult,
};
use serde_json::{Value, json};

use crate::{history, pictures};

/// The longest name of a tool.
const MAX_NAME: usize = 128;

/// Whether images are sent or only named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pictures {
    Sent,
    Named,
}

impl Pictures {
    const fn sent_if(can_be: bool) -> Self {
        if can_be { Self::Sent } else { Self::Named }
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

/// What one side says until the other does.
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

    /// Says whether one of the provider's own tools was called and has not answered.
    fn has_open_call(&self) -> bool {
        let answered = |id: &str| self.blocks.iter().any(|block| result_id(block) == Some(id));
        let calls = self.blocks.iter().filter(|block| is_server_side(kind(block)));
        calls.filter_map(call_id).any(|id| !answered(id))
    }

    fn has_results(&self) -> bool {
        self.blocks.iter().any(|block| kind(block) == "tool_result")
    }
}

/// Makes turns of a history.
pub(super) fn turns(messages: &[Arc<Message>], profile: ModelProfile) -> Vec<Turn> {
    let history = history::normalise(messages, history::tag(Provider::Anthropic));
    let server = ServerCalls::of(&history);
    let mut ids = CallIds::default();
    let mut turns = Vec::new();
    for (at, message) in history.iter().enumerate() {
        let (role, blocks) = match message {
            Message::Assistant { blocks, .. } => (Role::Assistant, assistant(blocks, at, &server, &mut ids)),
            Message::ToolResults { results, .. } => {
                (Role::User, results.iter().filter_map(|result| answer(result, profile, &ids)).collect())
            }
            Message::User { content, .. } => (Role::User, user(content, profile)),
            Message::System { content, .. } => (Role::User, vec![notice(content)]),
            Message::SystemNotice { body, .. } => (Role::User, vec![notice(body)]),
        };
        push(&mut turns, role, blocks);
    }
    frame(&mut turns);
    turns
}

/// Says whether the turn that the model is in the middle of began without thinking: with a fixed budget such a
/// turn cannot be continued.
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

/// The user speaks first and last; only work of the provider's own tools may be left to be continued.
fn frame(turns: &mut Vec<Turn>) {
    let go_on = || Turn { role: Role::User, blocks: vec![text("Continue.")] };
    if turns.first().is_none_or(|turn| turn.role == Role::Assistant) {
        turns.insert(0, go_on());
    }
    let is_open = |turn: &Turn| {
        let is_at_work = |block: &Value| is_server_side(kind(block));
        turn.role == Role::Assistant && !turn.blocks.last().is_some_and(is_at_work) && !turn.has_open_call()
    };
    if turns.last().is_some_and(is_open) {
        turns.push(go_on());
    }
}

fn user(content: &Content, profile: ModelProfile) -> Vec<Value> {
    content_blocks(content, Pictures::sent_if(profile.vision))
}

fn answer(result: &ToolResult, profile: ModelProfile, ids: &CallIds) -> Option<Value> {
    let id = ids.current.get(&result.tool_use_id)?;
    // A failure may say only text, and must say something.
    let pictures = Pictures::sent_if(profile.image_tool_results && !result.is_error);
    let mut content = content_blocks(&result.content, pictures);
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

fn content_blocks(content: &Content, pictures: Pictures) -> Vec<Value> {
    content.blocks().iter().filter_map(|block| content_block(block, pictures)).collect()
}

fn content_block(block: &ContentBlock, shown: Pictures) -> Option<Value> {
    match block {
        ContentBlock::Text { text: words } => (!words.trim().is_empty()).then(|| text(words)),
        ContentBlock::Image { media_type, source: MediaSource::Inline { data } }
            if shown == Pictures::Sent =>
        {
            let Some(media_type) = pictures::readable(media_type, &pictures::COMMON) else {
                return Some(text(&block.to_text()));
            };
            let source = json!({ "type": "base64", "media_type": media_type, "data": data });
            Some(json!({ "type": "image", "source": source }))
        }
        ContentBlock::Image { .. } | ContentBlock::Video { .. } | ContentBlock::File { .. } => {
            Some(text(&block.to_text()))
        }
    }
}

fn assistant(blocks: &[AssistantBlock], at: usize, server: &ServerCalls, ids: &mut CallIds) -> Vec<Value> {
    ids.current.clear();
    let mut out: Vec<_> = blocks.iter().filter_map(|block| assistant_block(block, at, server, ids)).collect();
    // Thinking that led to nothing may not be the end of a turn.
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
                "type": "tool_use", "id": ids.assign(id)?, "name": tool_name(name), "input": input,
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

fn thinking(words: &str, meta: &Value) -> Option<Value> {
    if let Some(data @ Value::String(_)) = meta.get("data") {
        return Some(json!({ "type": "redacted_thinking", "data": data }));
    }
    let signature = meta.get("signature").filter(|signature| signature.is_string())?;
    Some(json!({ "type": "thinking", "thinking": words, "signature": signature }))
}

/// Takes out of a citation what may be read but not sent.
fn citation(mut citation: Value) -> Value {
    if let Value::Object(fields) = &mut citation {
        fields.shift_remove("file_id");
    }
    citation
}

fn notice(words: &str) -> Value {
    text(&format!("[SYSTEM NOTICE] {words}"))
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

/// Says whether a type of block is work of the provider's own tools.
fn is_server_side(kind: &str) -> bool {
    !matches!(kind, "" | "text" | "thinking" | "redacted_thinking" | "tool_use" | "tool_result" | "image")
}

/// Keeps what the format allows in a name, and makes a name of nothing.
fn clean(text: &str, fallback: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    if text.is_empty() { fallback.to_owned() } else { text.chars().map(keep).collect() }
}

fn tool_name(name: &str) -> String {
    let mut name = clean(name, "unknown");
    name.truncate(MAX_NAME);
    name
}

/// The ids of calls as they are sent: made of allowed characters, and used once in a conversation.
#[derive(Debug, Default)]
struct CallIds {
    used: BTreeSet<String>,
    /// The calls of the step, by their own ids.
    current: BTreeMap<String, String>,
}

impl CallIds {
    /// Returns the id to send; `None` if the step has had that call.
    fn assign(&mut self, id: &str) -> Option<String> {
        if self.current.contains_key(id) {
            return None;
        }
        let base = clean(id, "call");
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

/// The calls of the provider's own tools and their results, which may only be sent in pairs.
#[derive(Debug, Default)]
struct ServerCalls {
    calls: BTreeSet<String>,
    results: BTreeSet<String>,
    /// The message whose calls may still be at work.
    open: Option<usize>,
}

impl ServerCalls {
    fn of(history: &[Message]) -> Self {
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
        let answered = |id: &str| self.results.contains(id);
        let call = call_id(content).is_none_or(|id| answered(id) || self.open == Some(at));
        call && result_id(content).is_none_or(answered)
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
