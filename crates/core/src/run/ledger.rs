//! The session as the run extends it: messages and totals, uncommitted ones included.

use std::sync::Arc;

use super::effect::{CallChange, Commit, LastRun, Progress};
use crate::compact::estimate;
use crate::transcript::CompactedMessages;
use crate::{Compaction, Message, Transcript, Usage, Usd};

/// The messages and totals of the session after the next commit.
#[derive(Debug)]
pub(super) struct Ledger {
    transcript: Transcript,
    progress: Progress,
    /// Messages compacted since the last commit.
    compacted: CompactedMessages,
    /// Tokens used since the last commit, and their cost.
    used: (Usage, Usd),
}

impl Ledger {
    pub(super) fn new(transcript: Transcript, progress: Progress) -> Self {
        Self { transcript, progress, compacted: CompactedMessages::default(), used: Default::default() }
    }

    pub(super) fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Returns the number of tokens of the context: as of the last step, or estimated if it has grown.
    pub(super) fn context_tokens(&self) -> u64 {
        self.progress.last_input_tokens.max(estimate(&self.transcript.context()))
    }

    pub(super) fn count_usage(&mut self, usage: Usage, cost: Usd) {
        self.progress.usage += usage;
        self.progress.cost += cost;
        self.used.0 += usage;
        self.used.1 += cost;
    }

    pub(super) fn count_step(&mut self) {
        self.progress.steps += 1;
    }

    /// Stores the number of tokens that the model read for a step.
    pub(super) fn set_context_tokens(&mut self, usage: Usage) {
        self.progress.last_input_tokens = usage.input_tokens
            + usage.cache_read_tokens.unwrap_or(0)
            + usage.cache_creation_tokens.unwrap_or(0);
    }

    /// Replaces the messages before `kept_from` in the context by `summary`, the next message.
    pub(super) fn compact(&mut self, kept_from: u64, summary: Arc<Message>) {
        let compaction =
            Compaction { kept_from, summary_at: self.transcript.count(), at_step: self.progress.steps };
        self.progress.compaction = Some(compaction);
        self.progress.last_input_tokens = 0;
        self.compacted = self.transcript.compacted(kept_from);
        self.transcript.compact(compaction, summary);
    }

    /// Appends messages, and returns the commit that makes everything since the last one durable.
    pub(super) fn commit(&mut self, messages: Vec<Arc<Message>>, calls: CallChange, run: LastRun) -> Commit {
        messages.iter().cloned().for_each(|message| self.transcript.push(message));
        self.progress.last_run = Some(run);
        let compacted = std::mem::take(&mut self.compacted);
        let (usage, cost) = std::mem::take(&mut self.used);
        Commit { messages, calls, progress: self.progress, usage, cost, ends: run.end.is_some(), compacted }
    }
}
