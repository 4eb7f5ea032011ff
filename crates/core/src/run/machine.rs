//! The states of a run and the transitions between them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::effect::{
    BudgetUsage, CallChange, Effect, Effects, Input, LastRun, ModelTask, Progress, Stop, ToolTable,
};
use super::extract::{Attempt, Extraction};
use super::hooks::ResponseSummary;
use super::ledger::Ledger;
use super::meter::Meter;
use super::opening::Opening;
use super::outcome::{Completion, Failure, Outcome, RunEnd, RunReport};
use super::pause::Pauses;
use super::step_calls::{Started, StepCalls, normalize_blocks};
use super::window::ContextWindow;
use crate::{
    AgentEvent, AssistantBlock, BudgetLimits, CompactionPolicy, ErrorClass, FindPinned, HookInvocation,
    HookPoint, HookPoints, Message, ModelError, ModelErrorKind, ModelResponse, Price, Provider, RetryPolicy,
    RunId, SchemaWarning, SessionId, TerminalCause, Timestamp, ToolCall, Transcript, Usage,
};

/// Settings and limits of a run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Id of the session.
    pub session_id: SessionId,
    /// Id of the run.
    pub run_id: RunId,
    /// Provider of the model.
    pub provider: Provider,
    /// Maximum number of model calls, including those for summaries and structured output.
    pub max_steps: u32,
    /// Budget of the run.
    pub budget: BudgetLimits,
    /// Price of the model, if known.
    pub price: Option<Price>,
    /// Share of a budget at which to warn.
    pub warn_at: f32,
    /// Retry policy for model calls.
    pub retry: RetryPolicy,
    /// Retries when structured output fails validation; `None` if none is requested.
    pub extraction_retries: Option<u32>,
    /// Keywords of the output schema that the provider does not support.
    pub schema_warnings: Vec<SchemaWarning>,
    /// Custom prompt for the structured output, instead of the default.
    pub extraction_prompt: Option<Arc<str>>,
    /// Compaction policy; `None` to never compact.
    pub compaction: Option<CompactionPolicy>,
    /// Finds the texts that a compaction must keep verbatim.
    pub find_pinned: FindPinned,
    /// Points that have hooks; the others are skipped.
    pub hooks: HookPoints,
    /// Time after which a call that awaits approval counts as denied.
    pub approval_timeout: Duration,
}

/// One run of a session.
#[derive(Debug)]
pub struct Run {
    pub(super) settings: RunSettings,
    pub(super) ledger: Ledger,
    pub(super) state: State,
    pub(super) effects: Effects,
    pub(super) tools: Arc<ToolTable>,
    pub(super) meter: Meter,
    pub(super) step_usage: Usage,
    pub(super) stop: Option<Stop>,
    pub(super) window: ContextWindow,
    pub(super) pauses: Pauses,
    /// Error of the last model call, if it failed.
    pub(super) last_failure: Option<String>,
    /// Start of the last model call.
    pub(super) called_at: Timestamp,
    /// Whether the hooks of a successful run were called; they are called once.
    pub(super) concluded: bool,
    /// Whether the opening is durable; before that, the run does not exist.
    admitted: bool,
}

#[derive(Debug)]
pub(super) enum State {
    /// A commit is in progress; this follows it.
    Committing(Next),
    /// Hooks are running; this follows them.
    RunningHooks(HookPoint, Next),
    /// The calls of a step are being checked before they run.
    CheckingCalls(StepCalls),
    /// The driver is refreshing the tools.
    Boundary,
    /// The driver is refreshing the tools before approved calls of an earlier run are started.
    ResumingApproved(StepCalls),
    /// The model is being called for a step, for the nth time.
    Asking(u32),
    /// The model is being called for a summary of the messages before this one.
    Summarizing(u64),
    /// The model is being called for the structured output.
    Extracting(Extraction),
    /// The model will be called again after a delay.
    BackingOff(Attempt),
    /// Tools are running.
    Working(StepCalls),
    /// The run is over.
    Ended,
}

/// The next transition, once a commit is durable or hooks have agreed.
#[derive(Debug)]
pub(super) enum Next {
    /// The run starts.
    Open(Box<Opening>),
    /// A step is over and another follows.
    Step,
    Boundary,
    Ask,
    /// The model is called for a step, for the nth time.
    Request(u32),
    /// The model's response is accepted.
    Take(Box<StepResponse>),
    Dispatch(StepCalls),
    Resume(StepCalls),
    /// Approved calls of an earlier run are started.
    ResumeApproved(StepCalls),
    /// The last step is over; this follows.
    Last(Box<Self>),
    /// The answer, which is this text, is complete, and its structured output is still to be extracted.
    Extract(Box<Extraction>, String),
    /// The model is called for the structured output.
    RequestOutput(Box<Extraction>),
    /// The model's structured output is validated.
    TakeOutput(Box<Extraction>, Result<Value, String>),
    /// The end is committed.
    Conclude(Outcome),
    Finish(Outcome),
}

