//! Runs as tasks: the client gets a response immediately and polls for the result.
//!
//! A task is named after its session and its run. The outcome of a session's latest run is stored, so its task can be
//! queried and cancelled even after a restart.

use std::sync::{Arc, Mutex, PoisonError};

use meerkat::operations::{AnyOperation, Call};
use meerkat::{
    ErrorKind, EventEnvelope, EventSink, LastRun, RunControl, RunEnd, RunId, Runtime, SessionId, SessionView,
    describe_progress,
};
use meerkat_contracts::{ErrorBody, PendingReply};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, JsonObject, Task, TaskPayload,
    TaskStatus,
};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::RealmService;
use super::approvals::{ApprovalChannel, AwaitingApproval, can_ask, run_with_approvals};
use super::call::{Outcome, flatten_join, session_of};
use super::reporter::{is_enabled, write_log};
use super::resources::publish_update;
use super::tools::{failure, result};
use crate::protocol::{Notifier, Request, TaskError, TaskWork, Tasks};

/// Sender of a run's first event, which names its session.
type First = Mutex<Option<oneshot::Sender<EventEnvelope>>>;

/// Active run of a task.
struct Running {
    session: String,
    run: JoinHandle<Outcome>,
    status: watch::Receiver<String>,
    stop: CancellationToken,
    notices: Notifier,
    /// Data for resuming the run after its calls are approved, if the user can be asked.
    asks: Option<(Runtime, RunControl, Value)>,
}

