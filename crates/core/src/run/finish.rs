//! The end of a run: its answer, the structured output after it, interrupts, and failures.
//!
//! The structured output is requested after the run's answer is committed, outside the session, so that neither the
//! request nor a failed attempt ever becomes part of the session.

use std::sync::Arc;

use serde_json::Value;

use super::effect::{BudgetUsage, CallChange, Effect, Progress, Stop};
use super::events::{closing_events, run_completed};
use super::extract::Extraction;
use super::machine::Run;
use super::outcome::{Completion, Failure, Outcome, RunReport};
use super::prompt::cancelled_message;
use super::states::{Next, Phase, State};
use super::step_calls::{Started, StepCalls};
use crate::{
    AssistantBlock, Denial, DenialKind, ErrorClass, HookPoint, HookResponse, Message, ModelError,
    RetryDecision, TerminalCause, Usage,
};

/// Cause of the end of a run whose budget is exhausted.
const OUT_OF_BUDGET: Option<TerminalCause> = Some(TerminalCause::BudgetExhausted);

impl Run {
    /// Returns what follows the commit of the model's final response of the run.
    pub(super) fn after_answer(&self, text: String) -> Next {
        let next = match self.settings.extraction_retries {
            None => Next::Finish(Outcome::Completed(Completion { text, ..Completion::default() })),
            Some(_) => {
                let own_prompt = self.settings.extraction_prompt.as_deref();
                Next::Extract(Extraction::new(own_prompt, self.effects.now()), text)
            }
        };
        next.after_last_step(self.settings.hooks)
    }

    /// Emits the answer, which is committed.
    pub(super) fn emit_answer(&mut self, text: String) {
        let answer = Completion { text, ..Completion::default() };
        self.effects.emit(run_completed(&self.settings, self.ledger.progress().usage, &answer));
    }

    pub(super) fn extract(&mut self, extraction: Extraction) {
        if self.meter.is_spent() {
            return self.give_up_extraction(&extraction, "the run's budget is exhausted", OUT_OF_BUDGET);
        }
        if !self.meter.has_steps() {
            let reason = format!("the run reached its limit of {} model calls", self.settings.max_steps);
            return self.give_up_extraction(&extraction, &reason, Some(TerminalCause::TurnLimitReached));
        }
        self.run_hooks(HookPoint::PreLlmRequest, Next::RequestOutput(extraction), |_| {});
    }

    pub(super) fn extracted(
        &mut self,
        mut extraction: Extraction,
        text: String,
        usage: Usage,
        verdict: Result<Value, String>,
    ) {
        self.model_calls.succeeded();
        self.count(usage);
        self.count_step();
        let response = HookResponse {
            assistant_text: text.clone(),
            tool_call_names: Vec::new(),
            stop_reason: None,
            usage: Some(usage),
        };
        extraction.responded(text);
        let next = Next::TakeOutput(extraction, verdict);
        self.run_hooks(HookPoint::PostLlmResponse, next, |invocation| {
            invocation.llm_response = Some(response)
        });
    }

    /// Accepts the structured output if it is valid, or requests it again.
    pub(super) fn take_output(&mut self, mut extraction: Extraction, verdict: Result<Value, String>) {
        match verdict {
            Ok(value) => {
                let done = Completion { structured_output: Some(value), ..self.completion(None) };
                self.finish(Outcome::Completed(done));
            }
            Err(reason) if extraction.answers() > self.settings.extraction_retries.unwrap_or(0) => {
                self.give_up_extraction(&extraction, &reason, None);
            }
            Err(reason) => {
                extraction.retry(&reason, self.effects.now());
                self.extract(extraction);
            }
        }
    }

    pub(super) fn extraction_failed(&mut self, error: &ModelError, mut extraction: Extraction) {
        let attempt = extraction.failed();
        match self.model_calls.failed(error, attempt, &self.meter, &mut self.effects) {
            RetryDecision::After(_) => self.state = State::BackingOff(Next::AskOutput(extraction)),
            RetryDecision::Exhausted | RetryDecision::GiveUp => {
                self.give_up_extraction(&extraction, &error.to_string(), None);
            }
        }
    }

    /// Ends the run successfully without structured output, because the answer itself is committed.
    fn stop_extraction(&mut self, extraction: &Extraction, stop: Stop) {
        let (reason, cause) = match stop {
            Stop::Interrupt => ("the run was interrupted", None),
            Stop::Deadline => ("the run reached its time limit", OUT_OF_BUDGET),
        };
        self.give_up_extraction(extraction, reason, cause);
    }

    fn give_up_extraction(&mut self, extraction: &Extraction, reason: &str, cause: Option<TerminalCause>) {
        let done = Completion { extraction_error: Some(extraction.error(reason)), ..self.completion(cause) };
        self.finish(Outcome::Completed(done));
    }

