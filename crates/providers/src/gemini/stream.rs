//! Decoder for a response: a sequence of response objects, ending with one that has a finish reason.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use meerkat_core::{
    AssistantBlock, Delta, DeltaSink, ModelError, ModelErrorKind, ModelResponse, Provider, ResponseStatus,
    StopReason, Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fields::{count, flag, list, malformed, object, text};
use super::{SERVER_PARTS, SIGNATURE, errors, fast_path};
use crate::history::{META_PROVIDER, tag};
use crate::shape::Shape;
use crate::sse::Event;
use crate::wire::{Decode, error};

/// Token counts in a chunk; all but the last are used.
const COUNTS: [&str; 6] = [
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
    "totalTokenCount",
];

/// Decodes one response.
#[derive(Default)]
pub(super) struct Decoder {
    blocks: Vec<AssistantBlock>,
    calls: usize,
    response_id: Option<String>,
    /// Stands in for the response id if there is none.
    digest: DefaultHasher,
    grounding: Map<String, Value>,
    finish: Option<Finish>,
    blocked: Option<String>,
    usage: Counts,
    /// Shape of the last plain chunk, and whether its text was a thought.
    shape: Shape,
    voice: TextKind,
}

/// Reason the model stopped.
struct Finish {
    reason: String,
    message: String,
}

/// Token counts; each chunk repeats those it knows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Counts {
    #[serde(rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount")]
    tool_prompt: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    candidates: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    cached: Option<u64>,
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(());
        }
        // The digest stands in for the response id, and is needed only until there is one.
        if self.response_id.is_none() {
            event.data.hash(&mut self.digest);
        }
        let Self { shape, usage, .. } = self;
        if let Some(text) = shape.read(event.data, |key, count| usage.set(key, count)) {
            self.say(text, None, self.voice, deltas);
            return Ok(());
        }
        if let Some(piece) = fast_path::read(event.data) {
            self.extend(event.data, &piece, deltas);
            return Ok(());
        }
        let data: Value = serde_json::from_str(event.data)
            .map_err(|reason| malformed(&format!("a chunk is not JSON: {reason}")))?;
        match data {
            Value::Array(chunks) => chunks.iter().try_for_each(|chunk| self.chunk(chunk, deltas)),
            chunk => self.chunk(&chunk, deltas),
        }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        (*self).answer()
    }
}

impl Decoder {
    /// Handles a chunk that only extends the response.
    fn extend(&mut self, data: &str, piece: &fast_path::Piece<'_>, deltas: DeltaSink<'_>) {
        let id = &*piece.response_id;
        if self.response_id.is_none() && !id.is_empty() {
            self.response_id = Some(id.to_owned());
        }
        if let Some(usage) = piece.usage {
            self.usage.update(usage);
        }
        let signature = Some(&*piece.signature).filter(|signature| !signature.is_empty());
        let voice = if piece.is_thought { TextKind::Reasoning } else { TextKind::Text };
        self.say(&piece.text, signature, voice, deltas);
        if let (Some(Cow::Borrowed(text)), None) = (&piece.text.0, signature) {
            let usage = piece.usage.unwrap_or_default();
            self.shape.learn(data, text, &COUNTS, |counts| usage.is_all_of(counts));
            self.voice = voice;
        }
    }

