//! Decoder for a streamed response.

use std::borrow::Cow;

use meerkat_core::{
    AssistantBlock, Delta, DeltaSink, ModelErrorKind, ModelResponse, Provider, ResponseStatus, StopReason,
    Usage,
};
use serde_json::Value;

use super::calls::Calls;
use super::messages::ReasoningField;
use super::text_calls::{CallsRead, TextCallFilter};
use super::think::{Piece, Splitter};
use super::{errors, fast_path};
use crate::fast_path::Object;
use crate::fields::{list, object, present, text, typed};
use crate::shape::Shape;
use crate::sse::Event;
use crate::wire::{Decode, Failure};

const DONE: &str = "[DONE]";
/// Start of errors about a stream that violates the format.
const INVALID: &str = "invalid response";

/// A response being received.
pub(super) struct Decoder {
    provider: Provider,
    splitter: Splitter,
    gate: TextCallFilter,
    text: String,
    reasoning: String,
    field: ReasoningField,
    refusal: String,
    calls: Calls,
    usage: Usage,
    shape: Shape,
    end: End,
}

/// Progress of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// More content may follow.
    Open,
    /// The model sent a stop reason; only usage may follow.
    Stopped(String),
    /// The stream sent its end marker.
    Done(String),
}

impl Decoder {
    /// Creates a decoder for one response.
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            provider,
            splitter: Splitter::default(),
            gate: TextCallFilter::default(),
            text: String::new(),
            reasoning: String::new(),
            field: ReasoningField::Content,
            refusal: String::new(),
            calls: Calls::default(),
            usage: Usage::default(),
            shape: Shape::default(),
            end: End::Open,
        }
    }

    /// Disables the search for calls in text.
    pub(super) fn without_text_calls(mut self) -> Self {
        self.gate = TextCallFilter::passthrough();
        self
    }

    fn read(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let data = event.data.trim();
        match &mut self.end {
            End::Done(_) => return Ok(()),
            end if data == DONE => {
                let reason =
                    if let End::Stopped(reason) = end { std::mem::take(reason) } else { String::new() };
                *end = End::Done(reason);
                self.flush_held(deltas);
                return Ok(());
            }
            _ if data.is_empty() => return Ok(()),
            _ => {}
        }
        if event.name.is_empty() {
            if let Some(text) = self.shape.read(data, |_, _| {}) {
                self.say(text, deltas);
                return Ok(());
            }
            if let Some(delta) = fast_path::read(data) {
                if let Some(text) = delta.only_text() {
                    self.shape.learn(data, text, &["created"], |_| true);
                }
                return self.extend(&delta, deltas);
            }
        }
        let chunk: Value = serde_json::from_str(data).map_err(|_| "a chunk is not JSON")?;
        if event.name == "error" {
            return Err(errors::in_stream(&chunk));
        }
        if !chunk.is_object() {
            return Err("a chunk is not an object".into());
        }
        self.chunk(&chunk, deltas)
    }

    fn chunk(&mut self, chunk: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        if present(chunk, "error").is_some() || chunk["object"] == "error" {
            return Err(errors::in_stream(chunk));
        }
        if let Some(usage) = object(chunk, "usage")? {
            self.usage = read_usage(usage)?;
        }
        for choice in list(chunk, "choices")? {
            if !choice.is_object() {
                return Err("a choice is not an object".into());
            }
            // Additional choices exist only if the caller requested them; the first is the answer.
            if present(choice, "index").is_none_or(|index| index == 0) {
                self.choice(choice, deltas)?;
            }
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        if let Some(delta) = object(choice, "delta")? {
            self.delta(delta, deltas)?;
        }
        if let Some(reason) = text(choice, "finish_reason")?.filter(|reason| !reason.is_empty()) {
            self.flush_held(deltas);
            self.end = End::Stopped(reason.to_owned());
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let string = |key: &str| text(delta, key).map(Option::unwrap_or_default);
        let content = string("reasoning_content")?;
        let plain = if content.is_empty() { string("reasoning")? } else { "" };
        self.reason(content, plain, deltas);
        self.say(string("content")?, deltas);
        self.refusal.push_str(string("refusal")?);
        for call in list(delta, "tool_calls")? {
            self.calls.piece(call)?;
        }
        Ok(())
    }

    /// Handles a chunk that only extends the response.
    fn extend(&mut self, delta: &fast_path::Delta<'_>, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        self.reason(&delta.reasoning_content, &delta.reasoning, deltas);
        self.say(&delta.content, deltas);
        match &delta.tool_calls {
            None => Ok(()),
            Some((Object(call),)) => Ok(self.calls.grow(call)?),
        }
    }

    /// Adds reasoning from either of the two fields that servers use; some fill both with the same text.
    fn reason(&mut self, content: &str, plain: &str, deltas: DeltaSink<'_>) {
        let (field, thought) = if content.is_empty() {
            (ReasoningField::Reasoning, plain)
        } else {
            (ReasoningField::ReasoningContent, content)
        };
        if !thought.is_empty() {
            self.field = field;
            self.think(thought, deltas);
        }
    }

    fn say(&mut self, content: &str, deltas: DeltaSink<'_>) {
        if self.splitter.is_done() {
            let text = self.gate.push(content);
            self.show(text, deltas);
            return;
        }
        for piece in self.splitter.push(content) {
            self.take(piece, deltas);
        }
    }

    fn take(&mut self, piece: Piece, deltas: DeltaSink<'_>) {
        match piece {
            Piece::Reasoning(thought) => self.think(&thought, deltas),
            Piece::Text(text) => {
                let text = self.gate.push(&text);
                self.show(text, deltas);
            }
        }
    }

    fn think(&mut self, thought: &str, deltas: DeltaSink<'_>) {
        self.reasoning.push_str(thought);
        deltas(Delta::Reasoning(thought.to_owned()));
    }

    fn show(&mut self, text: Cow<'_, str>, deltas: DeltaSink<'_>) {
        if !text.is_empty() {
            self.text.push_str(&text);
            deltas(Delta::Text(text.into_owned()));
        }
    }

    /// Resolves everything that was held back; later text is emitted immediately.
    fn flush_held(&mut self, deltas: DeltaSink<'_>) {
        if let Some(piece) = self.splitter.flush() {
            self.take(piece, deltas);
        }
        let read = if self.calls.is_empty() { CallsRead::None } else { CallsRead::Some };
        let (calls, text) = self.gate.finish(read);
        for call in calls {
            self.calls.add_text_call(call);
        }
        self.show(Cow::Owned(text), deltas);
    }

    /// Maps the stop reason, or returns an error if there is no usable answer.
    fn stop(&self, reason: &str) -> Result<StopReason, Failure> {
        let is_usable = !self.text.trim().is_empty() || !self.calls.is_empty();
        let is_filtered = reason == "content_filter" || !self.refusal.trim().is_empty();
        match reason {
            _ if is_filtered && is_usable => Ok(StopReason::ContentFilter),
            _ if is_filtered => {
                let message = self.refusal.trim();
                let message = if message.is_empty() {
                    "the server's filter removed the entire response"
                } else {
                    message
                };
                Err(Failure::new(ModelErrorKind::ContentFilter, message))
            }
            "error" => Err(Failure::new(ModelErrorKind::Server, "the server aborted the response")),
            "length" => Ok(StopReason::MaxTokens),
            _ if !self.calls.is_empty() => Ok(StopReason::ToolUse),
            _ => Ok(StopReason::EndTurn),
        }
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        self.read(event, deltas).map_err(|failure| failure.within(INVALID))
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, Failure> {
        let reason = match &self.end {
            End::Open => return Err(Failure::cut_off()),
            End::Stopped(reason) | End::Done(reason) => reason,
        };
        let stop_reason = self.stop(reason)?;
        let mut blocks = Vec::new();
        if !self.reasoning.trim().is_empty() {
            let meta = self.field.meta(self.provider);
            blocks.push(AssistantBlock::Reasoning { text: self.reasoning, meta });
        }
        if !self.text.trim().is_empty() {
            blocks.push(AssistantBlock::Text { text: self.text, meta: None });
        }
        blocks.extend(self.calls.finish().map_err(|what| Failure::from(what).within(INVALID))?);
        Ok(ModelResponse { blocks, stop_reason, extent: ResponseStatus::Complete, usage: self.usage })
    }
}

fn read_usage(usage: &Value) -> Result<Usage, Failure> {
    let count = |object: &Value, key: &str| typed(object, key, "a count", Value::as_u64);
    let details = present(usage, "prompt_tokens_details").unwrap_or(&Value::Null);
    Ok(Usage {
        input_tokens: count(usage, "prompt_tokens")?.unwrap_or(0),
        output_tokens: count(usage, "completion_tokens")?.unwrap_or(0),
        cache_creation_tokens: count(details, "cache_write_tokens")?,
        cache_read_tokens: count(details, "cached_tokens")?,
    })
}
