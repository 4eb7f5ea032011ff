//! Operations as tool calls, with progress reports and cancellation.

use std::sync::Arc;

use meerkat::operations::{AnyOperation, Call, Impact, JsonReply, continue_run};
use meerkat::{Approval, Approver, RunControl, Runtime, SessionId};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::Value;

use super::access::RuntimeAccess;
use super::approvals::{ClientPrompt, can_ask, next_round, round};
use super::reporter::RunReporter;
use super::tasks::RunTasks;
use super::tools::result;
use crate::log::Log;
use crate::protocol::{Era, Request};

/// Calls of operations by clients.
pub(super) struct OperationCalls {
    access: Arc<RuntimeAccess>,
    log: Log,
    tasks: RunTasks,
}

/// Arguments of a call, and in a later round of a modern client the session and the decisions.
type Input = (Value, Option<(SessionId, Vec<Approval>)>);

impl OperationCalls {
    /// Creates the calls; `log` receives the events of `verbose` runs.
    pub(super) fn new(access: Arc<RuntimeAccess>, log: Log) -> Self {
        Self { tasks: RunTasks::new(Arc::clone(&access), Arc::clone(&log)), access, log }
    }

    pub(super) fn tasks(&self) -> &RunTasks {
        &self.tasks
    }

    pub(super) async fn call(
        &self,
        operation: &'static AnyOperation,
        call: CallToolRequestParams,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        let runtime = match self.access.runtime().await {
            Ok(runtime) => runtime,
            Err(error) => return Ok(result(Err(error)).into()),
        };
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let runs = operation.impact == Impact::RunsAgent;
        let sealed = call.request_state.as_deref().filter(|_| runs);
        let decided =
            sealed.map(|sealed| next_round(&request, sealed, call.input_responses.as_ref())).transpose()?;
        match request.tasks() {
            Some(tasks) if runs && decided.is_none() => {
                let tasks = tasks.clone();
                Ok(Box::pin(self.tasks.start(&tasks, operation, runtime, arguments, request)).await)
            }
            _ => Box::pin(self.directly(operation, runtime, (arguments, decided), request)).await,
        }
    }

    /// Calls an operation and waits for its result.
    async fn directly(
        &self,
        operation: &'static AnyOperation,
        runtime: Runtime,
        (arguments, decided): Input,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        let reporter = (operation.impact == Impact::RunsAgent)
            .then(|| RunReporter::new(operation, &arguments, &request, &self.log));
        let can_ask = can_ask(&runtime, &request.client());
        let approver = (can_ask && request.era() == Era::Legacy)
            .then(|| Arc::new(ClientPrompt::Request(Box::new(request.clone()))) as Arc<dyn Approver>);
        let control = RunControl {
            cancel: request.cancelled().clone(),
            events: reporter.as_ref().and_then(RunReporter::sink),
            trace: request.trace(),
            approver,
            ..RunControl::default()
        };
        let call = Call { runtime, control };
        let outcome = match decided {
            None => operation.call(call, arguments).await,
            Some(decided) => continue_run(call, operation.name, arguments, decided).await,
        };
        if let Some(reporter) = reporter {
            reporter.finish().await;
        }
        self.access.publish_outcome(operation, &outcome);
        match outcome {
            Ok(JsonReply { session: Some(session), awaiting, .. })
                if can_ask && request.era() == Era::Modern && !awaiting.is_empty() =>
            {
                Ok(round(&request, session, &awaiting)?.into())
            }
            outcome => Ok(result(outcome).into()),
        }
    }
}
