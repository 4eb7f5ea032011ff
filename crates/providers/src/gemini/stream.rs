//! Decoder for a response: a sequence of response objects, ending with one that has a finish reason.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use meerkat_core::{
    AssistantBlock, Delta, DeltaSink, ModelErrorKind, ModelResponse, Provider, ResponseStatus, StopReason,
    Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{SERVER_PARTS, SIGNATURE, errors, fast_path};
use crate::fields::{list, object, present, text, typed};
use crate::history::{META_PROVIDER, tag};
use crate::shape::Shape;
use crate::sse::Event;
use crate::wire::{Decode, Failure};

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
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), Failure> {
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
        let data: Value =
            serde_json::from_str(event.data).map_err(|reason| format!("a chunk is not JSON: {reason}"))?;
        match data {
            Value::Array(chunks) => chunks.iter().try_for_each(|chunk| self.chunk(chunk, deltas)),
            chunk => self.chunk(&chunk, deltas),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<ModelResponse, Failure> {
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

    fn chunk(&mut self, chunk: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        if !chunk.is_object() {
            return Err("a chunk is not an object".into());
        }
        if present(chunk, "error").is_some() {
            return Err(errors::in_stream(chunk));
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
            if !candidate.is_object() {
                return Err("a candidate is not an object".into());
            }
            // Other candidates are alternative answers.
            if count(candidate, "index")?.unwrap_or(0) == 0 {
                self.candidate(candidate, deltas)?;
            }
        }
        Ok(())
    }

    fn feedback(&mut self, feedback: &Value) -> Result<(), Failure> {
        let Some(reason) = text(feedback, "blockReason")? else {
            return Ok(());
        };
        let message = text(feedback, "blockReasonMessage")?.unwrap_or_default();
        self.blocked = Some(with_detail(&format!("the prompt was blocked ({reason})"), message));
        Ok(())
    }

    fn candidate(&mut self, candidate: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        if let Some(content) = object(candidate, "content")? {
            for part in list(content, "parts")? {
                if !part.is_object() {
                    return Err("a part is not an object".into());
                }
                self.part(part, deltas)?;
            }
        }
        if let Some(grounding) = object(candidate, "groundingMetadata")? {
            self.grounding.extend(grounding.as_object().cloned().unwrap_or_default());
        }
        if let Some(reason) = text(candidate, "finishReason")?.filter(|reason| !reason.is_empty()) {
            let message = text(candidate, "finishMessage")?.unwrap_or_default().to_owned();
            self.finish = Some(Finish { reason: reason.to_owned(), message });
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
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
        let is_thought = typed(part, "thought", "true or false", Value::as_bool)?.unwrap_or(false);
        let voice = if is_thought { TextKind::Reasoning } else { TextKind::Text };
        self.say(piece, signature, voice, deltas);
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

    fn call(&mut self, call: &Value, signature: Option<&str>) -> Result<(), Failure> {
        let name = text(call, "name")?.filter(|name| !name.is_empty());
        let name = name.ok_or("a call has no name")?.to_owned();
        if !list(call, "partialArgs")?.is_empty() {
            return Err("the arguments of a call are streamed, which was not requested".into());
        }
        let args = match call.get("args") {
            None | Some(Value::Null) => json!({}),
            Some(Value::Object(args)) => Value::Object(args.clone()),
            Some(Value::String(raw)) => arguments(raw),
            Some(_) => return Err("`args` of a call is not an object".into()),
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

    fn stop_reason(&self) -> Result<StopReason, Failure> {
        let is_text = |block: &AssistantBlock| matches!(block, AssistantBlock::Text { text, .. } if !text.trim().is_empty());
        let is_usable = self.calls > 0 || self.blocks.iter().any(is_text);
        if let Some(blocked) = &self.blocked {
            return filtered(is_usable, blocked);
        }
        let Some(finish) = &self.finish else {
            return Err(Failure::new(ModelErrorKind::StreamCut, "the stream ended without a finish reason"));
        };
        let why = with_detail(&format!("the response ended with {}", finish.reason), &finish.message);
        match finish.reason.as_str() {
            "MAX_TOKENS" => Ok(StopReason::MaxTokens),
            reason if is_filtered(reason) => filtered(is_usable, &why),
            "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" if self.calls == 0 => {
                Err(why.into())
            }
            "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" | "TOO_MANY_TOOL_CALLS" if !is_usable => {
                Err(Failure::new(ModelErrorKind::Incomplete, why))
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
    fn read(usage: &Value) -> Result<Self, Failure> {
        Ok(Self {
            prompt_token_count: count(usage, "promptTokenCount")?,
            tool_use_prompt_token_count: count(usage, "toolUsePromptTokenCount")?,
            candidates_token_count: count(usage, "candidatesTokenCount")?,
            thoughts_token_count: count(usage, "thoughtsTokenCount")?,
            cached_content_token_count: count(usage, "cachedContentTokenCount")?,
        })
    }

    /// Updates one of `COUNTS`.
    fn set(&mut self, key: &str, count: u64) {
        let own = match key {
            "promptTokenCount" => &mut self.prompt_token_count,
            "toolUsePromptTokenCount" => &mut self.tool_use_prompt_token_count,
            "candidatesTokenCount" => &mut self.candidates_token_count,
            "thoughtsTokenCount" => &mut self.thoughts_token_count,
            "cachedContentTokenCount" => &mut self.cached_content_token_count,
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
        self.prompt_token_count = newer.prompt_token_count.or(self.prompt_token_count);
        self.tool_use_prompt_token_count =
            newer.tool_use_prompt_token_count.or(self.tool_use_prompt_token_count);
        self.candidates_token_count = newer.candidates_token_count.or(self.candidates_token_count);
        self.thoughts_token_count = newer.thoughts_token_count.or(self.thoughts_token_count);
        self.cached_content_token_count =
            newer.cached_content_token_count.or(self.cached_content_token_count);
    }

    fn total(&self) -> Usage {
        let sum = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).saturating_add(b.unwrap_or(0));
        Usage {
            input_tokens: sum(self.prompt_token_count, self.tool_use_prompt_token_count),
            output_tokens: sum(self.candidates_token_count, self.thoughts_token_count),
            cache_creation_tokens: None,
            cache_read_tokens: self.cached_content_token_count,
        }
    }
}

fn count(object: &Value, key: &str) -> Result<Option<u64>, Failure> {
    typed(object, key, "a count", Value::as_u64)
}

fn server_block(key: &str, part: &Value, signature: Option<&str>) -> AssistantBlock {
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
    if let Some(fields) = content.as_object_mut() {
        fields.remove(SIGNATURE);
    }
    AssistantBlock::ServerToolContent { id, name, content, meta: Some(meta(signature, None)) }
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

fn filtered(is_usable: bool, why: &str) -> Result<StopReason, Failure> {
    if is_usable {
        Ok(StopReason::ContentFilter)
    } else {
        Err(Failure::new(ModelErrorKind::ContentFilter, why))
    }
}

fn with_detail(what: &str, message: &str) -> String {
    if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") }
}
