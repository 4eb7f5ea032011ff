//! Handling of model failures and of requests to end the run.

use std::sync::Arc;

use super::effect::{CallChange, Effect, ModelTask, Stop};
use super::extract::Attempt;
use super::machine::{Next, Run, State};
use super::meter::since;
use super::outcome::Outcome;
use super::step_calls::{Started, StepCalls};
use crate::{
    AgentEvent, AssistantBlock, ErrorClass, HookPoint, Message, ModelError, ModelErrorKind, Retry,
    RetryDecision, RetryFailure, StopReason, TerminalCause, Timestamp,
};

impl Run {
    pub(super) fn failed(&mut self, error: &ModelError) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Asking(attempt) => self.step_failed(error, attempt),
            State::Summarizing(kept_from) => self.summary_failed(&error.to_string(), kept_from),
            State::Extracting(extraction) => self.extraction_failed(error, extraction),
            other => self.state = other,
        }
    }

    pub(super) fn step_failed(&mut self, error: &ModelError, attempt: u32) {
        if error.kind == ModelErrorKind::ContextOverflow {
            if self.meter.can_summarize()
                && let Some(kept_from) = self.window.overflow_cut(self.ledger.transcript())
            {
                return self.summarize(kept_from);
            }
            if self.window.halve(self.ledger.transcript()) {
                return self.call_model(ModelTask::Step, State::Asking(attempt));
            }
        }
        match self.decide_retry(error, attempt) {
            RetryDecision::After(_) => self.state = State::BackingOff(Attempt::Step(attempt + 1)),
            RetryDecision::Exhausted => {
                self.fail(ErrorClass::Llm, TerminalCause::RetryExhausted, error.to_string());
            }
            RetryDecision::GiveUp => {
                let class = match error.kind {
                    ModelErrorKind::Auth => ErrorClass::Auth,
                    ModelErrorKind::ContentFilter => ErrorClass::ContentFiltered,
                    _ => ErrorClass::Llm,
                };
                self.fail(class, TerminalCause::LlmFailure, error.to_string());
            }
        }
    }

    /// Decides about a retry and, if there is one, starts the delay.
    pub(super) fn decide_retry(&mut self, error: &ModelError, attempt: u32) -> RetryDecision {
        let seed = self.settings.run_id.uuid().as_u128() as u32;
        let mixed = seed.wrapping_mul(attempt.wrapping_add(self.meter.steps()).wrapping_mul(0x9E37_79B9) | 1);
        let spread = f64::from(mixed) / f64::from(u32::MAX);
        let decision = self.settings.retry.decide(error, attempt, spread);
        if let RetryDecision::After(_) = decision {
            self.last_failure = Some(error.to_string());
            let plan = self.settings.retry.plan(error, attempt, spread).within(self.time_left());
            let failure = RetryFailure::new(error, since(self.called_at, self.effects.now()));
            self.effects.emit(AgentEvent::Retrying {
                attempt,
                max_attempts: plan.max_retries,
                error: error.to_string(),
                delay_ms: plan.selected_delay_ms,
                retry: Some(Retry { failure, plan }),
            });
            self.effects.push(Effect::Sleep(plan.delay()));
        }
        decision
    }

    pub(super) fn backoff_elapsed(&mut self) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::BackingOff(Attempt::Step(attempt)) => self.call_model_for_step(attempt),
            State::BackingOff(Attempt::Extraction(extraction)) => self.extract(extraction),
            other => self.state = other,
        }
    }

    pub(super) fn stop(&mut self, stop: Stop, partial: &str) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => {}
            State::Committing(next) => {
                self.state = State::Committing(next);
                self.stop.get_or_insert(stop);
            }
            State::RunningHooks(_, next) => {
                self.effects.push(Effect::CancelAll);
                self.halt(next, stop);
            }
            State::CheckingCalls(work) | State::ResumingApproved(work) => {
                self.cut_off(work, Started::No, stop)
            }
            State::Boundary | State::Summarizing(_) => {
                self.effects.push(Effect::CancelAll);
                self.finish_stopped(stop, "");
            }
            State::Asking(_) | State::BackingOff(Attempt::Step(_)) => {
                self.effects.push(Effect::CancelAll);
                self.finish_stopped(stop, partial);
            }
            State::Extracting(extraction) | State::BackingOff(Attempt::Extraction(extraction)) => {
                self.effects.push(Effect::CancelAll);
                self.extraction_stopped(&extraction, stop);
            }
            State::Working(work) => self.cut_off(work, Started::Yes, stop),
        }
    }

    /// Ends the run between two committed messages. A prompt or tool results without a response get the text streamed
    /// so far as a cancelled response: otherwise, the next prompt would continue this one.
    pub(super) fn finish_stopped(&mut self, stop: Stop, partial: &str) {
        let mut outcome = self.stopped(stop);
        let message = self.cancelled_answer(partial);
        let text = message.as_ref().and_then(|message| message.assistant_text());
        if let (Outcome::Completed(done), Some(text)) = (&mut outcome, text) {
            done.text = text;
        }
        self.commit(message.into_iter().collect(), CallChange::None, Next::Finish(outcome));
    }

    fn cancelled_answer(&self, partial: &str) -> Option<Arc<Message>> {
        // Hooks that check responses have not seen this one.
        let is_unchecked = self.settings.hooks.has(HookPoint::PostLlmResponse);
        let mut blocks = Vec::new();
        if !partial.trim().is_empty() && !is_unchecked {
            blocks.push(AssistantBlock::Text { text: partial.to_owned(), meta: None });
        }
        let is_needed = !blocks.is_empty() || self.ledger.transcript().is_unanswered(&[]);
        is_needed.then(|| cancelled_message(blocks, self.effects.now()))
    }

    /// Ends the run in the middle of a step's tool calls.
    pub(super) fn cut_off(&mut self, mut work: StepCalls, started: Started, stop: Stop) {
        self.effects.push(Effect::CancelAll);
        work.cut_off(started);
        let outcome = self.stopped(stop);
        self.record(&work, Next::Finish(outcome));
    }

    pub(super) fn stopped(&mut self, stop: Stop) -> Outcome {
        match stop {
            Stop::Interrupt => Outcome::Cancelled,
            Stop::Deadline => {
                self.meter.warn_of_deadline(&mut self.effects);
                Outcome::Completed(self.completion(Some(TerminalCause::BudgetExhausted)))
            }
        }
    }
}

/// Creates a response that was cut short by an interrupt.
pub(super) fn cancelled_message(blocks: Vec<AssistantBlock>, created_at: Timestamp) -> Arc<Message> {
    Arc::new(Message::Assistant { blocks, stop_reason: StopReason::Cancelled, created_at })
}