/// A response to a step, with its calls.
#[derive(Debug)]
pub(super) struct StepResponse {
    pub(super) answer: ModelResponse,
    pub(super) calls: Vec<(ToolCall, Option<String>)>,
}

impl Run {
    /// Creates a run. Its first effect is the commit of the opening, unless hooks run before it.
    #[must_use]
    pub fn new(
        settings: RunSettings,
        transcript: Transcript,
        progress: Progress,
        mut opening: Opening,
        now: Timestamp,
    ) -> Self {
        opening.insert_separator(&transcript, progress.last_run, now);
        let used = progress.last_run.and_then(|run| run.spent).filter(|_| opening.continues_run);
        let mut used = used.unwrap_or_default();
        used.tool_calls += opening.answered;
        let mut run = Self {
            meter: Meter::new(&settings, used, now),
            window: ContextWindow::new(&settings),
            settings,
            ledger: Ledger::new(transcript, progress),
            state: State::Ended,
            effects: Effects::new(now),
            tools: Arc::default(),
            step_usage: Usage::default(),
            stop: None,
            pauses: Pauses::default(),
            last_failure: None,
            called_at: now,
            concluded: false,
            admitted: false,
        };
        let prompt = opening.prompt.clone();
        let add_prompt = |invocation: &mut HookInvocation| invocation.prompt = Some(prompt);
        run.run_hooks(HookPoint::RunStarted, Next::Open(Box::new(opening)), add_prompt);
        run
    }

    /// Commits the opening.
    fn open(&mut self, opening: Opening) {
        let messages = opening.messages;
        let next = opening.work.map_or(Next::Boundary, Next::ResumeApproved);
        self.commit(messages.clone(), opening.calls, next);
        let session_id = self.settings.session_id;
        self.effects.emit(AgentEvent::RunStarted { session_id, prompt: opening.prompt });
        self.emit_images(&messages);
    }

    /// Returns the next effect.
    #[expect(clippy::should_implement_trait, reason = "an iterator ends; this waits")]
    pub fn next(&mut self) -> Effect {
        self.effects.next()
    }

    /// Returns the context of a step, fitted to the model's window without the `reserved` tokens.
    #[must_use]
    pub fn context(&self, reserved: u64) -> Vec<Arc<Message>> {
        self.window.fit(self.ledger.transcript().context(), reserved)
    }

