//! The driver of a run: carries out the state machine's effects and feeds their results back.
//!
//! One task owns one run. Everything durable goes through [`Driver::commit`], fenced by the run's lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::run::{
    CallChange, CallIntent, Commit, Effect, Failure, Input, ModelTask, Outcome, Run, RunReport, Stop,
    ToolTable,
};
use meerkat_core::{
    AgentEvent, ApprovalPolicy, CompletedCall, ErrorClass, ErrorReport, HookError, HookInvocation, HookPoint,
    HookRequest, Invocation, Message, Model, ModelRequest, NoticeKind, RunId, SessionId, TerminalCause, Tool,
    ToolCall, ToolDef, ToolRoute, ToolSource,
};
use meerkat_store::{Change, Guard, NewCall, Transaction};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::active::{ActiveRun, LEASE_DURATION, RunSlot, saturating_add};
use super::events::Emitter;
use super::in_flight::{InFlight, MediaMode, ModelCall, Streaming};
use super::options::ToolOverlay;
use super::record::encode;
use super::spans::RunTrace;
use super::stop_signals::StopSignals;
use crate::Error;
use crate::config::{CallTimeout, Config};
use crate::features::RunMemory;
use crate::hooks::RunHooks;
use crate::params;
use crate::runtime::Shared;
use crate::structured::OutputValidator;

/// Time an approved call waits for its tool's server to finish connecting.
const TOOL_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks for that tool.
const TOOL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Everything a run needs in addition to the state machine.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) session: SessionId,
    pub(super) run_id: RunId,
    pub(super) config: Config,
    pub(super) model: Arc<dyn Model>,
    pub(super) request: ModelRequest,
    pub(super) validator: Option<OutputValidator>,
    /// Tool sources of this run, in addition to those shared by all runs.
    pub(super) own_sources: Vec<Arc<dyn ToolSource>>,
    /// Events emitted right after the run's first event.
    pub(super) initial_events: Vec<AgentEvent>,
    pub(super) client_tools: Vec<(ToolDef, Option<ToolRoute>)>,
    pub(super) overlay: ToolOverlay,
    /// The approval policy for calls.
    pub(super) approvals: ApprovalPolicy,
    pub(super) emitter: Arc<Emitter>,
    /// The run's memory, if enabled.
    pub(super) memory: Option<RunMemory>,
    /// The run's hooks, if it has any.
    pub(super) hooks: Option<Arc<RunHooks>>,
    pub(super) interrupt: CancellationToken,
    /// Guards and changes to add to the first commit; taken when it is built.
    pub(super) admission: Option<Transaction>,
    /// Notices for the model about background jobs that finished before this step.
    pub(super) job_notices: Vec<String>,
    /// Whether the current step started with approved calls, before a model call.
    pub(super) resumed_approved: bool,
    /// The run's span.
    pub(super) trace: RunTrace,
    /// The run's slot within the process-wide limit.
    pub(super) _slot: RunSlot,
}

/// Result of driving a run.
pub(super) enum DriveResult {
    /// The run ended with a report.
    Ended(RunReport),
    /// The run failed before anything was durable.
    Rejected(Error),
    /// The run stopped midway because it could not be stored.
    NotPersisted(Error),
}

struct Lease {
    fence: u64,
    _live: ActiveRun,
}

