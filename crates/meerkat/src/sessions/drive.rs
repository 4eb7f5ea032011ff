//! Drives a run: performs the effects of the state machine and feeds their results back. One task owns one run.

use std::sync::Arc;

use meerkat_core::run::{Effect, Failure, Input, Outcome, Run, RunReport};
use meerkat_core::{
    AgentEvent, Clock, ErrorClass, ErrorReport, HookError, HookInvocation, HookPoint, Invocation, SessionId,
    TerminalCause, ToolCall,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::commit::{Journal, is_store_failure};
use super::drive_result::DriveResult;
use super::in_flight::InFlight;
use super::model_call::ModelCalls;
use super::plan::{Planner, RunParts, RunPlan};
use super::spans::RunTrace;
use super::step_timer::StepTimer;
use super::step_tools::StepTools;
use super::stop_signals::StopSignals;
use crate::Error;
use crate::events::Emitter;
use crate::hooks::RunHooks;

/// The driver of one run.
pub(super) struct Driver {
    clock: Arc<dyn Clock>,
    run: Run,
    journal: Journal,
    calls: ModelCalls,
    tools: StepTools,
    hooks: Option<Arc<RunHooks>>,
    emitter: Arc<Emitter>,
    flight: InFlight,
    stops: StopSignals,
    trace: RunTrace,
    /// Events emitted right after the run's first event.
    initial_events: Vec<AgentEvent>,
    /// Notified when the opening is durable.
    admitted: Option<oneshot::Sender<()>>,
    _slot: super::active::RunSlot,
}

impl Driver {
    pub(super) fn new(
        planner: &Planner,
        plan: RunPlan,
        parts: RunParts,
        interrupt: CancellationToken,
    ) -> Self {
        let RunParts { config, model, sources, index, hooks, validator, emitter, trace, _slot } = parts;
        let (store, clock) = (Arc::clone(&planner.store), Arc::clone(&planner.clock));
        let run_id = plan.settings.run_id;
        let run = Run::new(plan.settings, plan.transcript, plan.progress, plan.opening, clock.now());
        Self {
            flight: InFlight::new(Arc::clone(&emitter), Arc::clone(&store), config.tools.max_concurrent),
            stops: StopSignals::new(interrupt.clone(), run.time_left(), &clock),
            journal: Journal {
                store,
                clock: Arc::clone(&clock),
                active: planner.active.clone(),
                session: plan.session,
                run_id,
                interrupt,
                admission: Some(plan.admission),
                index,
                lease: None,
            },
            calls: ModelCalls { model, request: plan.request, validator },
            tools: StepTools {
                clock: Arc::clone(&clock),
                config,
                emitter: Arc::clone(&emitter),
                plan: plan.tools,
                sources,
                available: Default::default(),
                job_notices: Vec::new(),
                resumed_approved: false,
            },
            hooks,
            emitter,
            trace,
            initial_events: plan.events,
            admitted: None,
            run,
            clock,
            _slot,
        }
    }

    /// Returns a receiver that is notified when the opening is durable.
    pub(super) fn admission(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.admitted = Some(sender);
        receiver
    }

    /// Drives the run to its end.
    pub(super) async fn drive(mut self) -> DriveResult {
        let mut store_error: Option<Error> = None;
        loop {
            let input = match self.run.next() {
                Effect::Emit(event) => {
                    self.emit(event);
                    continue;
                }
                Effect::Commit(commit) => {
                    let stored = self.journal.commit(&commit).await;
                    self.report_admission();
                    Input::Committed(stored.map_err(|error| store_error.insert(error.into()).to_string()))
                }
                Effect::Boundary(required) => {
                    let stop = self.tools.collect(&required, &mut self.stops).await;
                    self.calls.request.tools = self.tools.definitions();
                    if let Some(stop) = stop {
                        self.run.feed(self.clock.now(), Input::stop(stop));
                    }
                    Input::Tools(Arc::new(self.tools.table()))
                }
                Effect::CallModel(task) => {
                    let call = self.calls.prepare(task, &self.run, &self.tools);
                    let span = self.trace.chat(&call);
                    let timer = StepTimer::start(self.journal.session, self.journal.run_id);
                    self.flight.start_model_call(call, span, timer);
                    continue;
                }
                Effect::Start(calls) => {
                    calls.into_iter().for_each(|call| self.start_tool(call));
                    continue;
                }
                Effect::RunHooks(invocation) => {
                    self.start_hooks(*invocation);
                    continue;
                }
                Effect::CheckCalls(calls) => {
                    self.start_call_checks(calls);
                    continue;
                }
                Effect::Sleep(pause) => {
                    let clock = Arc::clone(&self.clock);
                    self.flight.start_sleep(Box::pin(async move { clock.sleep(pause).await }));
                    continue;
                }
                Effect::CancelAll => {
                    self.flight.cancel_all();
                    continue;
                }
                Effect::Stop(stop) => Input::Stop { stop, partial: self.flight.streamed() },
                // A stop is delivered even if every result is available at once.
                Effect::Wait => tokio::select! {
                    biased;
                    stop = self.stops.next() => Input::Stop { stop, partial: self.flight.streamed() },
                    input = self.flight.next() => input,
                },
                Effect::End(report) => {
                    self.journal.release_lease(&report).await;
                    let is_admitted = self.journal.lease.is_some();
                    if is_admitted {
                        run_failure_hooks(self.hooks.clone(), self.journal.session, &report.outcome).await;
                    }
                    return drive_result(*report, store_error, is_admitted);
                }
            };
            // Models and stores that never wait must not keep other tasks from running.
            tokio::task::yield_now().await;
            // Deliver a stop that arrived during a commit before the next effect starts.
            if matches!(input, Input::Committed(Ok(())))
                && let Some(stop) = self.stops.due(self.clock.now())
            {
                self.run.feed(self.clock.now(), Input::stop(stop));
            }
            self.run.feed(self.clock.now(), input);
        }
    }

    fn emit(&mut self, event: AgentEvent) {
        let is_start = matches!(event, AgentEvent::RunStarted { .. });
        self.emitter.emit(event);
        if is_start {
            self.initial_events.drain(..).for_each(|event| self.emitter.emit(event));
        }
    }

    /// Notifies the caller once the opening is durable.
    fn report_admission(&mut self) {
        if let Some(admitted) = self.admitted.take_if(|_| self.journal.lease.is_some()) {
            // The caller may have been dropped.
            let _ = admitted.send(());
        }
    }

    /// Starts the hooks of a hook point.
    fn start_hooks(&mut self, mut invocation: HookInvocation) {
        if invocation.point == HookPoint::PreLlmRequest {
            invocation.llm_request = Some(self.calls.for_hooks(&self.run));
        }
        let hooks = self.hooks.clone();
        self.flight.start_hooks(Box::pin(async move {
            Input::HooksFinished(match hooks {
                Some(hooks) => hooks.call_hooks(&invocation).await,
                None => Ok(()),
            })
        }));
    }

    /// Starts the hooks that decide which calls may run.
    fn start_call_checks(&mut self, calls: Vec<ToolCall>) {
        let (hooks, session) = (self.hooks.clone(), self.journal.session);
        self.flight.start_hooks(Box::pin(async move {
            Input::CallsChecked(match hooks {
                Some(hooks) => hooks.check_calls(session, calls).await,
                None => Vec::new(),
            })
        }));
    }

    fn start_tool(&mut self, call: ToolCall) {
        let tool = self.tools.available.get(&call.name).cloned();
        let timeout = self.tools.config.tools.timeout(&call.name);
        let (span, trace) = self.trace.tool(&call);
        let (session_id, run_id) = (self.journal.session, self.journal.run_id);
        let invocation = Invocation { session_id, run_id, call, trace };
        self.flight.start((tool, span), invocation, timeout, self.hooks.clone());
    }
}

/// Runs the hooks for a failed run. They cannot change the outcome.
async fn run_failure_hooks(hooks: Option<Arc<RunHooks>>, session: SessionId, outcome: &Outcome) {
    let Some(hooks) = hooks.filter(|hooks| hooks.points().has(HookPoint::RunFailed)) else { return };
    let (class, message) = match outcome {
        Outcome::Failed(failure) => (failure.class, failure.message.clone()),
        Outcome::Cancelled => (ErrorClass::Cancelled, "the run was interrupted".to_owned()),
        Outcome::Completed(_) | Outcome::Pending(_) => return,
    };
    let mut invocation = HookInvocation::new(HookPoint::RunFailed, session);
    let error_report = ErrorReport { class, reason: None, message: message.clone() };
    invocation.error = Some(HookError { error: message, error_class: class, error_report });
    let _ = hooks.call_hooks(&invocation).await;
}

fn drive_result(report: RunReport, store_error: Option<Error>, admitted: bool) -> DriveResult {
    match store_error.filter(|_| is_store_failure(&report)) {
        Some(error) if admitted => DriveResult::NotPersisted(error),
        Some(error) => DriveResult::Rejected(error),
        None if !admitted => DriveResult::Rejected(admission_error(report.outcome)),
        None => DriveResult::Ended(report),
    }
}

/// Returns why a run ended before anything was durable.
fn admission_error(outcome: Outcome) -> Error {
    match outcome {
        Outcome::Failed(failure) => Error::Rejected(failure),
        Outcome::Cancelled => Error::RequestCancelled,
        Outcome::Completed(_) | Outcome::Pending(_) => Error::Rejected(Failure {
            class: ErrorClass::Budget,
            cause: TerminalCause::BudgetExhausted,
            message: "the run's time limit elapsed before it started".to_owned(),
        }),
    }
}
