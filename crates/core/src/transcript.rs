//! A session's messages, as a run reads them.
//!
//! Messages are only ever appended. A compaction removes none: it records the first message that the model still
//! reads and which message replaces the rest, so history stays complete.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AssistantBlock, Message, ToolCall};

/// A completed compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Sequence number of the first message that the model still reads.
    pub kept_from: u64,
    /// Sequence number of the summary that replaces the earlier messages.
    pub summary_at: u64,
    /// Step count of the session at the time of compaction.
    pub at_step: u64,
}

impl Compaction {
    /// Prefix of every summary.
    pub const MARK: &'static str = "[Context compacted]";
}

/// Consecutive messages.
#[derive(Debug, Clone, Default)]
pub struct CompactedMessages {
    /// Sequence number of the first message.
    pub first: u64,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
}

/// Messages of a run: the tail that the model reads, and the summary that replaces the rest.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    summary: Option<Arc<Message>>,
    first: u64,
    messages: Vec<Arc<Message>>,
}

impl Transcript {
    /// Creates a transcript of the messages from sequence number `first` on, with the summary of those before.
    #[must_use]
    pub fn new(first: u64, messages: Vec<Arc<Message>>, summary: Option<Arc<Message>>) -> Self {
        Self { summary, first, messages }
    }

    /// Returns the number of messages in the session, summarized ones included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// Returns the messages that the model still reads.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the messages to send to the model: the summary, if any, and the messages after it.
    #[must_use]
    pub fn context(&self) -> Vec<Arc<Message>> {
        self.before(u64::MAX)
    }

    /// Returns the context before sequence number `end`, the summary included.
    pub(crate) fn before(&self, end: u64) -> Vec<Arc<Message>> {
        let (written, _) = self.split_at(end);
        self.summary.iter().chain(written.iter().filter(|message| !is_summary(message))).cloned().collect()
    }

    /// Returns the context from sequence number `start` on.
    pub(crate) fn since(&self, start: u64) -> Vec<Arc<Message>> {
        let (_, written) = self.split_at(start);
        written.iter().filter(|message| !is_summary(message)).cloned().collect()
    }

    /// Returns the messages before sequence number `end` that the model still reads.
    pub(crate) fn compacted(&self, end: u64) -> CompactedMessages {
        CompactedMessages { first: self.first, messages: self.split_at(end).0.to_vec() }
    }

    /// Splits the messages before a sequence number.
    fn split_at(&self, sequence: u64) -> (&[Arc<Message>], &[Arc<Message>]) {
        let index = usize::try_from(sequence.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.messages.split_at(index.min(self.messages.len()))
    }

    /// Returns the calls of the last message that have no results yet.
    #[must_use]
    pub fn open_calls(&self) -> Vec<ToolCall> {
        self.messages.last().map(|message| message.tool_calls()).unwrap_or_default()
    }

    /// Returns the last text written by the model.
    #[must_use]
    pub fn last_text(&self) -> Option<String> {
        self.messages.iter().rev().find_map(|message| message.assistant_text())
    }

    /// Returns `true` if the last prompt or tool results, including `added`, have no response from the model.
    pub(crate) fn is_unanswered(&self, added: &[Arc<Message>]) -> bool {
        let last = self.messages.iter().chain(added).rfind(|message| !is_summary(message));
        last.is_some_and(|message| !is_response(message))
    }

    pub(crate) fn push(&mut self, message: Arc<Message>) {
        self.messages.push(message);
    }

    /// Drops the messages before `compaction`; `summary` is one of the others and replaces them in the context.
    pub(crate) fn compact(&mut self, compaction: Compaction, summary: Arc<Message>) {
        let dropped = self.split_at(compaction.kept_from).0.len();
        self.messages.drain(..dropped);
        self.first += dropped as u64;
        self.summary = Some(summary);
    }
}

/// Returns `true` if the model wrote the message. Images from tools are assistant messages, too.
fn is_response(message: &Message) -> bool {
    let is_image = |block: &AssistantBlock| matches!(block, AssistantBlock::Image(_));
    match message {
        Message::Assistant { blocks, .. } => blocks.is_empty() || !blocks.iter().all(is_image),
        _ => false,
    }
}

/// Returns `true` for summaries. They are messages, too, but are skipped where they were written.
pub(crate) fn is_summary(message: &Message) -> bool {
    matches!(message, Message::SystemNotice { body, .. } if body.starts_with(Compaction::MARK))
}
