//! Compaction of the context, between two steps.

use std::sync::Arc;

use super::effect::CallChange;
use super::machine::{Next, Run, State};
use crate::compact::estimate;
use crate::{AgentEvent, AssistantBlock, Message, ModelResponse};

impl Run {
    pub(super) fn summarize(&mut self, kept_from: u64) {
        let context = self.ledger.transcript().context();
        self.effects.emit(AgentEvent::CompactionStarted {
            input_tokens: self.ledger.progress().last_input_tokens,
            estimated_history_tokens: estimate(&context),
            message_count: context.len() as u64,
        });
        let task = self.window.summary_task(self.ledger.transcript(), kept_from, self.effects.now());
        self.call_model(task, State::Summarizing(kept_from));
    }

    pub(super) fn summarized(&mut self, answer: &ModelResponse, kept_from: u64) {
        self.count(answer.usage);
        self.count_step();
        let text = |block: &AssistantBlock| match block {
            AssistantBlock::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        let text: String = answer.blocks.iter().filter_map(text).collect();
        if text.trim().is_empty() {
            return self.summary_failed("the model returned no summary", kept_from);
        }
        let summary = self.window.summary(&text, self.ledger.transcript(), kept_from, self.effects.now());
        self.compact(summary, kept_from, answer.usage.output_tokens);
    }

    /// Continues without a summary, or drops the oldest part of a history that does not fit the window.
    pub(super) fn summary_failed(&mut self, error: &str, kept_from: u64) {
        self.effects.emit(AgentEvent::CompactionFailed { error: error.to_owned() });
        if !self.window.must_compact(&self.ledger) {
            return self.call_model_for_step(1);
        }
        let summary = self.window.dropped(&self.ledger, kept_from, self.effects.now());
        self.compact(summary, kept_from, 0);
    }

    fn compact(&mut self, summary: Arc<Message>, kept_from: u64, summary_tokens: u64) {
        let messages_before = self.ledger.transcript().context().len() as u64;
        self.ledger.compact(kept_from, Arc::clone(&summary));
        let messages_after = self.ledger.transcript().context().len() as u64;
        self.commit(vec![summary], CallChange::None, Next::Ask);
        self.effects.emit(AgentEvent::CompactionCompleted {
            summary_tokens,
            messages_before,
            messages_after,
        });
    }
}
