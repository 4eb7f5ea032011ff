//! The states of a run and the ways between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::consult::Told;
use super::effect::{Ask, CallChange, Commit, Effect, Input, LastRun, LeftOut, Progress, Stop, ToolTable};
use super::extract::{Attempt, Extraction};
use super::opening::Opening;
use super::outcome::{Completion, Failure, Outcome, Report, RunEnd};
use super::pause::Pauses;
use super::work::{Started, Work, tidy};
use crate::compact::{estimate, estimate_tokens};
use crate::fit::fit;
use crate::{
    AgentEvent, Answer, AssistantBlock, BudgetLimits, CompactionPolicy, ErrorClass, FindLasting,
    HookInvocation, HookPoint, HookPoints, Message, ModelError, ModelErrorKind, Price, Provider, RetryPolicy,
    RunId, SchemaWarning, SessionId, TerminalCause, Timestamp, ToolCall, Transcript, Usage, Usd,
};

/// What a run is allowed and asked to do.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// Who serves its model.
    pub provider: Provider,
    /// Maximum number of model calls, those for summaries and structured output included.
    pub max_steps: u32,
    /// What it may use up.
    pub budget: BudgetLimits,
    /// What the model costs, if that is known.
    pub price: Option<Price>,
    /// At which share of a budget to warn.
    pub warn_at: f32,
    /// How to deal with failing model calls.
    pub retry: RetryPolicy,
    /// How often to ask again for a structured output that does not fit; `None` when none is asked for.
    pub extraction_retries: Option<u32>,
    /// What the provider cannot take of the output schema.
    pub schema_warnings: Vec<SchemaWarning>,
    /// How to ask for it, instead of in our words.
    pub extraction_prompt: Option<Arc<str>>,
    /// When to compact; `None` for never.
    pub compaction: Option<CompactionPolicy>,
    /// What a compaction must not put into other words.
    pub lasting: FindLasting,
    /// Which points have hooks; the others cost nothing.
    pub hooks: HookPoints,
    /// How long a call waits for an approval before it counts as denied.
    pub approval_timeout: Duration,
}

/// One run of a session.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the run that is true from some moment on"
)]
pub struct Run {
    pub(super) settings: RunSettings,
    pub(super) transcript: Transcript,
    pub(super) progress: Progress,
    pub(super) state: State,
    pub(super) queue: VecDeque<Effect>,
    pub(super) now: Timestamp,
    pub(super) tools: Arc<ToolTable>,
    pub(super) steps: u32,
    pub(super) tool_calls: u32,
    pub(super) spent: u64,
    pub(super) spent_money: Usd,
    pub(super) warned: [f32; 3],
    pub(super) step_usage: Usage,
    pub(super) stop: Option<Stop>,
    pub(super) overflowed: bool,
    pub(super) left_out: LeftOut,
    /// How often the model could not read what should have fitted; each time, half as much is sent.
    pub(super) squeezed: u32,
    pub(super) refused: bool,
    pub(super) pauses: Pauses,
    /// What the model failed with when it was last asked.
    pub(super) last_failure: Option<String>,
    /// When the run began, and when the model was last asked.
    pub(super) began_at: Timestamp,
    pub(super) asked_at: Timestamp,
    /// Whether the hooks of a run that ended well were called; they are once.
    pub(super) concluded: bool,
    /// Whether the opening is durable; before that there is no run to speak of.
    admitted: bool,
}

#[derive(Debug)]
pub(super) enum State {
    /// A commit is under way; this comes after it.
    Committing(Next),
    /// Hooks are called; this comes after them.
    Consulting(HookPoint, Next),
    /// The calls of a step are looked at before they are run.
    Vetting(Work),
    /// The driver settles which tools there are.
    Boundary,
    /// It does so before approved calls of an earlier run are started.
    TakingUp(Work),
    /// The model is being asked for a step, for the nth time.
    Asking(u32),
    /// The model is being asked for a summary of what lies before this message.
    Summarising(u64),
    /// The model is being asked for the structured output.
    Extracting(Extraction),
    /// The model will be asked again after a pause.
    Resting(Attempt),
    /// Tools are at work.
    Working(Work),
    /// It is over.
    Ended,
}

