//! The context of a run's steps, and how it is fitted to the model's window.

use std::sync::Arc;

use super::effect::ModelTask;
use super::ledger::Ledger;
use super::prompt;
use super::settings::RunSettings;
use crate::compact::{CarriedOver, carry_over, cut_point, estimate, estimate_tokens};
use crate::fit::fit_to_window;
use crate::{CompactionPolicy, FindPinned, Message, Timestamp};

/// Maximum number of times the context is halved before the model's rejection is final.
const MAX_HALVINGS: u32 = 5;

/// The model's window, and the measures that fit the context to it.
#[derive(Debug)]
pub(super) struct ContextWindow {
    policy: Option<CompactionPolicy>,
    find_pinned: FindPinned,
    recovery: Recovery,
    /// Number of times the model rejected a context that should have fit; each time, half as much is sent.
    halvings: u32,
}

/// Measure taken in the current step after the model rejected the context.
#[derive(Debug, PartialEq)]
enum Recovery {
    None,
    /// A summary was requested; if that fails, the oldest messages are dropped.
    Compaction,
}

impl ContextWindow {
    pub(super) fn new(settings: &RunSettings) -> Self {
        let &RunSettings { compaction: policy, find_pinned, .. } = settings;
        Self { policy, find_pinned, recovery: Recovery::None, halvings: 0 }
    }

    /// Returns the window, if it is known and there is a policy for it.
    fn tokens(&self) -> Option<u64> {
        self.policy.and_then(|policy| policy.window)
    }

    /// Returns the context of a step, fitted to the window without the `reserved` tokens.
    pub(super) fn context(&self, ledger: &Ledger, reserved: u64) -> Vec<Arc<Message>> {
        let context = ledger.transcript().context();
        let window = self.tokens().map(|window| window.saturating_sub(reserved));
        let room = match (window, self.halvings) {
            (Some(window), 0) if prompt_exceeds(&context, window) => return context,
            (Some(window), 0) => window,
            (None, 0) => return context,
            (window, halvings) => window.unwrap_or(u64::MAX).min(estimate(&context)) >> halvings,
        };
        fit_to_window(context, room)
    }

    /// Returns where to cut if a compaction is due.
    pub(super) fn due_cut(&self, ledger: &Ledger) -> Option<u64> {
        let (policy, progress) = (self.policy?, ledger.progress());
        let since = |at_step| progress.steps - at_step;
        let early = progress.compaction.is_some_and(|last| since(last.at_step) < policy.min_steps_between);
        let length = ledger.context_tokens();
        // A context that exceeds the window cannot wait.
        let too_long = policy.window.is_some_and(|window| length >= window);
        if progress.steps == 0 || (early && !too_long) || length < policy.threshold {
            return None;
        }
        cut_point(ledger.transcript(), policy.keep_groups, policy.threshold / 2)
    }

    /// Returns where to cut, once per step, after the model rejected the context: only the last group must stay.
    pub(super) fn overflow_cut(&mut self, ledger: &Ledger) -> Option<u64> {
        let policy = self.policy.filter(|_| self.recovery == Recovery::None)?;
        let cut = cut_point(ledger.transcript(), 1, policy.threshold / 2)?;
        self.recovery = Recovery::Compaction;
        Some(cut)
    }

    /// Halves the context after the model rejected it; returns `false` if that is not possible.
    pub(super) fn halve(&mut self, ledger: &Ledger) -> bool {
        let context = ledger.transcript().context();
        let can_halve = self.halvings < MAX_HALVINGS && !prompt_exceeds(&context, estimate(&context) / 2);
        self.halvings += u32::from(can_halve);
        can_halve
    }

    /// Notes that the model accepted the context.
    pub(super) fn accepted(&mut self) {
        self.recovery = Recovery::None;
    }

    /// Returns `true` if the run cannot continue without a compaction.
    pub(super) fn must_compact(&self, ledger: &Ledger) -> bool {
        let window = self.tokens().unwrap_or(u64::MAX);
        self.recovery == Recovery::Compaction || ledger.context_tokens() >= window
    }

    /// Requests a summary of the messages before `cut`.
    pub(super) fn summary_task(&self, ledger: &Ledger, cut: u64, now: Timestamp) -> ModelTask {
        let request = prompt::summary_request(now);
        let max_tokens = self.summary_tokens();
        let reserved = u64::from(max_tokens) + estimate_tokens(&request);
        let room = self.tokens().map_or(u64::MAX, |window| (window / 10 * 9).saturating_sub(reserved));
        let mut messages = fit_to_window(ledger.transcript().before(cut), room);
        messages.push(request);
        ModelTask::Summarize { messages, max_tokens }
    }

    /// Creates the message that replaces those before `cut`.
    pub(super) fn summary(&self, text: &str, ledger: &Ledger, cut: u64, now: Timestamp) -> Arc<Message> {
        let max_bytes = (self.summary_tokens() as usize).saturating_mul(4);
        let text = &text[..text.floor_char_boundary(max_bytes.min(text.len()))];
        prompt::summary(text, &self.carried(ledger, cut), now)
    }

    /// Creates the message that replaces those before `cut` if they could not be summarized.
    pub(super) fn dropped(&self, ledger: &Ledger, cut: u64, now: Timestamp) -> Arc<Message> {
        let first = ledger.progress().compaction.map_or(0, |last| last.kept_from);
        prompt::dropped(cut.saturating_sub(first), &self.carried(ledger, cut), now)
    }

    fn summary_tokens(&self) -> u32 {
        self.policy.map_or(u32::MAX, |policy| policy.summary_tokens())
    }

    /// Chooses which texts before `cut` stay in the context verbatim. They take at most a quarter of the window,
    /// so that a compaction always frees some of it.
    fn carried(&self, ledger: &Ledger, cut: u64) -> CarriedOver {
        let room = self.policy.map_or(0, |policy| policy.threshold / 4);
        let (find, transcript) = (self.find_pinned, ledger.transcript());
        carry_over(find(&transcript.before(cut)), &find(&transcript.since(cut)), room)
    }
}

/// Returns `true` if the latest prompt does not fit by itself. It is not truncated, because the user would not know
/// that the model answers something else. The provider rejects it, and in later runs it is history, which is truncated.
fn prompt_exceeds(context: &[Arc<Message>], room: u64) -> bool {
    let last = context.last().filter(|message| matches!(***message, Message::User { .. }));
    last.is_some_and(|prompt| estimate_tokens(prompt) > room)
}
