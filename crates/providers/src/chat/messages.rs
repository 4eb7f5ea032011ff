//! The conversation in the format of Chat Completions.

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, MediaSource, Message, ModelInfo, ModelRequest, Provider,
    ToolResult,
};
use serde_json::{Value, json};

use super::request::MAX_NAME;
use crate::history::{self, META_PROVIDER};
use crate::image_types::{COMMON, inline_image};
use crate::wire::{plain_name, system};

/// Key in a reasoning block's `meta` for the field in which its server expects it back.
const META_FIELD: &str = "field";

/// Field in which a server returns reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReasoningField {
    /// The content, between `<think>` and `</think>`.
    Content,
    /// The field `reasoning`.
    Reasoning,
    /// The field `reasoning_content`.
    ReasoningContent,
}

impl ReasoningField {
    /// Returns the field's name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning",
            Self::ReasoningContent => "reasoning_content",
        }
    }

    /// Returns the `meta` of reasoning received in this field; OpenAI itself accepts no reasoning.
    pub(super) fn meta(self, provider: Provider) -> Option<Value> {
        let is_accepted = provider != Provider::OpenAi;
        is_accepted.then(|| json!({ META_PROVIDER: history::tag(provider), META_FIELD: self.as_str() }))
    }

    fn from_meta(meta: Option<&Value>) -> Option<Self> {
        let field = meta?.get(META_FIELD)?.as_str()?;
        [Self::Content, Self::Reasoning, Self::ReasoningContent].into_iter().find(|own| own.as_str() == field)
    }
}

/// Returns the messages of a request. Consecutive messages of one role are merged, as many chat templates require.
pub(super) fn messages(info: &ModelInfo, request: &ModelRequest) -> Value {
    let history = history::normalize(&request.messages, history::tag(info.provider));
    let turn = history.iter().rposition(|message| matches!(message, Message::User { .. })).unwrap_or(0);
    let mut out = MessageBuilder::default();
    for (at, message) in history.iter().enumerate() {
        match message {
            Message::System { content: text, .. } | Message::SystemNotice { body: text, .. } => {
                out.user([Part::Text(format!("[SYSTEM NOTICE] {text}"))]);
            }
            Message::User { content, .. } => out.user(parts(content, info)),
            Message::Assistant { blocks, .. } => {
                // Templates expect the reasoning of the current turn and discard that of older ones.
                let age = if at > turn { Age::Current } else { Age::Past };
                out.assistant(AssistantTurn::new(blocks, age));
            }
            Message::ToolResults { results, .. } => out.results(results, info),
        }
    }
    let system = system(request).map(|text| json!({ "role": "system", "content": text }));
    system.into_iter().chain(out.finish()).collect()
}

/// Whether a response belongs to the current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Current,
    Past,
}

/// A part of a user message.
enum Part {
    Text(String),
    Media(Value),
}

/// Content of one assistant message.
#[derive(Default)]
struct AssistantTurn {
    texts: Vec<String>,
    calls: Vec<Value>,
    reasoning: Vec<(ReasoningField, String)>,
}

enum Turn {
    User(Vec<Part>),
    Assistant(AssistantTurn),
}

/// Finished messages; the last one is still open for more content of its role.
#[derive(Default)]
struct MessageBuilder {
    done: Vec<Value>,
    open: Option<Turn>,
}

impl MessageBuilder {
    fn user(&mut self, parts: impl IntoIterator<Item = Part>) {
        if !matches!(self.open, Some(Turn::User(_))) {
            self.close();
        }
        if let Turn::User(open) = self.open.get_or_insert_with(|| Turn::User(Vec::new())) {
            open.extend(parts);
        }
    }

    fn assistant(&mut self, turn: AssistantTurn) {
        match &mut self.open {
            Some(Turn::Assistant(open)) => {
                open.texts.extend(turn.texts);
                open.calls.extend(turn.calls);
                open.reasoning.extend(turn.reasoning);
            }
            _ => {
                self.close();
                self.open = Some(Turn::Assistant(turn));
            }
        }
    }

    /// Adds results. A tool message can hold only text, so images follow in a user message.
    fn results(&mut self, results: &[ToolResult], info: &ModelInfo) {
        self.close();
        for result in results {
            self.done.push(json!({
                "role": "tool", "tool_call_id": result.tool_use_id, "content": outcome(result),
            }));
        }
        for result in results.iter().filter(|_| info.profile.image_tool_results) {
            let images = result.content.blocks().iter().filter_map(image_part);
            let mut images = images.map(Part::Media).peekable();
            if images.peek().is_some() {
                self.user([Part::Text(format!("[images of tool call {}]", result.tool_use_id))]);
                self.user(images);
            }
        }
    }