/// What comes next, once a commit is durable or hooks have agreed.
#[derive(Debug)]
pub(super) enum Next {
    /// The run begins.
    Open(Box<Opening>),
    /// A step is over and another follows.
    Step,
    Boundary,
    Ask,
    /// The model is asked for a step, for the nth time.
    Request(u32),
    /// The model's answer is taken.
    Take(Box<Taken>),
    Dispatch(Work),
    Resume(Work),
    /// Approved calls of an earlier run are started.
    TakeUp(Work),
    /// The last step is over; this follows.
    Last(Box<Self>),
    /// The answer, which is this text, is there, and its structured output is to be had.
    Extract(Box<Extraction>, String),
    /// The model is asked for it.
    RequestOutput(Box<Extraction>),
    /// What it gave for it is taken.
    TakeOutput(Box<Extraction>, Result<Value, String>),
    /// The end is committed.
    Conclude(Outcome),
    Finish(Outcome),
}

/// An answer to a step, with its calls.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) answer: Answer,
    pub(super) calls: Vec<(ToolCall, Option<String>)>,
}

impl Run {
    /// Begins a run. Its first effect is the commit of the opening, unless hooks are asked before it.
    #[must_use]
    pub fn new(
        settings: RunSettings,
        transcript: Transcript,
        progress: Progress,
        mut opening: Opening,
        now: Timestamp,
    ) -> Self {
        opening.separate(&transcript, progress.last_run, now);
        let before = progress.last_run.and_then(|run| run.spent).filter(|_| opening.goes_on);
        let before = before.unwrap_or_default();
        let mut run = Self {
            settings,
            transcript,
            progress,
            state: State::Ended,
            queue: VecDeque::new(),
            now,
            tools: Arc::default(),
            steps: before.steps,
            tool_calls: before.tool_calls + opening.answered,
            spent: before.tokens,
            spent_money: before.cost,
            warned: [0.0; 3],
            step_usage: Usage::default(),
            stop: None,
            overflowed: false,
            left_out: LeftOut::default(),
            squeezed: 0,
            refused: before.refused,
            pauses: Pauses::default(),
            last_failure: None,
            began_at: now.checked_sub(Duration::from_millis(before.elapsed_ms)).unwrap_or(now),
            asked_at: now,
            concluded: false,
            admitted: false,
        };
        let said = opening.prompt.clone();
        let tell = |told: &mut HookInvocation| told.prompt = Some(said);
        run.consult(HookPoint::RunStarted, Next::Open(Box::new(opening)), tell);
        run
    }

    /// Makes the opening durable.
    fn open(&mut self, opening: Opening) {
        let messages = opening.messages;
        let next = opening.work.map_or(Next::Boundary, Next::TakeUp);
        self.commit(messages.clone(), opening.calls, next);
        let session_id = self.settings.session_id;
        self.emit(AgentEvent::RunStarted { session_id, prompt: opening.prompt });
        self.show_images(&messages);
    }

    /// Says what to do next.
    #[expect(clippy::should_implement_trait, reason = "an iterator ends; this waits")]
    pub fn next(&mut self) -> Effect {
        self.queue.pop_front().unwrap_or(Effect::Wait)
    }

    /// Returns what the model is sent in a step, where `taken` tokens of its window are taken already.
    #[must_use]
    pub fn context(&self, taken: u64) -> Vec<Arc<Message>> {
        let context = self.transcript.context();
        let window = self.settings.compaction.and_then(|policy| policy.window);
        let room = match (window, self.squeezed) {
            (Some(window), 0) => window.saturating_sub(taken),
            (None, 0) => return context,
            (window, squeezed) => {
                let room = window.map_or(u64::MAX, |window| window.saturating_sub(taken));
                room.min(estimate(&context)) >> squeezed
            }
        };
        if self.squeezed == 0 && self.is_prompt_over(room) { context } else { fit(context, room) }
    }

    /// Says whether what the user just said does not fit by itself. That is not cut: the user would not know that the
    /// model answers something else. The provider refuses it, and in later runs it is history, which is cut.
    pub(super) fn is_prompt_over(&self, room: u64) -> bool {
        let context = self.transcript.context();
        let last = context.last().filter(|message| matches!(***message, Message::User { .. }));
        last.is_some_and(|prompt| estimate_tokens(prompt) > room)
    }

    /// Returns the transcript, uncommitted messages included.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Tells the machine what happened. What no longer matters is ignored.
    pub fn feed(&mut self, now: Timestamp, input: Input) {
        self.now = now;
        match input {
            Input::Committed(Ok(())) => self.committed(),
            Input::Committed(Err(reason)) => self.commit_failed(reason),
            Input::Tools(tools) => self.tools_settled(tools),
            Input::Answered(answer) => self.answered(answer),
            Input::Extracted { text, usage, verdict } => self.extracted(&text, usage, verdict),
            Input::Failed(error) => self.failed(&error),
            Input::Consulted(verdict) => self.consulted(verdict),
            Input::Vetted(refused) => self.vetted(refused),
            Input::Rested => self.rested(),
            Input::ToolDone { id, output, duration_ms } => self.tool_done(&id, output, duration_ms),
            Input::Stop { stop, partial } => self.stop(stop, &partial),
        }
    }