    pub(super) fn denied(&mut self, denial: &Denial, next: Next) {
        let cause = match denial.kind {
            DenialKind::Denied => TerminalCause::HookDenied,
            DenialKind::Failed => TerminalCause::HookFailure,
        };
        let (class, message) = (ErrorClass::Hook, denial.to_message());
        match next {
            // Nothing has happened yet, so there is nothing to commit.
            Next::Open(_) => self.end(Outcome::Failed(Failure { class, cause, message })),
            // The answer itself is already committed.
            Next::RequestOutput(extraction) | Next::TakeOutput(extraction, _) => {
                self.give_up_extraction(&extraction, &message, None);
            }
            _ => self.fail(class, cause, message),
        }
    }

    /// Stops the run in any state.
    pub(super) fn stop(&mut self, state: State, stop: Stop, partial: &str) {
        let (next, partial) = match state {
            State::Ended => return,
            State::Committing { next, stop: earlier } => {
                return self.state = State::Committing { next, stop: earlier.or(Some(stop)) };
            }
            State::CheckingCalls(calls) | State::ResumingApproved(calls) => {
                return self.cut_off(calls, Started::No, stop);
            }
            State::Working(calls) => return self.cut_off(calls, Started::Yes, stop),
            State::RunningHooks(next) => (next, ""),
            State::Boundary | State::Summarizing(_) => (Next::Boundary, ""),
            State::Asking(attempt) => (Next::Ask(attempt), partial),
            State::BackingOff(next) => (next, partial),
            State::Extracting(extraction) => (Next::RequestOutput(extraction), ""),
        };
        self.effects.push(Effect::CancelAll);
        self.halt(next, stop, partial);
    }

    /// Ends the run instead of continuing; `partial` is the text streamed so far. A committed end is final.
    pub(super) fn halt(&mut self, next: Next, stop: Stop, partial: &str) {
        match next {
            Next::Finish(outcome) => self.end(outcome),
            Next::Open(_) => {
                let outcome = self.stopped(stop);
                self.end(outcome);
            }
            Next::Dispatch(calls) | Next::ResumeApproved(calls) => self.cut_off(calls, Started::No, stop),
            Next::Resume(calls) => self.cut_off(calls, Started::Yes, stop),
            Next::EndStep(next) => self.halt(*next, stop, partial),
            Next::Extract(extraction, text) => {
                self.emit_answer(text);
                self.stop_extraction(&extraction, stop);
            }
            Next::AskOutput(extraction)
            | Next::RequestOutput(extraction)
            | Next::TakeOutput(extraction, _) => {
                self.stop_extraction(&extraction, stop);
            }
            Next::Boundary | Next::Ask(_) | Next::Request | Next::Take(..) | Next::Conclude(_) => {
                self.finish_stopped(stop, partial);
            }
        }
    }

    /// Ends the run between two committed messages. A prompt or tool results without a response get the text streamed
    /// so far as a cancelled response: otherwise, the next prompt would continue this one.
    fn finish_stopped(&mut self, stop: Stop, partial: &str) {
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
    fn cut_off(&mut self, mut calls: StepCalls, started: Started, stop: Stop) {
        self.effects.push(Effect::CancelAll);
        calls.cut_off(started);
        let outcome = self.stopped(stop);
        self.record(&calls, Next::Finish(outcome));
    }

    fn stopped(&mut self, stop: Stop) -> Outcome {
        match stop {
            Stop::Interrupt => Outcome::Cancelled,
            Stop::Deadline => {
                self.meter.warn_of_deadline(&mut self.effects);
                Outcome::Completed(self.completion(OUT_OF_BUDGET))
            }
        }
    }

    fn completion(&self, cause: Option<TerminalCause>) -> Completion {
        let text = self.ledger.transcript().last_text().unwrap_or_default();
        Completion { text, cause, last_failure: self.model_calls.failure(), ..Completion::default() }
    }

    pub(super) fn finish_out_of_budget(&mut self) {
        self.finish(Outcome::Completed(self.completion(OUT_OF_BUDGET)));
    }

    pub(super) fn fail(&mut self, class: ErrorClass, cause: TerminalCause, message: String) {
        self.finish(Outcome::Failed(Failure { class, cause, message }));
    }

    pub(super) fn finish(&mut self, outcome: Outcome) {
        self.commit(Vec::new(), CallChange::None, Next::Finish(outcome));
    }

    /// Ends the run without further effects, because nothing can be made durable anymore.
    pub(super) fn commit_failed(&mut self, message: String) {
        self.effects.cancel_all();
        let (class, cause) = (ErrorClass::Store, TerminalCause::FatalFailure);
        self.end(Outcome::Failed(Failure { class, cause, message }));
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        let &Progress { usage, cost, .. } = self.ledger.progress();
        if self.phase != Phase::Opening {
            self.effects.emit_all(closing_events(&self.settings, usage, &outcome));
        }
        let BudgetUsage { steps, tool_calls, .. } = self.meter.used(self.effects.now());
        let cost = self.settings.price.map(|_| cost);
        self.effects.push(Effect::End(Box::new(RunReport { outcome, steps, tool_calls, usage, cost })));
        self.state = State::Ended;
    }
}
