//! Structured output: requested after the run's answer is committed, outside the session, so that neither the request
//! nor a failed attempt ever becomes part of the session.

use std::sync::Arc;

use serde_json::Value;

use super::effect::Stop;
use super::hooks::ResponseSummary;
use super::machine::{Next, Run, State};
use super::outcome::{Completion, ExtractionError, Outcome};
use super::prompt;
use crate::{
    AssistantBlock, HookPoint, Message, ModelError, RetryDecision, StopReason, TerminalCause, Timestamp,
    Usage,
};

/// Cause of the end of a run whose budget is exhausted.
const OUT_OF_BUDGET: Option<TerminalCause> = Some(TerminalCause::BudgetExhausted);

/// Messages exchanged with the model for the structured output, outside the session.
#[derive(Debug, Clone)]
pub(super) struct Extraction {
    pub(super) messages: Vec<Arc<Message>>,
    last_output: String,
    /// Number of responses so far.
    answers: u32,
    /// Number of failed calls since the last response.
    failures: u32,
}

/// The operation to retry after a delay.
#[derive(Debug)]
pub(super) enum Attempt {
    Step(u32),
    Extraction(Extraction),
}

impl Extraction {
    pub(super) fn begin(own_prompt: Option<&str>, now: Timestamp) -> Self {
        Self {
            messages: vec![prompt::extraction(own_prompt, now)],
            last_output: String::new(),
            answers: 0,
            failures: 0,
        }
    }
}

impl Run {
    pub(super) fn extract(&mut self, extraction: Extraction) {
        if self.meter.is_spent() {
            return self.extraction_given_up(&extraction, "the run's budget is exhausted", OUT_OF_BUDGET);
        }
        if !self.meter.has_steps() {
            let reason = format!("the run reached its limit of {} model calls", self.settings.max_steps);
            return self.extraction_given_up(&extraction, &reason, Some(TerminalCause::TurnLimitReached));
        }
        self.run_hooks(HookPoint::PreLlmRequest, Next::RequestOutput(Box::new(extraction)), |_| {});
    }

    /// Emits the answer, which is committed.
    pub(super) fn emit_answer(&mut self, text: String) {
        self.effects.emit(self.run_completed(&Completion { text, ..Completion::default() }));
    }

    pub(super) fn extracted(&mut self, text: &str, usage: Usage, verdict: Result<Value, String>) {
        if !matches!(self.state, State::Extracting(_)) {
            return;
        }
        let State::Extracting(mut extraction) = std::mem::replace(&mut self.state, State::Ended) else {
            return;
        };
        self.last_failure = None;
        self.count(usage);
        self.count_step();
        extraction.answers += 1;
        extraction.failures = 0;
        text.clone_into(&mut extraction.last_output);
        let summary = ResponseSummary { text: text.to_owned(), calls: Vec::new(), stop_reason: None, usage };
        let next = Next::TakeOutput(Box::new(extraction), verdict);
        self.run_hooks(HookPoint::PostLlmResponse, next, |invocation| summary.fill(invocation));
    }

    /// Accepts the structured output if it is valid, or requests it again.
    pub(super) fn take_output(&mut self, mut extraction: Extraction, verdict: Result<Value, String>) {
        let reason = match verdict {
            Ok(value) => {
                let mut done = self.completion(None);
                done.structured_output = Some(value);
                return self.finish(Outcome::Completed(done));
            }
            Err(reason) => reason,
        };
        if extraction.answers > self.settings.extraction_retries.unwrap_or(0) {
            return self.extraction_given_up(&extraction, &reason, None);
        }
        if !extraction.last_output.is_empty() {
            let text = extraction.last_output.clone();
            extraction.messages.push(Arc::new(Message::Assistant {
                blocks: vec![AssistantBlock::Text { text, meta: None }],
                stop_reason: StopReason::EndTurn,
                created_at: self.effects.now(),
            }));
        }
        extraction.messages.push(prompt::extraction_retry(&reason, self.effects.now()));
        self.extract(extraction);
    }

    pub(super) fn extraction_failed(&mut self, error: &ModelError, mut extraction: Extraction) {
        extraction.failures += 1;
        match self.decide_retry(error, extraction.failures) {
            RetryDecision::After(_) => self.state = State::BackingOff(Attempt::Extraction(extraction)),
            RetryDecision::Exhausted | RetryDecision::GiveUp => {
                self.extraction_given_up(&extraction, &error.to_string(), None);
            }
        }
    }

    /// Ends the run successfully without structured output, because the answer itself is committed.
    pub(super) fn extraction_stopped(&mut self, extraction: &Extraction, stop: Stop) {
        let (reason, cause) = match stop {
            Stop::Interrupt => ("the run was interrupted", None),
            Stop::Deadline => ("the run reached its time limit", OUT_OF_BUDGET),
        };
        self.extraction_given_up(extraction, reason, cause);
    }

    pub(super) fn extraction_given_up(
        &mut self,
        extraction: &Extraction,
        reason: &str,
        cause: Option<TerminalCause>,
    ) {
        let mut done = self.completion(cause);
        done.extraction_error = Some(ExtractionError {
            last_output: extraction.last_output.clone(),
            attempts: extraction.answers,
            reason: reason.to_owned(),
        });
        self.finish(Outcome::Completed(done));
    }
}
