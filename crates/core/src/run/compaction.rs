//! Compaction of the context, between two steps.

use std::sync::Arc;

use super::effect::{CallChange, ModelTask};
use super::machine::{Next, Run, State};
use super::prompt;
use crate::compact::{CarriedOver, carry_over, cut_point, estimate, estimate_tokens};
use crate::fit::fit_to_window;
use crate::{AgentEvent, AssistantBlock, Compaction, Message, ModelResponse};

impl Run {
    pub(super) fn compaction_due(&self) -> Option<u64> {
        let policy = self.settings.compaction.filter(|_| self.meter.can_summarize())?;
        let since =
            self.progress.compaction.map_or(self.progress.steps, |last| self.progress.steps - last.at_step);
        let first = self.progress.steps == 0;
        let early = self.progress.compaction.is_some() && since < policy.min_steps_between;
        let length = self.progress.last_input_tokens.max(estimate(&self.transcript.context()));
        let long = length >= policy.threshold;
        // A context that exceeds the window cannot wait.
        let too_long = policy.window.is_some_and(|window| length >= window);
        if first || (early && !too_long) || !long {
            None
        } else {
            cut_point(&self.transcript, policy.keep_groups, policy.threshold / 2)
        }
    }

    /// Finds where to cut when the context exceeds the window: only the last group must stay.
    pub(super) fn overflow_cut(&self) -> Option<u64> {
        let policy = self.settings.compaction?;
        cut_point(&self.transcript, 1, policy.threshold / 2)
    }

    pub(super) fn summarize(&mut self, kept_from: u64) {
        let Some(policy) = self.settings.compaction else {
            return;
        };
        let context = self.transcript.context();
        self.effects.emit(AgentEvent::CompactionStarted {
            input_tokens: self.progress.last_input_tokens,
            estimated_history_tokens: estimate(&context),
            message_count: context.len() as u64,
        });
        let request = prompt::summary_request(self.effects.now());
        let max_tokens = policy.summary_tokens();
        let reserved = u64::from(max_tokens) + estimate_tokens(&request);
        let room = policy.window.map_or(u64::MAX, |window| (window / 10 * 9).saturating_sub(reserved));
        let mut messages = fit_to_window(self.transcript.before(kept_from), room);
        messages.push(request);
        let ask = ModelTask::Summarize { messages, max_tokens };
        self.call_model(ask, State::Summarizing(kept_from));
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
        let summary = prompt::summary(&self.bounded(&text), &self.carried(kept_from), self.effects.now());
        self.compact(summary, kept_from, answer.usage.output_tokens);
    }

    /// Continues without a summary; if the history no longer fits the window, its oldest part is dropped.
    pub(super) fn summary_failed(&mut self, error: &str, kept_from: u64) {
        self.effects.emit(AgentEvent::CompactionFailed { error: error.to_owned() });
        let window = self.settings.compaction.and_then(|policy| policy.window).unwrap_or(u64::MAX);
        let fits = self.progress.last_input_tokens < window && estimate(&self.transcript.context()) < window;
        if fits && !self.overflowed {
            return self.call_model_for_step(1);
        }
        let left_out = kept_from - self.transcript.count().min(kept_from).min(self.first_kept());
        self.compact(prompt::dropped(left_out, &self.carried(kept_from), self.effects.now()), kept_from, 0);
    }

    /// Chooses which texts before `kept_from` stay in the context verbatim. They take at most a quarter of the window,
    /// so that a compaction always frees some of it.
    fn carried(&self, kept_from: u64) -> CarriedOver {
        let room = self.settings.compaction.map_or(0, |policy| policy.threshold / 4);
        let find = self.settings.find_pinned;
        carry_over(find(&self.transcript.before(kept_from)), &find(&self.transcript.since(kept_from)), room)
    }

    /// Truncates a summary that exceeds its maximum length.
    fn bounded(&self, text: &str) -> String {
        let max_bytes =
            self.settings.compaction.map_or(usize::MAX, |policy| policy.summary_tokens() as usize * 4);
        text[..text.floor_char_boundary(max_bytes.min(text.len()))].to_owned()
    }

    pub(super) fn first_kept(&self) -> u64 {
        self.progress.compaction.map_or(0, |last| last.kept_from)
    }

    pub(super) fn compact(&mut self, summary: Arc<Message>, kept_from: u64, summary_tokens: u64) {
        let messages_before = self.transcript.context().len() as u64;
        let compaction =
            Compaction { kept_from, summary_at: self.transcript.count(), at_step: self.progress.steps };
        self.progress.compaction = Some(compaction);
        self.progress.last_input_tokens = 0;
        self.compacted = self.transcript.compacted(kept_from);
        self.commit(vec![Arc::clone(&summary)], CallChange::None, Next::Ask);
        self.transcript.compact(compaction, summary);
        let messages_after = self.transcript.context().len() as u64;
        self.effects.emit(AgentEvent::CompactionCompleted {
            summary_tokens,
            messages_before,
            messages_after,
        });
    }
}