impl Driver {
    pub(super) async fn drive(mut self, mut run: Run) -> DriveResult {
        let store = Arc::clone(&self.shared.store);
        let mut flight = InFlight::new(Arc::clone(&self.emitter), store, self.config.tools.max_concurrent);
        let mut tools: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
        let mut lease: Option<Lease> = None;
        let mut store_error: Option<Error> = None;
        let clock = Arc::clone(&self.shared.clock);
        let mut stops = StopSignals::new(self.interrupt.clone(), run.time_left(), &clock);
        loop {
            let input = match run.next() {
                Effect::Emit(event) => {
                    let is_start = matches!(event, AgentEvent::RunStarted { .. });
                    self.emitter.emit(event);
                    if is_start {
                        self.initial_events.drain(..).for_each(|event| self.emitter.emit(event));
                    }
                    continue;
                }
                Effect::Commit(commit) => {
                    let stored = self.commit(&commit, &mut lease).await;
                    Input::Committed(stored.map_err(|error| store_error.insert(error).to_string()))
                }
                Effect::Boundary(required) => {
                    let stop;
                    (tools, stop) = self.collect_tools_for(&required, &mut stops).await;
                    if let Some(stop) = stop {
                        run.feed(clock.now(), Input::stop(stop));
                    }
                    Input::Tools(Arc::new(self.table(&tools)))
                }
                Effect::CallModel(ask) => {
                    let call = self.model_call(ask, &run);
                    let span = self.trace.chat(&call);
                    flight.start_model_call(call, span);
                    continue;
                }
                Effect::Start(calls) => {
                    self.start(calls, &tools, &mut flight);
                    continue;
                }
                Effect::RunHooks(invocation) => {
                    self.start_hooks(*invocation, &run, &mut flight);
                    continue;
                }
                Effect::CheckCalls(calls) => {
                    self.start_call_checks(calls, &mut flight);
                    continue;
                }
                Effect::Sleep(pause) => {
                    let clock = Arc::clone(&clock);
                    flight.start_sleep(Box::pin(async move { clock.sleep(pause).await }));
                    continue;
                }
                Effect::CancelAll => {
                    flight.cancel_all();
                    continue;
                }
                Effect::Wait => tokio::select! {
                    input = flight.next() => input,
                    stop = stops.next() => Input::Stop { stop, partial: flight.streamed() },
                },
                Effect::End(report) => {
                    self.release_lease(&report, lease.as_ref()).await;
                    if lease.is_some() {
                        self.run_failure_hooks(&report.outcome).await;
                    }
                    return drive_result(*report, store_error, lease.is_some());
                }
            };
            // Deliver a stop that arrived during a commit before the next effect starts.
            if matches!(input, Input::Committed(Ok(())))
                && let Some(stop) = stops.due(clock.now())
            {
                run.feed(clock.now(), Input::stop(stop));
            }
            run.feed(clock.now(), input);
        }
    }

    /// Stores a commit. The first one also admits the run: it takes the lease and creates the session if it
    /// is new.
    async fn commit(&mut self, commit: &Commit, lease: &mut Option<Lease>) -> Result<(), Error> {
        let transaction = self.transaction(commit, lease.as_ref())?;
        let done = self.shared.store.commit(transaction).await?;
        if let Some(fence) = done.fence {
            let live = self.shared.live.add(self.session, self.run_id, self.interrupt.clone());
            *lease = Some(Lease { fence, _live: live });
        }
        Ok(())
    }

    fn transaction(&mut self, commit: &Commit, lease: Option<&Lease>) -> Result<Transaction, Error> {
        let session = self.session;
        let now = self.shared.clock.now();
        let mut transaction = self.admission.take().unwrap_or_default();
        match lease {
            Some(lease) => transaction.guards.push(Guard::HoldsLease { session, fence: lease.fence }),
            None => transaction.changes.push(Change::TakeLease {
                session,
                run: self.run_id,
                expires_at: saturating_add(now, LEASE_DURATION),
            }),
        }
        if !commit.messages.is_empty() {
            let messages = commit.messages.iter().map(|message| encode(&**message));
            let messages = messages.collect::<Result<_, _>>()?;
            transaction.changes.push(Change::Append { session, messages, at: now });
        }
        transaction.changes.extend(call_changes(session, &commit.calls)?);
        if let Some(memory) = &self.memory {
            transaction.changes.extend(memory.changes(session, &commit.compacted, now));
        }
        transaction.changes.push(Change::PutProgress { session, progress: encode(&commit.progress)? });
        if commit.ends {
            transaction.changes.push(Change::ReleaseLease(session));
        }
        Ok(transaction)
    }

    /// Releases the lease if the end of the run could not be stored. If that fails, the lease expires.
    async fn release_lease(&self, report: &RunReport, lease: Option<&Lease>) {
        let Some(lease) = lease.filter(|_| is_store_failure(report)) else {
            return;
        };
        let guards = vec![Guard::HoldsLease { session: self.session, fence: lease.fence }];
        let changes = vec![Change::ReleaseLease(self.session)];
        let _ = self.shared.store.commit(Transaction { guards, changes }).await;
    }

    fn sources(&self) -> impl Iterator<Item = &Arc<dyn ToolSource>> {
        self.shared.sources.iter().chain(&self.own_sources)
    }

    /// Lets sources apply their deferred changes, and emits events for them.
    fn apply_source_changes(&mut self) {
        for change in self.sources().flat_map(|source| source.apply_changes()) {
            self.emitter.emit(AgentEvent::ToolConfigChanged { payload: change });
        }
        let finished: Vec<_> = self.sources().flat_map(|source| source.take_finished_jobs()).collect();
        self.job_notices.extend(finished.into_iter().map(|job| self.emitter.report_finished_job(job)));
    }

    /// Returns the messages for the model in a step: the conversation, tools that are still pending, and finished
    /// background jobs. The notices apply to one step only, so they are not part of the conversation.
    fn step_messages(&self, run: &Run) -> Vec<Arc<Message>> {
        let mut messages = run.context(self.reserved_tokens());
        let created_at = self.shared.clock.now();
        for body in self.sources().filter_map(|source| source.notice()) {
            messages.push(Arc::new(Message::SystemNotice { kind: NoticeKind::McpPending, body, created_at }));
        }
        for body in self.job_notices.iter().cloned() {
            messages.push(Arc::new(Message::SystemNotice {
                kind: NoticeKind::BackgroundJob,
                body,
                created_at,
            }));
        }
        messages
    }

