//! Reads an answer, chunk by chunk.

use std::borrow::Cow;

use meerkat_core::{
    Answer, AssistantBlock, Delta, DeltaSink, Extent, ModelError, ModelErrorKind, Provider, StopReason, Usage,
};
use serde_json::Value;

use super::calls::Calls;
use super::messages::ReasoningField;
use super::spoken::{CallsRead, Gate};
use super::think::{Piece, Splitter};
use super::{errors, quick};
use crate::quick::Object;
use crate::shape::Shape;
use crate::sse::Event;
use crate::wire::{Decode, error};

const DONE: &str = "[DONE]";

/// An answer on its way.
pub(super) struct Decoder {
    provider: Provider,
    splitter: Splitter,
    gate: Gate,
    text: String,
    reasoning: String,
    field: ReasoningField,
    refusal: String,
    calls: Calls,
    usage: Usage,
    shape: Shape,
    end: End,
}

/// How far the answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// There is more to come.
    Open,
    /// The model gave its reason to stop; only the usage may follow.
    Stopped(String),
    /// The stream said that it is over.
    Done(String),
}

impl Decoder {
    /// Makes a decoder for one answer.
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            provider,
            splitter: Splitter::default(),
            gate: Gate::default(),
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

    /// Looks for no calls in the text.
    pub(super) fn taking_text_as_text(mut self) -> Self {
        self.gate = Gate::settled();
        self
    }