    /// Returns the transcript, uncommitted messages included.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        self.ledger.transcript()
    }

    /// Returns the remaining time of the run, or `None` if it has no time limit.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.meter.time_left(self.effects.now())
    }

    /// Feeds a result or event to the machine. Inputs that no longer matter are ignored.
    pub fn feed(&mut self, now: Timestamp, input: Input) {
        self.effects.advance(now);
        match input {
            Input::Committed(Ok(())) => self.committed(),
            Input::Committed(Err(reason)) => self.commit_failed(reason),
            Input::Tools(tools) => self.tools_ready(tools),
            Input::ModelResponded(answer) => self.model_responded(answer),
            Input::Extracted { text, usage, verdict } => self.extracted(&text, usage, verdict),
            Input::Failed(error) => self.failed(&error),
            Input::HooksFinished(verdict) => self.hooks_finished(verdict),
            Input::CallsChecked(refused) => self.calls_checked(refused),
            Input::SleepElapsed => self.backoff_elapsed(),
            Input::ToolDone { id, output, duration_ms } => self.tool_done(&id, output, duration_ms),
            Input::Stop { stop, partial } => self.stop(stop, &partial),
        }
    }

    /// Queues a commit; events emitted afterwards are emitted only once it is durable.
    pub(super) fn commit(&mut self, messages: Vec<Arc<Message>>, calls: CallChange, next: Next) {
        let next = self.before_end(next);
        let end = match &next {
            Next::Finish(outcome) => Some(RunEnd::from(outcome)),
            _ => None,
        };
        let spent = (end == Some(RunEnd::Pending)).then(|| self.meter.used(self.effects.now()));
        let last_run = LastRun { id: self.settings.run_id, end, spent };
        let commit = self.ledger.commit(messages, calls, last_run);
        self.effects.push(Effect::Commit(Box::new(commit)));
        self.state = State::Committing(next);
    }

    pub(super) fn count(&mut self, usage: Usage) {
        let cost = self.meter.count_usage(usage, &mut self.effects);
        self.ledger.count_usage(usage, cost);
    }

    /// Counts a model call that returned a response, regardless of its purpose.
    pub(super) fn count_step(&mut self) {
        self.meter.count_step();
        self.ledger.count_step();
    }

    pub(super) fn call_model(&mut self, ask: ModelTask, state: State) {
        self.called_at = self.effects.now();
        self.effects.push(Effect::CallModel(ask));
        self.state = state;
    }

    pub(super) fn finish(&mut self, outcome: Outcome) {
        self.commit(Vec::new(), CallChange::None, Next::Finish(outcome));
    }

    pub(super) fn fail(&mut self, class: ErrorClass, cause: TerminalCause, message: String) {
        self.finish(Outcome::Failed(Failure { class, cause, message }));
    }

    pub(super) fn completion(&self, cause: Option<TerminalCause>) -> Completion {
        let text = self.ledger.transcript().last_text().unwrap_or_default();
        Completion { text, cause, last_failure: self.last_failure.clone(), ..Completion::default() }
    }

    fn committed(&mut self) {
        let next = match std::mem::replace(&mut self.state, State::Ended) {
            State::Committing(next) => next,
            other => return self.state = other,
        };
        self.admitted = true;
        match self.stop.take() {
            Some(stop) => self.halt(next, stop),
            None => self.proceed(next),
        }
    }

    /// Continues with the next transition.
    pub(super) fn proceed(&mut self, next: Next) {
        match next {
            Next::Open(opening) => self.open(*opening),
            Next::Step => self.run_hooks(HookPoint::TurnBoundary, Next::Boundary, |_| {}),
            Next::Boundary => self.enter_boundary(),
            Next::Ask => self.call_model_for_step(1),
            Next::Request(attempt) => self.call_model(ModelTask::Step, State::Asking(attempt)),
            Next::Take(taken) => self.take(*taken),
            Next::Dispatch(work) => self.check_calls(work),
            Next::Resume(work) => self.resume(work),
            Next::ResumeApproved(work) => self.resume_approved(work),
            Next::Last(next) => self.run_hooks(HookPoint::TurnBoundary, *next, |_| {}),
            Next::Extract(extraction, text) => self.begin_extraction(extraction, text),
            Next::RequestOutput(extraction) => {
                self.call_model(
                    ModelTask::Extract(extraction.messages.clone()),
                    State::Extracting(*extraction),
                );
            }
            Next::TakeOutput(extraction, verdict) => self.take_output(*extraction, verdict),
            Next::Conclude(outcome) => self.finish_after_hooks(outcome),
            Next::Finish(outcome) => self.end(outcome),
        }
    }

    /// Ends the run instead of continuing. A committed end is final.
    pub(super) fn halt(&mut self, next: Next, stop: Stop) {
        match next {
            Next::Finish(outcome) => self.end(outcome),
            Next::Open(_) => {
                let outcome = self.stopped(stop);
                self.end(outcome);
            }
            Next::Dispatch(work) | Next::ResumeApproved(work) => self.cut_off(work, Started::No, stop),
            Next::Resume(work) => self.cut_off(work, Started::Yes, stop),
            Next::Last(next) => self.halt(*next, stop),
            Next::Extract(extraction, text) => {
                self.emit_answer(text);
                self.extraction_stopped(&extraction, stop);
            }
            Next::RequestOutput(extraction) | Next::TakeOutput(extraction, _) => {
                self.extraction_stopped(&extraction, stop);
            }
            Next::Step
            | Next::Boundary
            | Next::Ask
            | Next::Request(_)
            | Next::Take(_)
            | Next::Conclude(_) => self.finish_stopped(stop, ""),
        }
    }

    /// Ends the run without further effects, because nothing can be made durable anymore.
    fn commit_failed(&mut self, message: String) {
        if !matches!(self.state, State::Committing(_)) {
            return;
        }
        self.effects.cancel_all();
        let failure = Failure { class: ErrorClass::Store, cause: TerminalCause::FatalFailure, message };
        self.end(Outcome::Failed(failure));
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.state = State::Ended;
        if self.admitted {
            for event in self.closing_events(&outcome) {
                self.effects.emit(event);
            }
        }
        let BudgetUsage { steps, tool_calls, .. } = self.meter.used(self.effects.now());
        let &Progress { usage, cost, .. } = self.ledger.progress();
        let cost = self.settings.price.map(|_| cost);
        self.effects.push(Effect::End(Box::new(RunReport { outcome, steps, tool_calls, usage, cost })));
    }

    /// Calls the model for the step, within the budget.
    pub(super) fn call_model_for_step(&mut self, attempt: u32) {
        if self.meter.is_spent() {
            let done = self.completion(Some(TerminalCause::BudgetExhausted));
            return self.finish(Outcome::Completed(done));
        }
        match attempt {
            1 => self.run_hooks(HookPoint::PreLlmRequest, Next::Request(attempt), |_| {}),
            _ => self.call_model(ModelTask::Step, State::Asking(attempt)),
        }
    }

    pub(super) fn enter_boundary(&mut self) {
        if self.meter.is_spent() {
            let done = self.completion(Some(TerminalCause::BudgetExhausted));
            return self.finish(Outcome::Completed(done));
        }
        if !self.meter.has_steps() {
            let message = format!("the run reached its limit of {} steps", self.settings.max_steps);
            return self.fail(ErrorClass::MaxTurns, TerminalCause::TurnLimitReached, message);
        }
        self.effects.push(Effect::Boundary(Vec::new()));
        self.state = State::Boundary;
    }

    pub(super) fn tools_ready(&mut self, tools: Arc<ToolTable>) {
        match std::mem::replace(&mut self.state, State::Boundary) {
            State::Boundary => {}
            State::ResumingApproved(work) => {
                self.tools = tools;
                return self.dispatch_approved(work);
            }
            other => return self.state = other,
        }
        self.tools = tools;
        self.effects.emit(AgentEvent::TurnStarted { turn_number: self.meter.steps() });
        match self.window.due_cut(&self.ledger).filter(|_| self.meter.can_summarize()) {
            Some(kept_from) => self.summarize(kept_from),
            None => self.call_model_for_step(1),
        }
    }

    pub(super) fn model_responded(&mut self, answer: ModelResponse) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Asking(attempt) => self.step_responded(answer, attempt),
            State::Summarizing(kept_from) => self.summarized(&answer, kept_from),
            other => self.state = other,
        }
    }

    pub(super) fn step_responded(&mut self, answer: ModelResponse, attempt: u32) {
        let ModelResponse { mut blocks, stop_reason, extent, usage } = answer;
        self.last_failure = None;
        self.count(usage);
        self.step_usage = usage;
        self.ledger.set_context_tokens(usage);
        let calls = normalize_blocks(&mut blocks, self.ledger.progress().steps);
        if !has_content(&blocks) {
            return self.step_failed(
                &ModelError {
                    kind: ModelErrorKind::Incomplete,
                    provider: self.settings.provider,
                    status: None,
                    retry_after: None,
                    message: "the model returned an empty response".to_owned(),
                },
                attempt,
            );
        }
        let answer = ModelResponse { blocks, stop_reason, extent, usage };
        let summary = ResponseSummary::for_response(self.settings.hooks, &answer);
        let next = Next::Take(Box::new(StepResponse { answer, calls }));
        self.run_hooks(HookPoint::PostLlmResponse, next, |invocation| summary.fill(invocation));
    }

    /// Adds a response to the session.
    pub(super) fn take(&mut self, StepResponse { answer, calls }: StepResponse) {
        let ModelResponse { blocks, stop_reason, extent, usage } = answer;
        self.count_step();
        self.window.accepted();
        self.announce(&blocks);
        let message = Arc::new(Message::Assistant { blocks, stop_reason, created_at: self.effects.now() });
        let ended = AgentEvent::TurnCompleted { stop_reason, usage };
        if calls.is_empty() {
            return self.commit_text(message, extent, ended);
        }
        self.pauses = Pauses::default();
        let allowed = self.meter.admit_calls(calls.len());
        let work = StepCalls::plan(calls, &self.tools, allowed);
        let open = CallChange::Open(work.intents());
        self.commit(vec![message], open, Next::Dispatch(work));
    }

    /// Handles the model's final response of the run.
    pub(super) fn conclude(&mut self, message: Arc<Message>, text: String, ended: AgentEvent) {
        let next = match self.settings.extraction_retries {
            None => {
                let done = Completion { text, ..Completion::default() };
                Next::Finish(Outcome::Completed(done))
            }
            Some(_) => {
                let own_prompt = self.settings.extraction_prompt.as_deref();
                Next::Extract(Box::new(Extraction::begin(own_prompt, self.effects.now())), text)
            }
        };
        let next = self.after_last_step(next);
        self.commit(vec![message], CallChange::None, next);
        self.effects.emit(ended);
    }
}

/// Returns `true` if a response has content other than reasoning.
fn has_content(blocks: &[AssistantBlock]) -> bool {
    blocks.iter().any(|block| !matches!(block, AssistantBlock::Reasoning { .. }))
}