    /// Estimates the tokens of the context window reserved for everything except the conversation: the system prompt,
    /// the tools, and the response.
    fn reserved_tokens(&self) -> u64 {
        let tools: usize = self
            .request
            .tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len())
            .sum();
        let fixed = (self.request.system.len() + tools) as u64 / 4;
        let window = self.model.info().context_window.unwrap_or(u64::MAX);
        fixed + u64::from(self.request.max_tokens).min(window / 4)
    }

    /// Collects the tools for the next step, and waits briefly for required ones whose servers are still connecting.
    async fn collect_tools_for(
        &mut self,
        required: &[String],
        stops: &mut StopSignals,
    ) -> (BTreeMap<String, Arc<dyn Tool>>, Option<Stop>) {
        let clock = Arc::clone(&self.shared.clock);
        let end = saturating_add(clock.now(), TOOL_TIMEOUT);
        // Job notices before a step without a model call are kept for the next step with one.
        if !self.resumed_approved {
            self.job_notices.clear();
        }
        self.resumed_approved = !required.is_empty();
        loop {
            self.apply_source_changes();
            let tools = self.collect_tools();
            let is_missing = required.iter().any(|name| !tools.contains_key(name));
            let is_coming = self.sources().any(|source| source.notice().is_some());
            if !is_missing || !is_coming || clock.now() > end {
                return (tools, None);
            }
            tokio::select! {
                stop = stops.next() => return (tools, Some(stop)),
                () = clock.sleep(TOOL_POLL_INTERVAL) => {}
            }
        }
    }

    /// Collects the tools for the next step. A caller's tool takes precedence over a source's tool of the same name.
    fn collect_tools(&mut self) -> BTreeMap<String, Arc<dyn Tool>> {
        let mut tools = BTreeMap::new();
        for tool in self.sources().flat_map(|source| source.tools()) {
            tools.entry(tool.def().name.clone()).or_insert(tool);
        }
        for (def, _) in &self.client_tools {
            tools.remove(&def.name);
        }
        tools.retain(|name, _| self.overlay.allows(name));
        let caller_tools =
            self.client_tools.iter().map(|(def, _)| def.clone()).filter(|def| self.overlay.allows(&def.name));
        self.request.tools = caller_tools.chain(tools.values().map(|tool| tool.def().clone())).collect();
        tools
    }

    fn table(&self, tools: &BTreeMap<String, Arc<dyn Tool>>) -> ToolTable {
        let caller_tools = self.client_tools.iter().filter(|(def, _)| self.overlay.allows(&def.name));
        let caller_tools =
            caller_tools.filter_map(|(def, route)| route.map(|route| (def.name.clone(), route)));
        let route = |(name, tool): (&String, &Arc<dyn Tool>)| {
            let asks = self.config.approvals.requires_approval(self.approvals, name, tool.impact());
            (name.clone(), if asks { ToolRoute::Approval } else { ToolRoute::Local })
        };
        tools.iter().map(route).chain(caller_tools).collect()
    }

    /// Returns the timeout of one model call.
    fn call_timeout(&self) -> Duration {
        const DEFAULT: Duration = Duration::from_secs(600);
        const FOREVER: Duration = Duration::from_secs(30 * 24 * 3600);
        match self.config.retry.call_timeout {
            Some(CallTimeout::Disabled) => FOREVER,
            Some(CallTimeout::After(span)) => span.0,
            None => self.model.info().call_timeout.unwrap_or(DEFAULT),
        }
    }

    fn model_call(&self, ask: ModelTask, run: &Run) -> ModelCall {
        let timeout = self.call_timeout();
        let mut request = self.request.clone();
        let mut validator = None;
        let audience = if matches!(ask, ModelTask::Step) { Streaming::On } else { Streaming::Off };
        // A summary is based on the text about images, not on the images.
        let media = if matches!(ask, ModelTask::Summarize { .. }) {
            MediaMode::Placeholder
        } else {
            MediaMode::Inline
        };
        match ask {
            ModelTask::Step => request.messages = self.step_messages(run),
            ModelTask::Extract(prompts) => {
                request.messages = run.context(self.reserved_tokens());
                request.messages.extend(prompts);
                request.tools = Arc::default();
                request.temperature = Some(0.0);
                request.provider_params = without_tools(request.provider_params);
                request.output_schema = self.validator.as_ref().map(OutputValidator::schema);
                validator.clone_from(&self.validator);
            }
            ModelTask::Summarize { messages, max_tokens } => {
                request.messages = messages;
                request.tools = Arc::default();
                request.max_tokens = max_tokens;
                request.provider_params = without_tools(request.provider_params);
            }
        }
        ModelCall { model: Arc::clone(&self.model), request, timeout, audience, media, validator }
    }

    /// Starts the hooks of a hook point.
    fn start_hooks(&self, mut invocation: HookInvocation, run: &Run, flight: &mut InFlight) {
        if invocation.point == HookPoint::PreLlmRequest {
            invocation.llm_request = Some(HookRequest {
                max_tokens: self.request.max_tokens,
                temperature: self.request.temperature,
                provider_params: self.request.provider_params.as_deref().cloned(),
                message_count: run.transcript().context().len() as u64,
            });
        }
        let hooks = self.hooks.clone();
        flight.start_hooks(Box::pin(async move {
            Input::HooksFinished(match hooks {
                Some(hooks) => hooks.call_hooks(&invocation).await,
                None => Ok(()),
            })
        }));
    }

    /// Starts the hooks that decide which calls may run.
    fn start_call_checks(&self, calls: Vec<ToolCall>, flight: &mut InFlight) {
        let (hooks, session) = (self.hooks.clone(), self.session);
        flight.start_hooks(Box::pin(async move {
            Input::CallsChecked(match hooks {
                Some(hooks) => hooks.check_calls(session, calls).await,
                None => Vec::new(),
            })
        }));
    }

    /// Runs the hooks for a failed run. They cannot change the outcome.
    async fn run_failure_hooks(&self, outcome: &Outcome) {
        let Some(hooks) = self.hooks.as_ref().filter(|hooks| hooks.points().has(HookPoint::RunFailed)) else {
            return;
        };
        let (class, message) = match outcome {
            Outcome::Failed(failure) => (failure.class, failure.message.clone()),
            Outcome::Cancelled => (ErrorClass::Cancelled, "the run was interrupted".to_owned()),
            Outcome::Completed(_) | Outcome::Pending(_) => return,
        };
        let mut invocation = HookInvocation::new(HookPoint::RunFailed, self.session);
        let error_report = ErrorReport { class, reason: None, message: message.clone() };
        invocation.error = Some(HookError { error: message, error_class: class, error_report });
        let _ = hooks.call_hooks(&invocation).await;
    }

    fn start(&self, calls: Vec<ToolCall>, tools: &BTreeMap<String, Arc<dyn Tool>>, flight: &mut InFlight) {
        for call in calls {
            let tool = tools.get(&call.name).cloned();
            let timeout = self.config.tools.timeout(&call.name);
            let (span, trace) = self.trace.tool(&call);
            let invocation = Invocation { session_id: self.session, run_id: self.run_id, call, trace };
            flight.start((tool, span), invocation, timeout, self.hooks.clone());
        }
    }
}

