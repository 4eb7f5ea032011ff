//! Operation as a tool call, with progress reports and cancellation.

use meerkat::operations::{AnyOperation, Call, Impact};
use meerkat::{Error, EventEnvelope, RunControl, Runtime};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::Value;

use super::RealmService;
use super::approvals::{ApprovalChannel, AwaitingApproval, can_ask, next_round, resume, run_with_approvals};
use super::reporter::RunReporter;
use super::resources::publish_update;
use super::tools::result;
use crate::protocol::{ChangeNotification, Era, Request};

pub(super) type Outcome = Result<Value, Error>;

impl RealmService {
    pub(super) async fn operate(
        &self,
        operation: &'static AnyOperation,
        call: CallToolRequestParams,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        let runtime = match self.runtime().await {
            Ok(runtime) => runtime,
            Err(error) => return Ok(result(Err(error)).into()),
        };
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let runs = operation.impact == Impact::RunsAgent;
        if let Some(sealed) = call.request_state.as_deref().filter(|_| runs) {
            let next = next_round(&request, (sealed, call.input_responses.as_ref()), &arguments)?;
            let resume = resume().map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            return Box::pin(self.directly(resume, runtime, next, request)).await;
        }
        match request.tasks() {
            Some(tasks) if runs => {
                let tasks = tasks.clone();
                Ok(Box::pin(self.as_task(&tasks, operation, runtime, arguments, request)).await)
            }
            _ => Box::pin(self.directly(operation, runtime, arguments, request)).await,
        }
    }

    /// Calls an operation and waits for its result.
    async fn directly(
        &self,
        operation: &'static AnyOperation,
        runtime: Runtime,
        arguments: Value,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        let reporter = (operation.impact == Impact::RunsAgent)
            .then(|| RunReporter::new(operation, &arguments, &request, &self.log));
        let events = reporter.as_ref().and_then(RunReporter::sink);
        let control = RunControl {
            cancel: request.cancelled().clone(),
            events,
            trace: request.trace(),
            ..RunControl::default()
        };
        let call = Call { runtime: runtime.clone(), control: control.clone() };
        let outcome = operation.call(call, arguments.clone()).await.map(|reply| reply.json);
        let can_ask = can_ask(&runtime, &request.client());
        let asker = (can_ask && request.era() == Era::Legacy).then_some(ApprovalChannel::Client(&request));
        let outcome = run_with_approvals(asker.as_ref(), (&runtime, &control), &arguments, outcome).await;
        drop(control);
        if let Some(reporter) = reporter {
            reporter.finish().await;
        }
        self.publish_outcome(operation, &outcome);
        match AwaitingApproval::from_outcome(&outcome) {
            Some(waiting) if can_ask && request.era() == Era::Modern => Ok(waiting.round(&request)?.into()),
            _ => Ok(result(outcome).into()),
        }
    }

    /// Notifies the watchers of a session of the change, and all clients if the session was archived.
    pub(super) fn publish_outcome(&self, operation: &AnyOperation, outcome: &Outcome) {
        let archives = operation.name == "meerkat_archive" && outcome.is_ok();
        if operation.impact != Impact::RunsAgent && !archives {
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
            self.notices.publish(&ChangeNotification::Resources);
        }
    }
}

pub(super) fn flatten_join(outcome: Result<Outcome, tokio::task::JoinError>) -> Outcome {
    outcome.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

pub(super) fn session_of(event: &EventEnvelope) -> &str {
    event.source_id.strip_prefix("session:").unwrap_or(&event.source_id)
}