    fn chunk(&mut self, chunk: &Value, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        if present(chunk, "error").is_some() || chunk["object"] == "error" {
            return Err(self.failed(chunk));
        }
        if let Some(usage) = present(chunk, "usage") {
            self.usage = read_usage(usage).map_err(|what| self.malformed(&what))?;
        }
        let Some(choices) = present(chunk, "choices") else {
            return Ok(());
        };
        let choices = choices.as_array().ok_or_else(|| self.malformed("`choices` is no list"))?;
        for choice in choices {
            if !choice.is_object() {
                return Err(self.malformed("a choice is no object"));
            }
            // Further choices are there only if the caller asked for them; the first is the answer.
            if present(choice, "index").is_none_or(|index| index == 0) {
                self.choice(choice, deltas)?;
            }
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Value, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        if let Some(delta) = present(choice, "delta") {
            if !delta.is_object() {
                return Err(self.malformed("`delta` is no object"));
            }
            self.delta(delta, deltas)?;
        }
        match present(choice, "finish_reason") {
            None => Ok(()),
            Some(Value::String(reason)) if reason.is_empty() => Ok(()),
            Some(Value::String(reason)) => {
                self.settle(deltas);
                self.end = End::Stopped(reason.clone());
                Ok(())
            }
            Some(_) => Err(self.malformed("`finish_reason` is no text")),
        }
    }

    fn delta(&mut self, delta: &Value, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        let content = self.words(delta, "reasoning_content")?;
        let plain = if content.is_empty() { self.words(delta, "reasoning")? } else { "" };
        self.reason(content, plain, deltas);
        self.say(self.words(delta, "content")?, deltas);
        let refusal = self.words(delta, "refusal")?;
        self.refusal.push_str(refusal);
        if let Some(calls) = present(delta, "tool_calls") {
            let calls = calls.as_array().ok_or_else(|| self.malformed("`tool_calls` is no list"))?;
            for call in calls {
                self.calls.piece(call).map_err(|what| self.malformed(&what))?;
            }
        }
        Ok(())
    }

    /// Takes a chunk that adds to the answer and does nothing else.
    fn extend(&mut self, delta: &quick::Delta<'_>, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        self.reason(delta.reasoning_content.as_str(), delta.reasoning.as_str(), deltas);
        self.say(delta.content.as_str(), deltas);
        match &delta.tool_calls {
            None => Ok(()),
            Some((Object(call),)) => self.calls.grow(call).map_err(|what| self.malformed(&what)),
        }
    }

    /// Takes a thought, from whichever of its two fields the server fills; some fill both with the same.
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

    /// Decides about everything that was kept back; what follows is shown at once.
    fn settle(&mut self, deltas: DeltaSink<'_>) {
        if let Some(piece) = self.splitter.flush() {
            self.take(piece, deltas);
        }
        let read = if self.calls.is_empty() { CallsRead::None } else { CallsRead::Some };
        let (calls, text) = self.gate.settle(read);
        for call in calls {
            self.calls.spoken(call);
        }
        self.show(Cow::Owned(text), deltas);
    }

    fn words<'a>(&self, delta: &'a Value, key: &str) -> Result<&'a str, ModelError> {
        match present(delta, key) {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.malformed(&format!("`{key}` is no text"))),
        }
    }

    fn failed(&self, chunk: &Value) -> ModelError {
        let refusal = errors::refusal(None, chunk);
        let message =
            if refusal.message.trim().is_empty() { "an error without explanation" } else { &refusal.message };
        error(self.provider, refusal.kind, message)
    }

    fn malformed(&self, what: &str) -> ModelError {
        malformed(self.provider, what)
    }

    /// Returns why the answer ended, or that it is none.
    fn stop(&self, reason: &str) -> Result<StopReason, ModelError> {
        let is_usable = !self.text.trim().is_empty() || !self.calls.is_empty();
        let is_filtered = reason == "content_filter" || !self.refusal.trim().is_empty();
        match reason {
            _ if is_filtered && is_usable => Ok(StopReason::ContentFilter),
            _ if is_filtered => {
                let said = self.refusal.trim();
                let said =
                    if said.is_empty() { "the server's filter left nothing of the answer" } else { said };
                Err(error(self.provider, ModelErrorKind::ContentFilter, said))
            }
            "error" => Err(error(self.provider, ModelErrorKind::Server, "the server gave up on the answer")),
            "length" => Ok(StopReason::MaxTokens),
            _ if !self.calls.is_empty() => Ok(StopReason::ToolUse),
            _ => Ok(StopReason::EndTurn),
        }
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        let data = event.data.trim();
        match &mut self.end {
            End::Done(_) => return Ok(()),
            end if data == DONE => {
                let reason =
                    if let End::Stopped(reason) = end { std::mem::take(reason) } else { String::new() };
                *end = End::Done(reason);
                self.settle(deltas);
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
            if let Some(delta) = quick::read(data) {
                if let Some(text) = delta.only_text() {
                    self.shape.learn(data, text, &["created"]);
                }
                return self.extend(&delta, deltas);
            }
        }
        let chunk: Value = serde_json::from_str(data).map_err(|_| self.malformed("a chunk is no JSON"))?;
        if event.name == "error" {
            return Err(self.failed(&chunk));
        }
        if !chunk.is_object() {
            return Err(self.malformed("a chunk is no object"));
        }
        self.chunk(&chunk, deltas)
    }

    fn finish(self: Box<Self>) -> Result<Answer, ModelError> {
        let reason = match &self.end {
            End::Open => {
                let reason = "the stream ended before the answer did";
                return Err(error(self.provider, ModelErrorKind::StreamCut, reason));
            }
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
        blocks.extend(self.calls.finish().map_err(|what| malformed(self.provider, &what))?);
        Ok(Answer { blocks, stop_reason, extent: Extent::Whole, usage: self.usage })
    }
}

fn malformed(provider: Provider, what: &str) -> ModelError {
    error(provider, ModelErrorKind::Malformed, format!("the answer cannot be read: {what}"))
}

/// Returns a value that is there and not null.
fn present<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn read_usage(usage: &Value) -> Result<Usage, String> {
    if !usage.is_object() {
        return Err("`usage` is no object".to_owned());
    }
    let count = |object: &Value, key: &str| match present(object, key) {
        None => Ok(None),
        Some(count) => count.as_u64().map(Some).ok_or_else(|| format!("`{key}` is no count")),
    };
    let details = present(usage, "prompt_tokens_details").unwrap_or(&Value::Null);
    Ok(Usage {
        input_tokens: count(usage, "prompt_tokens")?.unwrap_or(0),
        output_tokens: count(usage, "completion_tokens")?.unwrap_or(0),
        cache_creation_tokens: count(details, "cache_write_tokens")?,
        cache_read_tokens: count(details, "cached_tokens")?,
    })
}