/// Removes provider-run tools from the parameters of a request.
fn without_tools(params: Option<Arc<Value>>) -> Option<Arc<Value>> {
    match params.map(Arc::unwrap_or_clone) {
        Some(Value::Object(params)) => Some(Arc::new(Value::Object(params::without_tools(params)))),
        other => other.map(Arc::new),
    }
}

fn call_changes(session: SessionId, calls: &CallChange) -> Result<Vec<Change>, Error> {
    Ok(match calls {
        CallChange::None => Vec::new(),
        CallChange::Open(intents) => {
            let calls = intents.iter().map(new_call).collect::<Result<_, Error>>()?;
            vec![Change::OpenCalls { session, calls }]
        }
        CallChange::Complete(results) => complete_calls(session, results)?,
        CallChange::Update { calls, results } => {
            let put = |intent| Ok(Change::PutCall { session, call: new_call(intent)? });
            let mut changes = calls.iter().map(put).collect::<Result<Vec<_>, Error>>()?;
            changes.append(&mut complete_calls(session, results)?);
            changes
        }
        CallChange::Close => vec![Change::CloseCalls(session)],
    })
}

fn new_call(intent: &CallIntent) -> Result<NewCall, Error> {
    Ok(NewCall { id: intent.id.clone(), call: encode(intent)? })
}

fn complete_calls(session: SessionId, results: &[CompletedCall]) -> Result<Vec<Change>, Error> {
    let complete = |result: &CompletedCall| {
        let call = result.result.tool_use_id.clone();
        Ok(Change::CompleteCall { session, call, result: encode(result)? })
    };
    results.iter().map(complete).collect()
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

fn is_store_failure(report: &RunReport) -> bool {
    matches!(&report.outcome, Outcome::Failed(failure) if failure.class == ErrorClass::Store)
}
