//! Where the run calls hooks, and what happens when one denies.
//!
//! A point without hooks is skipped without a trace. The hooks of `run_failed` are not here: a failed run cannot be
//! denied, so the driver calls them after the end.

use super::effect::{CallChange, Effect};
use super::extract::Extraction;
use super::machine::{Next, Run, State};
use super::outcome::{Failure, Outcome};
use super::step_calls::StepCalls;
use crate::{
    AssistantBlock, Denial, DenialKind, ErrorClass, HookInvocation, HookPoint, HookPoints, HookResponse,
    ModelResponse, StopReason, TerminalCause, ToolOutput, Usage,
};

/// Summary of a response for hooks.
pub(super) struct ResponseSummary {
    pub(super) text: String,
    pub(super) calls: Vec<String>,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) usage: Usage,
}

impl ResponseSummary {
    /// Collects the data of a response if there are hooks for it.
    pub(super) fn for_response(hooks: HookPoints, answer: &ModelResponse) -> Self {
        let mut summary = Self {
            text: String::new(),
            calls: Vec::new(),
            stop_reason: Some(answer.stop_reason),
            usage: answer.usage,
        };
        if hooks.has(HookPoint::PostLlmResponse) {
            for block in &answer.blocks {
                match block {
                    AssistantBlock::Text { text, .. } => summary.text.push_str(text),
                    AssistantBlock::ToolUse { name, .. } => summary.calls.push(name.clone()),
                    _ => {}
                }
            }
        }
        summary
    }

    pub(super) fn fill(self, invocation: &mut HookInvocation) {
        invocation.llm_response = Some(HookResponse {
            assistant_text: self.text,
            tool_call_names: self.calls,
            stop_reason: self.stop_reason,
            usage: Some(self.usage),
        });
    }
}

impl Run {
    /// Runs the hooks of a point before continuing with `next`.
    pub(super) fn run_hooks(
        &mut self,
        point: HookPoint,
        next: Next,
        prepare: impl FnOnce(&mut HookInvocation),
    ) {
        if !self.settings.hooks.has(point) {
            return self.proceed(next);
        }
        let mut invocation = HookInvocation::new(point, self.settings.session_id);
        if !matches!(point, HookPoint::RunStarted | HookPoint::RunCompleted) {
            invocation.turn_number = Some(self.meter.steps());
        }
        prepare(&mut invocation);
        self.effects.push(Effect::RunHooks(Box::new(invocation)));
        self.state = State::RunningHooks(point, next);
    }

    pub(super) fn hooks_finished(&mut self, verdict: Result<(), Denial>) {
        let (point, next) = match std::mem::replace(&mut self.state, State::Ended) {
            State::RunningHooks(point, next) => (point, next),
            other => return self.state = other,
        };
        match verdict {
            Ok(()) => self.proceed(next),
            Err(denial) => self.denied(&denial, point, next),
        }
    }

    fn denied(&mut self, denial: &Denial, point: HookPoint, next: Next) {
        let cause = match denial.kind {
            DenialKind::Denied => TerminalCause::HookDenied,
            DenialKind::Failed => TerminalCause::HookFailure,
        };
        let message = denial.to_message();
        match (point, next) {
            // Nothing has happened yet, so there is nothing to commit.
            (_, Next::Open(_)) => {
                self.end(Outcome::Failed(Failure { class: ErrorClass::Hook, cause, message }));
            }
            // The answer itself is already committed.
            (
                HookPoint::PreLlmRequest | HookPoint::PostLlmResponse,
                Next::RequestOutput(extraction) | Next::TakeOutput(extraction, _),
            ) => self.extraction_given_up(&extraction, &message, None),
            _ => self.fail(ErrorClass::Hook, cause, message),
        }
    }

    /// Inserts the hooks of the last step between its commit and `next`.
    pub(super) fn after_last_step(&self, next: Next) -> Next {
        match next {
            next if !self.settings.hooks.has(HookPoint::TurnBoundary) => next,
            Next::Finish(outcome) => Next::Last(Box::new(Next::Conclude(outcome))),
            next => Next::Last(Box::new(next)),
        }
    }

    /// Inserts the hooks of a successful run before its end.
    pub(super) fn before_end(&self, next: Next) -> Next {
        match next {
            Next::Finish(outcome @ Outcome::Completed(_)) if self.is_to_conclude() => Next::Conclude(outcome),
            next => next,
        }
    }

    fn is_to_conclude(&self) -> bool {
        !self.concluded && self.settings.hooks.has(HookPoint::RunCompleted)
    }

    pub(super) fn finish_after_hooks(&mut self, outcome: Outcome) {
        if self.is_to_conclude() {
            self.concluded = true;
            return self.run_hooks(HookPoint::RunCompleted, Next::Conclude(outcome), |_| {});
        }
        self.concluded = true;
        self.commit(Vec::new(), CallChange::None, Next::Finish(outcome));
    }

    pub(super) fn begin_extraction(&mut self, extraction: Box<Extraction>, text: String) {
        if self.is_to_conclude() {
            self.concluded = true;
            return self.run_hooks(HookPoint::RunCompleted, Next::Extract(extraction, text), |_| {});
        }
        self.emit_answer(text);
        self.extract(*extraction);
    }

    /// Requests a check of a step's calls before they run, if there are hooks for it.
    pub(super) fn check_calls(&mut self, work: StepCalls) {
        let open = work.open();
        if open.is_empty() || !self.settings.hooks.has(HookPoint::PreToolExecution) {
            return self.dispatch(work);
        }
        self.effects.push(Effect::CheckCalls(open));
        self.state = State::CheckingCalls(work);
    }

    pub(super) fn calls_checked(&mut self, refused: Vec<(String, ToolOutput)>) {
        let mut work = match std::mem::replace(&mut self.state, State::Ended) {
            State::CheckingCalls(work) => work,
            other => return self.state = other,
        };
        for (id, output) in refused {
            work.reject(&id, output);
        }
        self.dispatch(work);
    }
}