    pub(super) fn emit(&mut self, event: AgentEvent) {
        self.queue.push_back(Effect::Emit(event));
    }

    /// Commits; what is emitted afterwards is emitted only once the commit is durable.
    pub(super) fn commit(&mut self, messages: Vec<Arc<Message>>, calls: CallChange, next: Next) {
        for message in &messages {
            self.transcript.push(Arc::clone(message));
        }
        let next = self.before_end(next);
        let end = match &next {
            Next::Finish(outcome) => Some(RunEnd::from(outcome)),
            _ => None,
        };
        let ends = end.is_some();
        let spent = (end == Some(RunEnd::Pending)).then(|| self.used());
        self.progress.last_run = Some(LastRun { id: self.settings.run_id, end, spent });
        let left_out = std::mem::take(&mut self.left_out);
        let commit = Commit { messages, calls, progress: self.progress, ends, left_out };
        self.queue.push_back(Effect::Commit(Box::new(commit)));
        self.state = State::Committing(next);
    }

    pub(super) fn ask(&mut self, ask: Ask, state: State) {
        self.asked_at = self.now;
        self.queue.push_back(Effect::Ask(ask));
        self.state = state;
    }

    pub(super) fn finish(&mut self, outcome: Outcome) {
        self.commit(Vec::new(), CallChange::None, Next::Finish(outcome));
    }

    pub(super) fn fail(&mut self, class: ErrorClass, cause: TerminalCause, message: String) {
        self.finish(Outcome::Failed(Failure { class, cause, message }));
    }