    fn close(&mut self) {
        let message = match self.open.take() {
            Some(Turn::User(parts)) => user(parts),
            Some(Turn::Assistant(turn)) => turn.message(),
            None => None,
        };
        self.done.extend(message);
    }

    fn finish(mut self) -> Vec<Value> {
        self.close();
        self.done
    }
}

impl AssistantTurn {
    fn new(blocks: &[AssistantBlock], age: Age) -> Self {
        let mut turn = Self::default();
        for block in blocks {
            match block {
                AssistantBlock::Text { text, .. } => turn.texts.push(text.clone()),
                AssistantBlock::Reasoning { text, meta }
                    if age == Age::Current && !text.trim().is_empty() =>
                {
                    turn.reasoning
                        .extend(ReasoningField::from_meta(meta.as_ref()).map(|field| (field, text.clone())));
                }
                AssistantBlock::ToolUse { id, name, args, .. } => turn.calls.push(json!({
                    "id": id, "type": "function",
                    "function": { "name": plain_name(name, MAX_NAME, "unknown"), "arguments": arguments(args).to_string() },
                })),
                AssistantBlock::Image(image) => turn.texts.push(format!("[image: {}]", image.media_type)),
                AssistantBlock::Reasoning { .. } | AssistantBlock::ServerToolContent { .. } => {}
            }
        }
        turn
    }

    fn message(self) -> Option<Value> {
        let reasoning = |field: ReasoningField| {
            let texts: Vec<_> = self
                .reasoning
                .iter()
                .filter(|(own, _)| *own == field)
                .map(|(_, text)| text.as_str())
                .collect();
            (!texts.is_empty()).then(|| texts.join("\n\n"))
        };
        let mut content = self.texts.join("\n\n");
        if let Some(thought) = reasoning(ReasoningField::Content) {
            content = format!("<think>\n{thought}\n</think>\n\n{content}");
        }
        if content.is_empty() && self.calls.is_empty() {
            return None;
        }
        let mut message = json!({ "role": "assistant", "content": (!content.is_empty()).then_some(content) });
        for field in [ReasoningField::Reasoning, ReasoningField::ReasoningContent] {
            if let Some(thought) = reasoning(field) {
                message[field.as_str()] = json!(thought);
            }
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = Value::Array(self.calls);
        }
        Some(message)
    }
}

/// Returns arguments as an object, because chat templates iterate over them.
fn arguments(args: &Value) -> Value {
    match args {
        Value::Object(_) => args.clone(),
        Value::Null => json!({}),
        unreadable => json!({ "unreadable": unreadable }),
    }
}

/// Returns a user message: plain text if possible, for servers that accept nothing else.
fn user(parts: Vec<Part>) -> Option<Value> {
    let mut texts = Vec::new();
    let mut list = Vec::new();
    let mut has_media = false;
    for part in parts {
        match part {
            Part::Text(text) if text.trim().is_empty() => {}
            Part::Text(text) => {
                list.push(json!({ "type": "text", "text": text }));
                texts.push(text);
            }
            Part::Media(media) => {
                has_media = true;
                list.push(media);
            }
        }
    }
    let content = if has_media { Value::Array(list) } else { json!(texts.join("\n\n")) };
    (has_media || !texts.is_empty()).then(|| json!({ "role": "user", "content": content }))
}

fn parts(content: &Content, info: &ModelInfo) -> Vec<Part> {
    let part = |block: &ContentBlock| {
        let media = match block {
            ContentBlock::Image { .. } if info.profile.vision => image_part(block),
            ContentBlock::Video { media_type, source: MediaSource::Inline { data }, .. }
                if info.profile.inline_video =>
            {
                let url = format!("data:{media_type};base64,{data}");
                Some(json!({ "type": "video_url", "video_url": { "url": url } }))
            }
            _ => None,
        };
        media.map_or_else(|| Part::Text(block.to_text()), Part::Media)
    };
    content.blocks().iter().map(part).collect()
}

fn image_part(block: &ContentBlock) -> Option<Value> {
    let (media_type, data) = inline_image(block, &COMMON)?;
    let url = format!("data:{media_type};base64,{data}");
    Some(json!({ "type": "image_url", "image_url": { "url": url } }))
}

/// Returns a result as text. The format has no field for failures, so the text is prefixed.
fn outcome(result: &ToolResult) -> String {
    let text = result.content.to_text();
    let text = if text.trim().is_empty() { "(no output)" } else { &text };
    let is_marked = text.trim_start().starts_with("{\"error\"");
    if result.is_error && !is_marked { format!("[ERROR] {text}") } else { text.to_owned() }
}