    fn chunk(&mut self, chunk: &Value, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        let chunk = chunk.as_object().ok_or_else(|| malformed("a chunk is not an object"))?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(errors::in_stream(&Value::Object(chunk.clone())));
        }
        if let Some(id) = text(chunk, "responseId")?.filter(|id| !id.is_empty()) {
            self.response_id.get_or_insert_with(|| id.to_owned());
        }
        if let Some(usage) = object(chunk, "usageMetadata")? {
            self.usage.update(Counts::read(usage)?);
        }
        if let Some(feedback) = object(chunk, "promptFeedback")? {
            self.feedback(feedback)?;
        }
        for candidate in list(chunk, "candidates")? {
            let candidate = candidate.as_object().ok_or_else(|| malformed("a candidate is not an object"))?;
            // Other candidates are alternative answers.
            if count(candidate, "index")?.unwrap_or(0) == 0 {
                self.candidate(candidate, deltas)?;
            }
        }
        Ok(())
    }

    fn feedback(&mut self, feedback: &Map<String, Value>) -> Result<(), ModelError> {
        let Some(reason) = text(feedback, "blockReason")? else {
            return Ok(());
        };
        let message = text(feedback, "blockReasonMessage")?.unwrap_or_default();
        self.blocked = Some(with_detail(&format!("the prompt was blocked ({reason})"), message));
        Ok(())
    }

    fn candidate(&mut self, candidate: &Map<String, Value>, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        if let Some(content) = object(candidate, "content")? {
            for part in list(content, "parts")? {
                let part = part.as_object().ok_or_else(|| malformed("a part is not an object"))?;
                self.part(part, deltas)?;
            }
        }
        if let Some(grounding) = object(candidate, "groundingMetadata")? {
            self.grounding.extend(grounding.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        if let Some(reason) = text(candidate, "finishReason")?.filter(|reason| !reason.is_empty()) {
            let message = text(candidate, "finishMessage")?.unwrap_or_default().to_owned();
            self.finish = Some(Finish { reason: reason.to_owned(), message });
        }
        Ok(())
    }

    fn part(&mut self, part: &Map<String, Value>, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        let signature = text(part, SIGNATURE)?.filter(|signature| !signature.is_empty());
        if let Some(call) = object(part, "functionCall")? {
            return self.call(call, signature);
        }
        if let Some(key) = SERVER_PARTS.iter().find(|key| part.get(**key).is_some_and(Value::is_object)) {
            self.blocks.push(server_block(key, part, signature));
            return Ok(());
        }
        let Some(piece) = text(part, "text")? else {
            return Ok(());
        };
        if flag(part, "thought")? {
            self.say(piece, signature, TextKind::Reasoning, deltas);
        } else {
            self.say(piece, signature, TextKind::Text, deltas);
        }
        Ok(())
    }

    /// Adds text to the current block of its kind; a signature ends the block.
    fn say(&mut self, piece: &str, signature: Option<&str>, voice: TextKind, deltas: DeltaSink<'_>) {
        if !piece.is_empty() {
            deltas(voice.delta(piece.to_owned()));
        }
        let meta = signature.map(|signature| meta(Some(signature), None));
        match self.blocks.last_mut().and_then(|block| voice.open(block)) {
            Some((text, own)) => {
                text.push_str(piece);
                *own = meta;
            }
            None if piece.is_empty() => {}
            None => self.blocks.push(voice.block(piece.to_owned(), meta)),
        }
    }

    fn call(&mut self, call: &Map<String, Value>, signature: Option<&str>) -> Result<(), ModelError> {
        let name = text(call, "name")?.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| malformed("a call has no name"))?.to_owned();
        if !list(call, "partialArgs")?.is_empty() {
            return Err(malformed("the arguments of a call are streamed, which was not requested"));
        }
        let args = match call.get("args") {
            None | Some(Value::Null) => json!({}),
            Some(Value::Object(args)) => Value::Object(args.clone()),
            Some(Value::String(raw)) => arguments(raw),
            Some(_) => return Err(malformed("`args` of a call is not an object")),
        };
        let own_id = text(call, "id")?.filter(|id| !id.is_empty());
        let id = own_id.map_or_else(|| self.next_id(), str::to_owned);
        self.calls += 1;
        let meta = (own_id.is_some() || signature.is_some()).then(|| meta(signature, own_id));
        self.blocks.push(AssistantBlock::ToolUse { id, name, args, meta });
        Ok(())
    }

    /// Creates an id for a call that has none: the same for the same response, different for any other.
    fn next_id(&self) -> String {
        match &self.response_id {
            Some(response) => format!("{response}_{}", self.calls),
            None => format!("call_{:016x}_{}", self.digest.finish(), self.calls),
        }
    }

    fn answer(mut self) -> Result<ModelResponse, ModelError> {
        let stop_reason = self.stop_reason()?;
        if !self.grounding.is_empty() {
            self.blocks.push(AssistantBlock::ServerToolContent {
                id: None,
                name: "google_search".to_owned(),
                content: Value::Object(self.grounding),
                meta: None,
            });
        }
        Ok(ModelResponse {
            blocks: self.blocks,
            stop_reason,
            extent: ResponseStatus::Complete,
            usage: self.usage.total(),
        })
    }

    fn stop_reason(&self) -> Result<StopReason, ModelError> {
        let is_text = |block: &AssistantBlock| matches!(block, AssistantBlock::Text { text, .. } if !text.trim().is_empty());
        let is_usable = self.calls > 0 || self.blocks.iter().any(is_text);
        if let Some(blocked) = &self.blocked {
            return filtered(is_usable, blocked);
        }
        let Some(finish) = &self.finish else {
            return Err(failure(ModelErrorKind::StreamCut, "the stream ended without a finish reason"));
        };
        let why = with_detail(&format!("the response ended with {}", finish.reason), &finish.message);
        match finish.reason.as_str() {
            "MAX_TOKENS" => Ok(StopReason::MaxTokens),
            reason if is_filtered(reason) => filtered(is_usable, &why),
            "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" if self.calls == 0 => {
                Err(malformed(&why))
            }
            "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" | "TOO_MANY_TOOL_CALLS" if !is_usable => {
                Err(failure(ModelErrorKind::Incomplete, &why))
            }
            _ if self.calls > 0 => Ok(StopReason::ToolUse),
            _ => Ok(StopReason::EndTurn),
        }
    }
}

/// Returns `true` if a finish reason means that content was filtered.
pub(crate) fn is_filtered(reason: &str) -> bool {
    matches!(
        reason,
        "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
    )
}

/// Kind of a text: an answer or a thought.
#[derive(Clone, Copy, Default)]
enum TextKind {
    #[default]
    Text,
    Reasoning,
}