    pub(super) fn completion(&self, cause: Option<TerminalCause>) -> Completion {
        let text = self.transcript.last_text().unwrap_or_default();
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

    /// Goes on.
    pub(super) fn proceed(&mut self, next: Next) {
        match next {
            Next::Open(opening) => self.open(*opening),
            Next::Step => self.consult(HookPoint::TurnBoundary, Next::Boundary, |_| {}),
            Next::Boundary => self.enter_boundary(),
            Next::Ask => self.ask_step(1),
            Next::Request(attempt) => self.ask(Ask::Step, State::Asking(attempt)),
            Next::Take(taken) => self.take(*taken),
            Next::Dispatch(work) => self.vet(work),
            Next::Resume(work) => self.resume(work),
            Next::TakeUp(work) => self.take_up(work),
            Next::Last(next) => self.consult(HookPoint::TurnBoundary, *next, |_| {}),
            Next::Extract(extraction, text) => self.begin_extraction(extraction, text),
            Next::RequestOutput(extraction) => {
                self.ask(Ask::Extract(extraction.asides.clone()), State::Extracting(*extraction));
            }
            Next::TakeOutput(extraction, verdict) => self.take_output(*extraction, verdict),
            Next::Conclude(outcome) => self.conclude_with(outcome),
            Next::Finish(outcome) => self.end(outcome),
        }
    }

    /// Ends instead of going on. What is committed as the end stays the end.
    pub(super) fn halt(&mut self, next: Next, stop: Stop) {
        match next {
            Next::Finish(outcome) => self.end(outcome),
            Next::Open(_) => {
                let outcome = self.stopped(stop);
                self.end(outcome);
            }
            Next::Dispatch(work) | Next::TakeUp(work) => self.cut_off(work, Started::No, stop),
            Next::Resume(work) => self.cut_off(work, Started::Yes, stop),
            Next::Last(next) => self.halt(*next, stop),
            Next::Extract(extraction, text) => {
                self.tell_of_answer(text);
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

    /// Nothing more can be made durable, so nothing more is done.
    fn commit_failed(&mut self, message: String) {
        if !matches!(self.state, State::Committing(_)) {
            return;
        }
        self.queue.clear();
        self.queue.push_back(Effect::Abandon);
        let failure = Failure { class: ErrorClass::Store, cause: TerminalCause::FatalFailure, message };
        self.end(Outcome::Failed(failure));
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.state = State::Ended;
        if self.admitted {
            for event in self.closing_events(&outcome) {
                self.emit(event);
            }
        }
        let (steps, tool_calls, usage) = (self.steps, self.tool_calls, self.progress.usage);
        let cost = self.settings.price.map(|_| self.progress.cost);
        self.queue.push_back(Effect::End(Box::new(Report { outcome, steps, tool_calls, usage, cost })));
    }

    /// Asks the model for the step, if a budget leaves room for it.
    pub(super) fn ask_step(&mut self, attempt: u32) {
        if self.is_spent() {
            let done = self.completion(Some(TerminalCause::BudgetExhausted));
            return self.finish(Outcome::Completed(done));
        }
        match attempt {
            1 => self.consult(HookPoint::PreLlmRequest, Next::Request(attempt), |_| {}),
            _ => self.ask(Ask::Step, State::Asking(attempt)),
        }
    }

    pub(super) fn enter_boundary(&mut self) {
        if self.is_spent() {
            let done = self.completion(Some(TerminalCause::BudgetExhausted));
            return self.finish(Outcome::Completed(done));
        }
        if self.calls_left() == 0 {
            let message = format!("the run reached its limit of {} steps", self.settings.max_steps);
            return self.fail(ErrorClass::MaxTurns, TerminalCause::TurnLimitReached, message);
        }
        self.queue.push_back(Effect::Boundary(Vec::new()));
        self.state = State::Boundary;
    }

    pub(super) fn tools_settled(&mut self, tools: Arc<ToolTable>) {
        match std::mem::replace(&mut self.state, State::Boundary) {
            State::Boundary => {}
            State::TakingUp(work) => {
                self.tools = tools;
                return self.dispatch_approved(work);
            }
            other => return self.state = other,
        }
        self.tools = tools;
        self.emit(AgentEvent::TurnStarted { turn_number: self.steps });
        match self.compaction_due() {
            Some(kept_from) => self.summarise(kept_from),
            None => self.ask_step(1),
        }
    }

    pub(super) fn answered(&mut self, answer: Answer) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Asking(attempt) => self.step_answered(answer, attempt),
            State::Summarising(kept_from) => self.summarised(&answer, kept_from),
            other => self.state = other,
        }
    }

    pub(super) fn step_answered(&mut self, answer: Answer, attempt: u32) {
        let Answer { mut blocks, stop_reason, extent, usage } = answer;
        self.last_failure = None;
        self.count(usage);
        self.step_usage = usage;
        self.progress.last_input_tokens = usage.input_tokens
            + usage.cache_read_tokens.unwrap_or(0)
            + usage.cache_creation_tokens.unwrap_or(0);
        let calls = tidy(&mut blocks, self.progress.steps);
        if !has_content(&blocks) {
            return self.step_failed(
                &ModelError {
                    kind: ModelErrorKind::Incomplete,
                    provider: self.settings.provider,
                    status: None,
                    retry_after: None,
                    message: "the model's answer was empty".to_owned(),
                },
                attempt,
            );
        }
        let answer = Answer { blocks, stop_reason, extent, usage };
        let told = Told::of(self.settings.hooks, &answer);
        let next = Next::Take(Box::new(Taken { answer, calls }));
        self.consult(HookPoint::PostLlmResponse, next, |invocation| told.fill(invocation));
    }

    /// Makes an answer a part of the session.
    pub(super) fn take(&mut self, Taken { answer, calls }: Taken) {
        let Answer { blocks, stop_reason, extent, usage } = answer;
        self.count_step();
        self.overflowed = false;
        self.announce(&blocks);
        let message = Arc::new(Message::Assistant { blocks, stop_reason, created_at: self.now });
        let ended = AgentEvent::TurnCompleted { stop_reason, usage };
        if calls.is_empty() {
            return self.say(message, extent, ended);
        }
        self.pauses = Pauses::default();
        let allowed = if self.is_spent() { 0 } else { self.tool_calls_left() };
        self.refused = calls.len() > allowed as usize;
        let work = Work::plan(calls, &self.tools, allowed);
        let open = CallChange::Open(work.intents());
        self.commit(vec![message], open, Next::Dispatch(work));
    }

    /// The model has said its last word of the run.
    pub(super) fn conclude(&mut self, message: Arc<Message>, text: String, ended: AgentEvent) {
        let next = match self.settings.extraction_retries {
            None => {
                let done = Completion { text, ..Completion::default() };
                Next::Finish(Outcome::Completed(done))
            }
            Some(_) => {
                let own_prompt = self.settings.extraction_prompt.as_deref();
                Next::Extract(Box::new(Extraction::begin(own_prompt, self.now)), text)
            }
        };
        let next = self.after_last_step(next);
        self.commit(vec![message], CallChange::None, next);
        self.emit(ended);
    }
}

/// Whether there is anything for the user or the runtime in an answer, besides its reasoning.
fn has_content(blocks: &[AssistantBlock]) -> bool {
    blocks.iter().any(|block| !matches!(block, AssistantBlock::Reasoning { .. }))
}