impl RealmService {
    /// Starts a run and returns a task as soon as its session is stored. An earlier failure is returned directly.
    pub(super) async fn as_task(
        &self,
        tasks: &Tasks,
        operation: &'static AnyOperation,
        runtime: Runtime,
        arguments: Value,
        request: Request,
    ) -> CallToolResponse {
        let (stop, run_id) = (CancellationToken::new(), RunId::from_uuid(Uuid::now_v7()));
        let (first, mut started) = oneshot::channel();
        let (status_sender, status) = watch::channel(String::new());
        let log = is_enabled(&arguments, "verbose").then(|| Arc::clone(&self.log));
        let first: First = Mutex::new(Some(first));
        let sink: EventSink = Arc::new(move |event: EventEnvelope| {
            if let Some(log) = &log {
                write_log(log, &event);
            }
            if let Some(message) = describe_progress(&event.payload) {
                status_sender.send_replace(message);
            }
            if let Some(first) = first.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let _ = first.send(event);
            }
        });
        let control = RunControl {
            cancel: stop.clone(),
            events: Some(sink),
            run_id: Some(run_id),
            trace: request.trace(),
            ..RunControl::default()
        };
        let call = Call { runtime: runtime.clone(), control: control.clone() };
        let mut run = tokio::spawn({
            let arguments = arguments.clone();
            async move { operation.call(call, arguments).await.map(|reply| reply.json) }
        });
        let asks = can_ask(&runtime, &request.client()).then_some((runtime, control, arguments));
        loop {
            tokio::select! {
                Ok(event) = &mut started, if !started.is_terminated() => {
                    let session = session_of(&event).to_owned();
                    let id = format!("{session}.{run_id}");
                    let notices = self.notices.clone();
                    let running = Running { session, run, status, stop, notices, asks };
                    return CreateTaskResult::new(tasks.start(id, |work| running.follow(work))).into();
                }
                outcome = &mut run => {
                    let outcome = flatten_join(outcome);
                    self.publish_outcome(operation, &outcome);
                    return result(outcome).into();
                }
                () = request.cancelled().cancelled(), if !stop.is_cancelled() => stop.cancel(),
            }
        }
    }

    /// Returns the state of a task unknown to this process.
    pub(super) async fn task_of_session(&self, id: &str) -> Option<DetailedTask> {
        let (view, run) = self.run_of_task(id).await?;
        let task =
            Task::new(id, TaskStatus::Working, view.created_at.to_string(), view.updated_at.to_string());
        let payload = match run.end {
            None if view.is_active => TaskPayload::Working,
            None => TaskPayload::Failed { error: object(&cut_off(&view)) },
            Some(RunEnd::Cancelled) => TaskPayload::Cancelled,
            Some(RunEnd::Failed { .. }) => TaskPayload::Completed { result: object(&failed(&view, run)) },
            Some(RunEnd::Completed | RunEnd::Pending) => {
                TaskPayload::Completed { result: object(&self.stored_reply(&view, run).await?) }
            }
        };
        Some(DetailedTask::new(task, payload))
    }

    /// Stops the run of a task unknown to this process. Returns `false` if the task does not exist.
    pub(super) async fn stop_task_of_session(&self, id: &str) -> bool {
        let Some((view, run)) = self.run_of_task(id).await else { return false };
        if let (None, Ok(runtime)) = (run.end, self.runtime().await) {
            // The run may have ended by now, which is fine.
            let _ = runtime.sessions().interrupt(view.id).await;
        }
        true
    }

    /// Returns the session and run of a task, if it is the session's latest run.
    async fn run_of_task(&self, id: &str) -> Option<(SessionView, LastRun)> {
        let (session, run) = id.split_once('.')?;
        let (session_id, run_id): (SessionId, RunId) = (session.parse().ok()?, run.parse().ok()?);
        if self.host.is_fresh() || format!("{session_id}.{run_id}") != id {
            return None;
        }
        let view = self.runtime().await.ok()?.sessions().read(session_id).await.ok()?;
        let last = view.last_run.filter(|last| last.id == run_id)?;
        Some((view, last))
    }

    /// Rebuilds the reply of a run from the stored session.
    async fn stored_reply(&self, view: &SessionView, run: LastRun) -> Option<CallToolResult> {
        let read = self.ask("meerkat_read", json!({ "session_id": view.id })).await.ok()?;
        let (state, text) = (&read["state"], &read["state"]["last_assistant_text"]);
        let mut reply = json!({ "content": [], "session_id": view.id, "session_ref": read["session_ref"] });
        if run.end == Some(RunEnd::Pending) {
            let (status, sentence) = match state.get("pending_approvals") {
                None => (PendingReply::STATUS, PendingReply::SENTENCE),
                Some(_) => (PendingReply::APPROVAL_STATUS, PendingReply::APPROVAL_SENTENCE),
            };
            reply["content"] = json!([{ "type": "text", "text": sentence }]);
            reply["status"] = json!(status);
            for key in ["pending_tool_calls", "pending_approvals"] {
                if let Some(calls) = state.get(key) {
                    reply[key] = calls.clone();
                }
            }
        } else {
            reply["content"] = json!([{ "type": "text", "text": text.as_str().unwrap_or_default() }]);
            let warning =
                "this reply was read from the session, because the process that ran the task has exited";
            reply["warnings"] = json!([warning]);
            reply["usage"] = read["billing"]["usage"].clone();
            if let Some(blob) = state.get("last_assistant_blob_id") {
                reply["blob_id"] = blob.clone();
            }
        }
        reply["model"] = json!(view.model);
        Some(result(Ok(reply)))
    }
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
    /// Waits for the run to finish, asking the user for every approval on the way.
    async fn follow(self, work: TaskWork) -> Result<CallToolResult, TaskError> {
        let Self { session, run, mut status, stop, notices, asks } = self;
        let mut full_run = Box::pin(async {
            let outcome = flatten_join(run.await);
            publish_update(&notices, &session);
            let Some((runtime, control, arguments)) = &asks else { return outcome };
            let outcome = run_with_approvals(
                Some(&ApprovalChannel::Task(&work)),
                (runtime, control),
                arguments,
                outcome,
            )
            .await;
            publish_update(&notices, &session);
            outcome
        });
        let outcome = loop {
            tokio::select! {
                outcome = &mut full_run => break outcome,
                Ok(()) = status.changed() => work.set_status(status.borrow_and_update().clone()),
                () = work.cancelled().cancelled(), if !stop.is_cancelled() => stop.cancel(),
            }
        };
        match &outcome {
            Err(error) if stop.is_cancelled() && error.kind() == ErrorKind::RequestCancelled => {
                Err(TaskError::Cancelled)
            }
            Ok(_)
                if work.cancelled().is_cancelled() && AwaitingApproval::from_outcome(&outcome).is_some() =>
            {
                Err(TaskError::Cancelled)
            }
            _ => Ok(result(outcome)),
        }
    }
}
