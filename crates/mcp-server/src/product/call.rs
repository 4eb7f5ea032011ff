//! An operation as the call of a tool: watched, stopped, and as a task where the client can deal with one.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use meerkat::ops::{Call, Impact, Operation, find};
use meerkat::{Error, ErrorKind, EventEnvelope, EventSink, RunControl, Runtime, progress};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, JsonObject,
    Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Product;
use super::resources::publish_update;
use super::telling::{Telling, asked, write_log};
use super::tools::result;
use crate::layer::{Notice, Request, TaskEnd, TaskWork, Tasks};

type Outcome = Result<Value, Error>;

/// Tells the first event of a run, which names its session.
type First = Mutex<Option<oneshot::Sender<EventEnvelope>>>;

impl Product {
    pub(super) async fn operate(
        &self,
        operation: &'static Operation,
        call: CallToolRequestParams,
        request: Request,
    ) -> CallToolResponse {
        let runtime = match self.runtime().await {
            Ok(runtime) => runtime,
            Err(error) => return result(Err(error)).into(),
        };
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let response = match request.tasks() {
            Some(tasks) if operation.impact == Impact::Runs => {
                let tasks = tasks.clone();
                Box::pin(self.as_task(&tasks, operation, runtime, arguments, request)).await
            }
            _ => Box::pin(self.directly(operation, runtime, arguments, request)).await,
        };
        if operation.name == "meerkat_archive" {
            self.notices.publish(&Notice::Resources);
        }
        response
    }

    /// Calls an operation and waits for its end.
    async fn directly(
        &self,
        operation: &'static Operation,
        runtime: Runtime,
        arguments: Value,
        request: Request,
    ) -> CallToolResponse {
        let telling =
            (operation.impact == Impact::Runs).then(|| Telling::new(&arguments, &request, &self.log));
        let events = telling.as_ref().and_then(Telling::sink);
        let control = RunControl { cancel: request.cancelled().clone(), events };
        let outcome = operation.call(Call { runtime, control }, arguments).await;
        if let Some(telling) = telling {
            telling.finish().await;
        }
        self.told(operation, &outcome);
        result(outcome).into()
    }

    /// Starts a run and answers with a task as soon as its session is stored. What fails before is the answer.
    async fn as_task(
        &self,
        tasks: &Tasks,
        operation: &'static Operation,
        runtime: Runtime,
        arguments: Value,
        request: Request,
    ) -> CallToolResponse {
        let stop = CancellationToken::new();
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
        let control = RunControl { cancel: stop.clone(), events: Some(sink) };
        let mut running = tokio::spawn(operation.call(Call { runtime, control }, arguments));
        loop {
            tokio::select! {
                Ok(event) = &mut started, if !started.is_terminated() => {
                    let id = format!("{}.{}", session_of(&event), event.event_id);
                    let task = tasks.start(id, |work| follow(work, running, said, stop));
                    return CreateTaskResult::new(task).into();
                }
                outcome = &mut running => {
                    let outcome = joined(outcome);
                    self.told(operation, &outcome);
                    return result(outcome).into();
                }
                () = request.cancelled().cancelled(), if !stop.is_cancelled() => stop.cancel(),
            }
        }
    }

    /// Tells those who watch a session that its run has ended.
    fn told(&self, operation: &Operation, outcome: &Outcome) {
        if operation.impact != Impact::Runs {
            return;
        }
        if let Ok(payload) = outcome
            && let Some(session) = payload.get("session_id").and_then(Value::as_str)
        {
            publish_update(&self.notices, session);
        }
    }

    /// Says what became of the session of a task from before a restart.
    pub(super) async fn task_of_session(&self, id: &str) -> Option<DetailedTask> {
        let (session, _) = id.split_once('.')?;
        let runtime = self.runtime().await.ok()?;
        let call = Call { runtime, control: RunControl::default() };
        let payload = find("meerkat_read")?.call(call, json!({ "session_id": session })).await.ok()?;
        let state = &payload["state"];
        let time = |key: &str| {
            let seconds = state[key].as_i64().unwrap_or_default();
            Timestamp::from_second(seconds).unwrap_or_default().to_string()
        };
        let task = Task::new(id, TaskStatus::Working, time("created_at"), time("updated_at"));
        let active = state["is_active"] == true;
        let payload =
            if active { TaskPayload::Working } else { TaskPayload::Completed { result: read(payload) } };
        Some(DetailedTask::new(task, payload))
    }
}

/// The result of a task whose own reply is lost: the session as it is now.
fn read(payload: Value) -> JsonObject {
    match serde_json::to_value(result(Ok(payload))) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

/// Waits for the end of a run on behalf of its task.
async fn follow(
    work: TaskWork,
    mut running: JoinHandle<Outcome>,
    mut said: watch::Receiver<String>,
    stop: CancellationToken,
) -> Result<CallToolResult, TaskEnd> {
    let outcome = loop {
        tokio::select! {
            outcome = &mut running => break joined(outcome),
            Ok(()) = said.changed() => work.say(said.borrow_and_update().clone()),
            () = work.cancelled().cancelled(), if !stop.is_cancelled() => stop.cancel(),
        }
    };
    match outcome {
        Err(error) if stop.is_cancelled() && error.kind() == ErrorKind::RequestCancelled => {
            Err(TaskEnd::Cancelled)
        }
        outcome => Ok(result(outcome)),
    }
}

fn joined(outcome: Result<Outcome, tokio::task::JoinError>) -> Outcome {
    outcome.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

pub(super) fn session_of(event: &EventEnvelope) -> &str {
    event.source_id.strip_prefix("session:").unwrap_or(&event.source_id)
}
