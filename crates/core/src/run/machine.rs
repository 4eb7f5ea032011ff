//! The run and its transitions: which state follows on which input.

use std::sync::Arc;
use std::time::Duration;

use super::effect::{CallChange, Effect, Effects, Input, LastRun, ModelTask, Progress, Stop, ToolTable};
use super::events::image_events;
use super::ledger::Ledger;
use super::meter::Meter;
use super::model_calls::ModelCalls;
use super::opening::Opening;
use super::outcome::{Outcome, RunEnd};
use super::pause::Pauses;
use super::settings::RunSettings;
use super::states::{Next, Phase, State};
use super::window::ContextWindow;
use crate::{AgentEvent, Content, HookInvocation, HookPoint, Message, Timestamp, Transcript, Usage};

/// The first events of a run. The prompt, which may be long, is copied into its event only when it is emitted.
#[derive(Debug)]
pub(super) struct StartEvents {
    prompt: Arc<Message>,
    images: Vec<AgentEvent>,
}

/// One run of a session.
#[derive(Debug)]
pub struct Run {
    pub(super) settings: RunSettings,
    pub(super) phase: Phase,
    /// The events to emit once the opening is durable.
    pub(super) start: Option<Box<StartEvents>>,
    pub(super) state: State,
    pub(super) effects: Effects,
    pub(super) ledger: Ledger,
    pub(super) meter: Meter,
    pub(super) window: ContextWindow,
    pub(super) model_calls: ModelCalls,
    pub(super) pauses: Pauses,
    pub(super) tools: Arc<ToolTable>,
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
            phase: Phase::Opening,
            start: None,
            state: State::Ended,
            effects: Effects::new(now),
            ledger: Ledger::new(transcript, progress),
            meter: Meter::new(&settings, used, now),
            window: ContextWindow::new(&settings),
            model_calls: ModelCalls::new(&settings, now),
            pauses: Pauses::default(),
            tools: Arc::default(),
            settings,
        };
        let has_hooks = run.settings.hooks.has(HookPoint::RunStarted);
        let prompt = has_hooks.then(|| content(&opening.prompt));
        let add_prompt = |invocation: &mut HookInvocation| invocation.prompt = prompt;
        run.run_hooks(HookPoint::RunStarted, Next::Open(opening), add_prompt);
        run
    }

    /// Returns the next effect.
    #[expect(clippy::should_implement_trait, reason = "an iterator ends; this waits")]
    pub fn next(&mut self) -> Effect {
        self.effects.next()
    }

    /// Returns the context of a step, fitted to the model's window without the `reserved` tokens.
    #[must_use]
    pub fn context(&self, reserved: u64) -> Vec<Arc<Message>> {
        self.window.context(&self.ledger, reserved)
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
        match (std::mem::replace(&mut self.state, State::Ended), input) {
            (State::Committing { next, stop }, Input::Committed(Ok(()))) => self.committed(next, stop),
            (State::Committing { .. }, Input::Committed(Err(reason))) => self.commit_failed(reason),
            (
                State::Committing { next: Next::Resume(mut calls), stop },
                Input::ToolDone { id, output, duration_ms },
            ) => {
                self.effects.emit_all(calls.finish(&id, output, duration_ms));
                self.state = State::Committing { next: Next::Resume(calls), stop };
            }
            (State::Working(mut calls), Input::ToolDone { id, output, duration_ms }) => {
                match calls.finish(&id, output, duration_ms) {
                    Some(event) => self.call_finished(calls, event),
                    None => self.state = State::Working(calls),
                }
            }
            (State::RunningHooks(next), Input::HooksFinished(Ok(()))) => self.proceed(next),
            (State::RunningHooks(next), Input::HooksFinished(Err(denial))) => self.denied(&denial, next),
            (State::BackingOff(next), Input::SleepElapsed) => self.proceed(next),
            (State::CheckingCalls(calls), Input::CallsChecked(denied)) => self.calls_checked(calls, denied),
            (State::Boundary, Input::Tools(tools)) => self.start_step(tools),
            (State::ResumingApproved(calls), Input::Tools(tools)) => self.dispatch_approved(calls, tools),
            (State::Asking(attempt), Input::ModelResponded(answer)) => self.step_responded(answer, attempt),
            (State::Asking(attempt), Input::Failed(error)) => self.step_failed(&error, attempt),
            (State::Summarizing(cut), Input::ModelResponded(answer)) => self.summarized(&answer, cut),
            (State::Summarizing(cut), Input::Failed(error)) => self.summary_failed(error.to_string(), cut),
            (State::Extracting(extraction), Input::Extracted { text, usage, verdict }) => {
                self.extracted(extraction, text, usage, verdict);
            }
            (State::Extracting(extraction), Input::Failed(error)) => {
                self.extraction_failed(&error, extraction)
            }
            (state, Input::Stop { stop, partial }) => self.stop(state, stop, &partial),
            (state, _) => self.state = state,
        }
    }

    /// Continues once a commit is durable, unless the run must stop.
    fn committed(&mut self, next: Next, stop: Option<Stop>) {
        if let Some(start) = self.start.take() {
            self.phase = Phase::Running;
            let (session_id, prompt) = (self.settings.session_id, content(&start.prompt));
            self.effects.emit(AgentEvent::RunStarted { session_id, prompt });
            self.effects.emit_all(start.images);
        }
        match stop {
            Some(stop) => self.halt(next, stop, ""),
            None => self.proceed(next),
        }
    }

    /// Continues with the next transition.
    pub(super) fn proceed(&mut self, next: Next) {
        match next {
            Next::Open(opening) => self.open(opening),
            Next::EndStep(next) => self.run_hooks(HookPoint::TurnBoundary, *next, |_| {}),
            Next::Boundary => self.enter_boundary(),
            Next::Ask(attempt) => self.call_model_for_step(attempt),
            Next::Request => self.call_model(ModelTask::Step, State::Asking(1)),
            Next::Take(response, calls) => self.take(response, calls),
            Next::Dispatch(calls) => self.check_calls(calls),
            Next::Resume(calls) => self.resume(calls),
            Next::ResumeApproved(calls) => self.resume_approved(calls),
            Next::Extract(..) | Next::Conclude(_) if self.has_final_hooks() => {
                self.phase = Phase::Concluded;
                self.run_hooks(HookPoint::RunCompleted, next, |_| {});
            }
            Next::Extract(extraction, text) => {
                self.emit_answer(text);
                self.extract(extraction);
            }
            Next::AskOutput(extraction) => self.extract(extraction),
            Next::RequestOutput(extraction) => {
                let task = ModelTask::Extract(extraction.messages().to_vec());
                self.call_model(task, State::Extracting(extraction));
            }
            Next::TakeOutput(extraction, verdict) => self.take_output(extraction, verdict),
            Next::Conclude(outcome) => self.finish(outcome),
            Next::Finish(outcome) => self.end(outcome),
        }
    }

    /// Commits the opening.
    fn open(&mut self, opening: Opening) {
        let Opening { messages, calls, prompt, work, .. } = opening;
        self.start = Some(Box::new(StartEvents { prompt, images: image_events(&messages).collect() }));
        self.commit(messages, calls, work.map_or(Next::Boundary, Next::ResumeApproved));
    }

    /// Queues a commit; events emitted afterwards are emitted only once it is durable.
    pub(super) fn commit(&mut self, messages: Vec<Arc<Message>>, calls: CallChange, next: Next) {
        let next = match next {
            Next::Finish(outcome @ Outcome::Completed(_)) if self.has_final_hooks() => {
                Next::Conclude(outcome)
            }
            next => next,
        };
        let end = match &next {
            Next::Finish(outcome) => Some(RunEnd::from(outcome)),
            _ => None,
        };
        let spent = (end == Some(RunEnd::Pending)).then(|| self.meter.used(self.effects.now()));
        let last_run = LastRun { id: self.settings.run_id, end, spent };
        let commit = self.ledger.commit(messages, calls, last_run);
        self.effects.push(Effect::Commit(Box::new(commit)));
        self.state = State::Committing { next, stop: None };
    }

    /// Runs the hooks of a point before continuing with `next`.
    pub(super) fn run_hooks(&mut self, point: HookPoint, next: Next, fill: impl FnOnce(&mut HookInvocation)) {
        if !self.settings.hooks.has(point) {
            return self.proceed(next);
        }
        let mut invocation = HookInvocation::new(point, self.settings.session_id);
        if !matches!(point, HookPoint::RunStarted | HookPoint::RunCompleted) {
            invocation.turn_number = Some(self.meter.steps());
        }
        fill(&mut invocation);
        self.effects.push(Effect::RunHooks(Box::new(invocation)));
        self.state = State::RunningHooks(next);
    }

    /// Returns `true` if the hooks of a successful run are still to be called.
    fn has_final_hooks(&self) -> bool {
        self.phase != Phase::Concluded && self.settings.hooks.has(HookPoint::RunCompleted)
    }

    pub(super) fn call_model(&mut self, task: ModelTask, state: State) {
        self.model_calls.start(task, &mut self.effects);
        self.state = state;
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
}

/// Returns the content of a user message.
fn content(message: &Message) -> Content {
    match message {
        Message::User { content, .. } => content.clone(),
        _ => Content::default(),
    }
}
