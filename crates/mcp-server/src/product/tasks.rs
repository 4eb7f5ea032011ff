//! Runs as tasks: the client is answered at once, and asks later what came of it.
//!
//! A task is named after its session and its run. What became of the latest run of a session is stored, so that a
//! task can be asked for, and stopped, after a restart too.

use std::sync::{Arc, Mutex, PoisonError};

use meerkat::ops::{Call, Operation};
use meerkat::{
    ErrorKind, EventEnvelope, EventSink, LastRun, RunControl, RunEnd, RunId, Runtime, SessionId, SessionView,
    progress,
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

use super::Product;
use super::approvals::{Asker, Waiting, can_ask, through_approvals};
use super::call::{Outcome, joined, session_of};
use super::resources::publish_update;
use super::telling::{asked, write_log};
use super::tools::{failure, result};
use crate::layer::{Notices, Request, TaskEnd, TaskWork, Tasks};

/// Tells the first event of a run, which names its session.
type First = Mutex<Option<oneshot::Sender<EventEnvelope>>>;

/// A run on behalf of its task.
struct Running {
    session: String,
    run: JoinHandle<Outcome>,
    said: watch::Receiver<String>,
    stop: CancellationToken,
    notices: Notices,
    /// What the run goes on with when the user has approved its calls, if the user can be asked.
    asks: Option<(Runtime, RunControl, Value)>,
}

impl Product {
    /// Starts a run and answers with a task as soon as its session is stored. What fails before is the answer.
    pub(super) async fn as_task(
        &self,
        tasks: &Tasks,
        operation: &'static Operation,
        runtime: Runtime,
        arguments: Value,
        request: Request,
    ) -> CallToolResponse {
        let (stop, run_id) = (CancellationToken::new(), RunId::from_uuid(Uuid::now_v7()));
        let (first, mut started) = oneshot::channel();
        let (words, said) = watch::channel(String::new());
        let log = asked(&arguments, "verbose").then(|| Arc::clone(&self.log));
        let first: First = Mutex::new(Some(first));
        let sink: EventSink = Arc::new(move |event: EventEnvelope| {
            if let Some(log) = &log {
                write_log(log, &event);
            }
            if let Some(now) = progress(&event.payload) {
                words.send_replace(now);
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
        };
        let call = Call { runtime: runtime.clone(), control: control.clone() };
        let mut run = tokio::spawn(operation.call(call, arguments.clone()));
        let asks = can_ask(&runtime, &request.client()).then_some((runtime, control, arguments));
        loop {
            tokio::select! {
                Ok(event) = &mut started, if !started.is_terminated() => {
                    let session = session_of(&event).to_owned();
                    let id = format!("{session}.{run_id}");
                    let notices = self.notices.clone();
                    let running = Running { session, run, said, stop, notices, asks };
                    return CreateTaskResult::new(tasks.start(id, |work| running.follow(work))).into();
                }
                outcome = &mut run => {
                    let outcome = joined(outcome);
                    self.told(operation, &outcome);
                    return result(outcome).into();
                }
                () = request.cancelled().cancelled(), if !stop.is_cancelled() => stop.cancel(),
            }
        }
    }

    /// Says what became of a task that this process does not know.
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
                TaskPayload::Completed { result: object(&self.answered(&view, run).await?) }
            }
        };
        Some(DetailedTask::new(task, payload))
    }

    /// Stops the run of a task that this process does not know; false when nobody knows it.
    pub(super) async fn stop_task_of_session(&self, id: &str) -> bool {
        let Some((view, run)) = self.run_of_task(id).await else { return false };
        if let (None, Ok(runtime)) = (run.end, self.runtime().await) {
            // It may have ended by now; that is as good.
            let _ = runtime.sessions().interrupt(view.id).await;
        }
        true
    }

    /// Finds the session and the run of a task; only the latest run of a session is known.
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

    /// The reply of a run as far as it is stored.
    async fn answered(&self, view: &SessionView, run: LastRun) -> Option<CallToolResult> {
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
            reply["warnings"] = json!(["this is read from the session: the process that ran it is gone"]);
            reply["usage"] = read["billing"]["usage"].clone();
            if let Some(blob) = state.get("last_assistant_blob_id") {
                reply["blob_id"] = blob.clone();
            }
        }
        reply["model"] = json!(view.model);
        Some(result(Ok(reply)))
    }
}

/// The result of a run whose failure is stored and whose words are not.
fn failed(view: &SessionView, run: LastRun) -> CallToolResult {
    let Some(RunEnd::Failed { class, cause }) = run.end else { return CallToolResult::error(Vec::new()) };
    failure(&ErrorBody {
        code: ErrorKind::AgentError.code().to_owned(),
        message: "the run failed; what it said of that went with the process that ran it".to_owned(),
        data: Some(json!({
            "session_id": view.id,
            "resumable": !view.is_archived,
            "error_class": class,
            "terminal_cause_kind": cause,
        })),
    })
}

/// The error of a run that never came to its end.
fn cut_off(view: &SessionView) -> ErrorData {
    let message = "the process that ran it ended before the run did; what was committed is kept, and meerkat_resume \
        goes on with the session";
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
    /// Waits for the end of the run, through all that the user has to approve on the way.
    async fn follow(self, work: TaskWork) -> Result<CallToolResult, TaskEnd> {
        let Self { session, run, mut said, stop, notices, asks } = self;
        let mut whole = Box::pin(async {
            let outcome = joined(run.await);
            publish_update(&notices, &session);
            let Some((runtime, control, arguments)) = &asks else { return outcome };
            let outcome =
                through_approvals(Some(&Asker::Task(&work)), (runtime, control), arguments, outcome).await;
            publish_update(&notices, &session);
            outcome
        });
        let outcome = loop {
            tokio::select! {
                outcome = &mut whole => break outcome,
                Ok(()) = said.changed() => work.say(said.borrow_and_update().clone()),
                () = work.cancelled().cancelled(), if !stop.is_cancelled() => stop.cancel(),
            }
        };
        match &outcome {
            Err(error) if stop.is_cancelled() && error.kind() == ErrorKind::RequestCancelled => {
                Err(TaskEnd::Cancelled)
            }
            Ok(_) if work.cancelled().is_cancelled() && Waiting::of(&outcome).is_some() => {
                Err(TaskEnd::Cancelled)
            }
            _ => Ok(result(outcome)),
        }
    }
}
