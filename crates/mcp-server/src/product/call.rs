//! An operation as the call of a tool: watched and stopped.

use meerkat::ops::{Call, Impact, Operation};
use meerkat::{Error, EventEnvelope, RunControl, Runtime};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::Value;

use super::Product;
use super::resources::publish_update;
use super::telling::Telling;
use super::tools::result;
use crate::layer::{Notice, Request};

pub(super) type Outcome = Result<Value, Error>;

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
        match request.tasks() {
            Some(tasks) if operation.impact == Impact::Runs => {
                let tasks = tasks.clone();
                Box::pin(self.as_task(&tasks, operation, runtime, arguments, request)).await
            }
            _ => Box::pin(self.directly(operation, runtime, arguments, request)).await,
        }
    }

    /// Calls an operation and waits for its end.
    async fn directly(
        &self,
        operation: &'static Operation,
        runtime: Runtime,
        arguments: Value,
        request: Request,
    ) -> CallToolResponse {
        let telling = (operation.impact == Impact::Runs)
            .then(|| Telling::new(operation, &arguments, &request, &self.log));
        let events = telling.as_ref().and_then(Telling::sink);
        let control =
            RunControl { cancel: request.cancelled().clone(), events, run_id: None, trace: request.trace() };
        let outcome = operation.call(Call { runtime, control }, arguments).await;
        if let Some(telling) = telling {
            telling.finish().await;
        }
        self.told(operation, &outcome);
        result(outcome).into()
    }

    /// Tells those who watch a session that it reads differently, and everybody that there is one less.
    pub(super) fn told(&self, operation: &Operation, outcome: &Outcome) {
        let archives = operation.name == "meerkat_archive" && outcome.is_ok();
        if operation.impact != Impact::Runs && !archives {
            return;
        }
        let payload = match outcome {
            Ok(payload) => payload.clone(),
            Err(error) => error.data().unwrap_or_default(),
        };
        if let Some(session) = payload.get("session_id").and_then(Value::as_str) {
            publish_update(&self.notices, session);
        }
        if archives {
            self.notices.publish(&Notice::Resources);
        }
    }
}

pub(super) fn joined(outcome: Result<Outcome, tokio::task::JoinError>) -> Outcome {
    outcome.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

pub(super) fn session_of(event: &EventEnvelope) -> &str {
    event.source_id.strip_prefix("session:").unwrap_or(&event.source_id)
}