impl TextKind {
    fn delta(self, text: String) -> Delta {
        match self {
            Self::Text => Delta::Text(text),
            Self::Reasoning => Delta::Reasoning(text),
        }
    }

    fn block(self, text: String, meta: Option<Value>) -> AssistantBlock {
        match self {
            Self::Text => AssistantBlock::Text { text, meta },
            Self::Reasoning => AssistantBlock::Reasoning { text, meta },
        }
    }

    /// Returns the block's text and `meta` if text of this kind may be appended to it.
    fn open(self, block: &mut AssistantBlock) -> Option<(&mut String, &mut Option<Value>)> {
        let ((Self::Text, AssistantBlock::Text { text, meta })
        | (Self::Reasoning, AssistantBlock::Reasoning { text, meta })) = (self, block)
        else {
            return None;
        };
        meta.is_none().then_some((text, meta))
    }
}

impl Counts {
    fn read(usage: &Map<String, Value>) -> Result<Self, ModelError> {
        Ok(Self {
            prompt: count(usage, "promptTokenCount")?,
            tool_prompt: count(usage, "toolUsePromptTokenCount")?,
            candidates: count(usage, "candidatesTokenCount")?,
            thoughts: count(usage, "thoughtsTokenCount")?,
            cached: count(usage, "cachedContentTokenCount")?,
        })
    }

    /// Updates one of `COUNTS`.
    fn set(&mut self, key: &str, count: u64) {
        let own = match key {
            "promptTokenCount" => &mut self.prompt,
            "toolUsePromptTokenCount" => &mut self.tool_prompt,
            "candidatesTokenCount" => &mut self.candidates,
            "thoughtsTokenCount" => &mut self.thoughts,
            "cachedContentTokenCount" => &mut self.cached,
            _ => return,
        };
        *own = Some(count);
    }

    /// Returns `true` if these numbers are exactly the counts, each once: they were found only by their names.
    fn is_all_of(&self, numbers: &[(&'static str, u64)]) -> bool {
        let mut counts = Self::default();
        let repeats = numbers.iter().enumerate().any(|(index, (key, count))| {
            counts.set(key, *count);
            numbers[..index].iter().any(|(other, _)| other == key)
        });
        !repeats && counts == *self
    }

    /// Updates the counts with newer ones, where present.
    fn update(&mut self, newer: Self) {
        self.prompt = newer.prompt.or(self.prompt);
        self.tool_prompt = newer.tool_prompt.or(self.tool_prompt);
        self.candidates = newer.candidates.or(self.candidates);
        self.thoughts = newer.thoughts.or(self.thoughts);
        self.cached = newer.cached.or(self.cached);
    }

    fn total(&self) -> Usage {
        let sum = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).saturating_add(b.unwrap_or(0));
        Usage {
            input_tokens: sum(self.prompt, self.tool_prompt),
            output_tokens: sum(self.candidates, self.thoughts),
            cache_creation_tokens: None,
            cache_read_tokens: self.cached,
        }
    }
}

fn server_block(key: &str, part: &Map<String, Value>, signature: Option<&str>) -> AssistantBlock {
    let inner = &part[key];
    let name = match (key, inner.get("toolType").and_then(Value::as_str)) {
        (_, Some(kind)) if kind.starts_with("GOOGLE_SEARCH") => "google_search".to_owned(),
        (_, Some(kind)) => kind.to_lowercase(),
        ("executableCode" | "codeExecutionResult", None) => "code_execution".to_owned(),
        ("inlineData" | "fileData", None) => "media".to_owned(),
        _ => "server_tool".to_owned(),
    };
    let id = inner.get("id").and_then(Value::as_str).map(str::to_owned);
    let mut content = part.clone();
    content.remove(SIGNATURE);
    AssistantBlock::ServerToolContent {
        id,
        name,
        content: Value::Object(content),
        meta: Some(meta(signature, None)),
    }
}

/// Builds the `meta` that is sent back with a block; the id is the server's.
fn meta(signature: Option<&str>, id: Option<&str>) -> Value {
    let mut meta = json!({ META_PROVIDER: tag(Provider::Gemini) });
    for (key, value) in [(SIGNATURE, signature), ("id", id)] {
        if let Some(value) = value {
            meta[key] = json!(value);
        }
    }
    meta
}

fn arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return json!({});
    }
    let read = serde_json::from_str(raw).ok().filter(Value::is_object);
    read.unwrap_or_else(|| Value::String(raw.to_owned()))
}

fn filtered(is_usable: bool, why: &str) -> Result<StopReason, ModelError> {
    if is_usable { Ok(StopReason::ContentFilter) } else { Err(failure(ModelErrorKind::ContentFilter, why)) }
}

fn with_detail(what: &str, message: &str) -> String {
    if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") }
}

fn failure(kind: ModelErrorKind, message: &str) -> ModelError {
    error(Provider::Gemini, kind, message)
}
