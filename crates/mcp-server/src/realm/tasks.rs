//! Runs as tasks: the client gets a response immediately and polls for the result.
//!
//! A task is named after its session and its run. The outcome of a session's latest run is stored, so its task can be
//! queried and cancelled even after a restart.

use std::sync::{Arc, Mutex, PoisonError};

use meerkat::operations::{AnyOperation, Call, stored_reply};
use meerkat::{
    Approver, CancellationToken, Error, ErrorKind, EventEnvelope, EventSink, LastRun, RunControl, RunEnd,
    RunId, Runtime, SessionId, SessionView, describe_progress,
};
use meerkat_contracts::ErrorBody;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, JsonObject, Task, TaskPayload,
    TaskStatus,
};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use uuid::Uuid;

use super::access::{RuntimeAccess, session_of};
use super::approvals::{ClientPrompt, can_ask};
use super::reporter::{is_enabled, write_log};
use super::tools::{Outcome, failure, result, success};
use super::uri::publish_update;
use crate::log::Log;
use crate::protocol::{Request, TaskError, TaskWork, Tasks};

/// Sender of a run's first event, which names its session.
type First = Mutex<Option<oneshot::Sender<EventEnvelope>>>;

/// Runs of agents as tasks.
pub(super) struct RunTasks {
    access: Arc<RuntimeAccess>,
    log: Log,
}

/// Active run of a task.
struct Running {
    session: String,
    run: JoinHandle<Outcome>,
    status: watch::Receiver<String>,
    access: Arc<RuntimeAccess>,
}

impl RunTasks {
    /// Creates the tasks; `log` receives the events of `verbose` runs.
    pub(super) fn new(access: Arc<RuntimeAccess>, log: Log) -> Self {
        Self { access, log }
    }

    /// Starts a run and returns a task as soon as its session is stored. An earlier failure is returned directly.
    pub(super) async fn start(
        &self,
        tasks: &Tasks,
        operation: &'static AnyOperation,
        runtime: Runtime,
        arguments: Value,
        request: Request,
    ) -> CallToolResponse {
        let (cancel, run_id) = (CancellationToken::new(), RunId::from_uuid(Uuid::now_v7()));
        let (first, mut started) = oneshot::channel();
        let (status_sender, status) = watch::channel(String::new());
        let (work_sender, work) = watch::channel(None);
        let log = is_enabled(&arguments, "verbose").then(|| Arc::clone(&self.log));
        let approver = can_ask(&runtime, &request.client())
            .then(|| Arc::new(ClientPrompt::Task(work)) as Arc<dyn Approver>);
        let control = RunControl {
            cancel: cancel.clone(),
            events: Some(sink(log, status_sender, Mutex::new(Some(first)))),
            run_id: Some(run_id),
            trace: request.trace(),
            approver,
        };
        let mut run = tokio::spawn(operation.call(Call { runtime, control }, arguments));
        loop {
            tokio::select! {
                Ok(event) = &mut started, if !started.is_terminated() => {
                    let session = session_of(&event).to_owned();
                    let id = format!("{session}.{run_id}");
                    let running = Running { session, run, status, access: Arc::clone(&self.access) };
                    let task = tasks.start(id, cancel, |work| {
                        work_sender.send_replace(Some(work.clone()));
                        running.follow(work)
                    });
                    return CreateTaskResult::new(task).into();
                }
                outcome = &mut run => {
                    let outcome = flatten_join(outcome);
                    self.access.publish_outcome(operation, &outcome);
                    return result(outcome).into();
                }
                () = request.cancelled().cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            }
        }
    }

