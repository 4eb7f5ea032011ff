//! Where hooks are asked, and what becomes of the run when one refuses.
//!
//! A point without hooks is passed without a trace. The hooks of `run_failed` are not here: a run that has failed
//! cannot be refused, so whoever drives it calls them when it is over.

use super::effect::{CallChange, Effect};
use super::extract::Extraction;
use super::machine::{Next, Run, State};
use super::outcome::{Failure, Outcome};
use super::work::Work;
use crate::{
    Answer, AssistantBlock, Denial, DenialKind, ErrorClass, HookInvocation, HookPoint, HookPoints,
    HookResponse, StopReason, TerminalCause, ToolOutput, Usage,
};

/// What a hook is told of an answer.
pub(super) struct Told {
    pub(super) text: String,
    pub(super) calls: Vec<String>,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) usage: Usage,
}

impl Told {
    /// Collects what is to be told of an answer, where anybody is.
    pub(super) fn of(hooks: HookPoints, answer: &Answer) -> Self {
        let mut told = Self {
            text: String::new(),
            calls: Vec::new(),
            stop_reason: Some(answer.stop_reason),
            usage: answer.usage,
        };
        if hooks.has(HookPoint::PostLlmResponse) {
            for block in &answer.blocks {
                match block {
                    AssistantBlock::Text { text, .. } => told.text.push_str(text),
                    AssistantBlock::ToolUse { name, .. } => told.calls.push(name.clone()),
                    _ => {}
                }
            }
        }
        told
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
    /// Asks the hooks of a point before going on.
    pub(super) fn consult(&mut self, point: HookPoint, next: Next, tell: impl FnOnce(&mut HookInvocation)) {
        if !self.settings.hooks.has(point) {
            return self.proceed(next);
        }
        let mut invocation = HookInvocation::new(point, self.settings.session_id);
        if !matches!(point, HookPoint::RunStarted | HookPoint::RunCompleted) {
            invocation.turn_number = Some(self.steps);
        }
        tell(&mut invocation);
        self.queue.push_back(Effect::Consult(Box::new(invocation)));
        self.state = State::Consulting(point, next);
    }

    pub(super) fn consulted(&mut self, verdict: Result<(), Denial>) {
        let (point, next) = match std::mem::replace(&mut self.state, State::Ended) {
            State::Consulting(point, next) => (point, next),
            other => return self.state = other,
        };
        match verdict {
            Ok(()) => self.proceed(next),
            Err(denial) => self.denied(&denial, point, next),
        }
    }

    fn denied(&mut self, denial: &Denial, point: HookPoint, next: Next) {
        let cause = match denial.kind {
            DenialKind::Refused => TerminalCause::HookDenied,
            DenialKind::Failed => TerminalCause::HookFailure,
        };
        let message = denial.sentence();
        match (point, next) {
            // Nothing has happened yet, and nothing will.
            (_, Next::Open(_)) => {
                self.end(Outcome::Failed(Failure { class: ErrorClass::Hook, cause, message }));
            }
            // The answer itself is committed.
            (
                HookPoint::PreLlmRequest | HookPoint::PostLlmResponse,
                Next::RequestOutput(extraction) | Next::TakeOutput(extraction, _),
            ) => self.extraction_given_up(&extraction, &message, None),
            _ => self.fail(ErrorClass::Hook, cause, message),
        }
    }

    /// Puts the hooks of the last step between its commit and what follows.
    pub(super) fn after_last_step(&self, next: Next) -> Next {
        match next {
            next if !self.settings.hooks.has(HookPoint::TurnBoundary) => next,
            Next::Finish(outcome) => Next::Last(Box::new(Next::Conclude(outcome))),
            next => Next::Last(Box::new(next)),
        }
    }

    /// Puts the hooks of a run that ends well before its end.
    pub(super) fn before_end(&self, next: Next) -> Next {
        match next {
            Next::Finish(outcome @ Outcome::Completed(_)) if self.is_to_conclude() => Next::Conclude(outcome),
            next => next,
        }
    }

    fn is_to_conclude(&self) -> bool {
        !self.concluded && self.settings.hooks.has(HookPoint::RunCompleted)
    }

    pub(super) fn conclude_with(&mut self, outcome: Outcome) {
        if self.is_to_conclude() {
            self.concluded = true;
            return self.consult(HookPoint::RunCompleted, Next::Conclude(outcome), |_| {});
        }
        self.concluded = true;
        self.commit(Vec::new(), CallChange::None, Next::Finish(outcome));
    }

    pub(super) fn begin_extraction(&mut self, extraction: Box<Extraction>, text: String) {
        if self.is_to_conclude() {
            self.concluded = true;
            return self.consult(HookPoint::RunCompleted, Next::Extract(extraction, text), |_| {});
        }
        self.tell_of_answer(text);
        self.extract(*extraction);
    }

    /// Has the calls of a step looked at before they are run, where anybody looks.
    pub(super) fn vet(&mut self, work: Work) {
        let open = work.open();
        if open.is_empty() || !self.settings.hooks.has(HookPoint::PreToolExecution) {
            return self.dispatch(work);
        }
        self.queue.push_back(Effect::Vet(open));
        self.state = State::Vetting(work);
    }

    pub(super) fn vetted(&mut self, refused: Vec<(String, ToolOutput)>) {
        let mut work = match std::mem::replace(&mut self.state, State::Ended) {
            State::Vetting(work) => work,
            other => return self.state = other,
        };
        for (id, output) in refused {
            work.refuse(&id, output);
        }
        self.dispatch(work);
    }
}