    /// Returns the state of a task unknown to this process.
    pub(super) async fn restore(&self, id: &str) -> Option<DetailedTask> {
        let (view, run) = self.run_of_task(id).await?;
        let task =
            Task::new(id, TaskStatus::Working, view.created_at.to_string(), view.updated_at.to_string());
        let payload = match run.end {
            None if view.is_active => TaskPayload::Working,
            None => TaskPayload::Failed { error: object(&cut_off(&view)) },
            Some(RunEnd::Cancelled) => TaskPayload::Cancelled,
            Some(RunEnd::Failed { .. }) => TaskPayload::Completed { result: object(&failed(&view, run)) },
            Some(RunEnd::Completed | RunEnd::Pending) => {
                let runtime = self.access.runtime().await.ok()?;
                let reply = stored_reply(&runtime, view).await.ok()?;
                TaskPayload::Completed { result: object(&success(reply.json)) }
            }
        };
        Some(DetailedTask::new(task, payload))
    }

    /// Stops the run of a task unknown to this process. Returns `false` if the task does not exist.
    pub(super) async fn stop(&self, id: &str) -> bool {
        let Some((view, run)) = self.run_of_task(id).await else { return false };
        if let (None, Ok(runtime)) = (run.end, self.access.runtime().await) {
            // The run may have ended by now, which is fine.
            let _ = runtime.sessions().interrupt(view.id).await;
        }
        true
    }

    /// Returns the session and run of a task, if it is the session's latest run.
    async fn run_of_task(&self, id: &str) -> Option<(SessionView, LastRun)> {
        let (session, run) = id.split_once('.')?;
        let (session_id, run_id): (SessionId, RunId) = (session.parse().ok()?, run.parse().ok()?);
        if self.access.host().is_fresh() || format!("{session_id}.{run_id}") != id {
            return None;
        }
        let view = self.access.runtime().await.ok()?.sessions().read(session_id).await.ok()?;
        let last = view.last_run.filter(|last| last.id == run_id)?;
        Some((view, last))
    }
}

/// Returns the receiver of a run's events, which updates the task's status.
fn sink(log: Option<Log>, status: watch::Sender<String>, first: First) -> EventSink {
    Arc::new(move |event: EventEnvelope| {
        if let Some(log) = &log {
            write_log(log, &event);
        }
        if let Some(message) = describe_progress(&event.payload) {
            status.send_replace(message);
        }
        if let Some(first) = first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = first.send(event);
        }
    })
}

fn flatten_join(outcome: Result<Outcome, JoinError>) -> Outcome {
    outcome.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

/// Returns the result of a failed run, whose error message is not stored.
fn failed(view: &SessionView, run: LastRun) -> CallToolResult {
    let Some(RunEnd::Failed { class, cause }) = run.end else { return CallToolResult::error(Vec::new()) };
    failure(&ErrorBody {
        code: ErrorKind::AgentError.code().to_owned(),
        message: "the run failed; its error message was lost with the process that ran it".to_owned(),
        data: Some(json!({
            "session_id": view.id,
            "resumable": !view.is_archived,
            "error_class": class,
            "terminal_cause_kind": cause,
        })),
    })
}

/// Returns the error of a run that never finished.
fn cut_off(view: &SessionView) -> ErrorData {
    let message = "the process exited before the run finished; completed steps are stored, and meerkat_resume \
        continues the session";
    let data = json!({ "session_id": view.id, "resumable": !view.is_archived });
    ErrorData::internal_error(message, Some(data))
}

fn object(value: &impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

impl Running {
    /// Waits for the run to finish.
    async fn follow(self, work: TaskWork) -> Result<CallToolResult, TaskError> {
        let Self { session, mut run, mut status, access } = self;
        let outcome = loop {
            tokio::select! {
                outcome = &mut run => break flatten_join(outcome),
                Ok(()) = status.changed() => work.set_status(status.borrow_and_update().clone()),
            }
        };
        publish_update(access.notices(), &session);
        let is_cancelled = match &outcome {
            Ok(reply) => !reply.awaiting.is_empty(),
            Err(error) => error.kind() == ErrorKind::RequestCancelled,
        };
        if is_cancelled && work.cancelled().is_cancelled() {
            return Err(TaskError::Cancelled);
        }
        Ok(result(outcome))
    }
}
