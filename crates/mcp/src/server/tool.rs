//! A tool of a server, callable by a run.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{BoxFuture, Invocation, Tool, ToolDef, ToolFailure, ToolImpact, ToolOutput, TraceContext};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{CallError, ServerState, SharedServer, ToolEntry};
use crate::decode;

/// Time after which the user is notified that a call is still running.
const NOTICE_DELAY: Duration = Duration::from_secs(5);

/// One tool of one server. It stays callable after the server reconnects.
pub(crate) struct McpTool {
    server: Arc<SharedServer>,
    /// Name on the server.
    tool: String,
    def: ToolDef,
    impact: ToolImpact,
}

impl McpTool {
    pub(crate) fn new(server: Arc<SharedServer>, entry: &ToolEntry) -> Self {
        let def = ToolDef {
            name: entry.exposed.clone(),
            description: entry.listed.description.clone(),
            input_schema: entry.listed.input_schema.clone(),
        };
        Self { server, tool: entry.listed.name.clone(), def, impact: entry.listed.impact }
    }

    async fn run(&self, arguments: Value, trace: Option<Arc<TraceContext>>) -> ToolOutput {
        let arguments = match arguments {
            Value::Object(_) => arguments,
            Value::Null => json!({}),
            _ => {
                return ToolOutput::failure(ToolFailure::InvalidArguments, "the arguments must be an object");
            }
        };
        let Some(link) = self.server.link() else { return unavailable(&self.server) };
        let _call = self.server.begin_call();
        let mut params =
            Map::from_iter([("name".to_owned(), json!(self.tool)), ("arguments".to_owned(), arguments)]);
        if let Some(trace) = trace {
            params.insert("_meta".to_owned(), meta(&trace));
        }
        tracing::debug!(server = self.server.config.name.as_str(), tool = self.tool, "an MCP tool is called");
        let answer = link.converse("tools/call", params, self.server.config.tool_timeout);
        tokio::pin!(answer);
        let result = match timeout(NOTICE_DELAY, &mut answer).await {
            Ok(result) => result,
            Err(_) => {
                self.notify_waiting();
                answer.await
            }
        };
        match result {
            Ok(result) => decode::tool_output(&result),
            Err(error) => failure(&self.server, &error),
        }
    }

    fn notify_waiting(&self) {
        let (tool, config) = (&self.tool, &self.server.config);
        let (name, limit) = (&config.name, config.tool_timeout.as_secs());
        self.server.notify(&format!(
            "notice: waiting for `{tool}` of the MCP server `{name}` (at most {limit} s without progress)"
        ));
    }
}

impl Tool for McpTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        self.impact
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(self.run(invocation.call.args, invocation.trace))
    }
}

/// Returns the trace context of a call.
fn meta(trace: &TraceContext) -> Value {
    let mut meta = json!({ "traceparent": trace.parent() });
    if let Some(state) = &trace.state {
        meta["tracestate"] = json!(state);
    }
    meta
}

/// Returns the tool output for an unavailable server.
pub(crate) fn unavailable(server: &SharedServer) -> ToolOutput {
    let name = &server.config.name;
    let why = match server.state() {
        ServerState::Pending | ServerState::Ready => "is reconnecting; try again in a moment".to_owned(),
        ServerState::Failed { reason } => format!("has failed: {reason}"),
        ServerState::NeedsReauth { .. } => "requires a login".to_owned(),
        ServerState::Disabled | ServerState::Removing => "was removed".to_owned(),
    };
    ToolOutput::failure(ToolFailure::Unavailable, &format!("server `{name}` {why}"))
}

/// Returns the tool output for a failed call.
pub(crate) fn failure(server: &SharedServer, error: &CallError) -> ToolOutput {
    let name = &server.config.name;
    // The task that owns the connection records a better reason for its end.
    if !matches!(error, CallError::Closed) {
        server.note_error(error.to_string());
    }
    let (kind, message) = match error {
        CallError::Timeout(_) => {
            let seconds = server.config.tool_timeout.as_secs();
            let stray = server.stray_output().map(|stray| format!("; {stray}")).unwrap_or_default();
            let message = format!(
                "{error}{stray}; the call was cancelled. If the tool needs longer, set `tool_timeout_secs = {}` for `{name}`",
                seconds * 2
            );
            (ToolFailure::Timeout, message)
        }
        CallError::Refused { code: -32602, message } => (ToolFailure::InvalidArguments, message.clone()),
        CallError::Refused { .. } | CallError::Protocol(_) => {
            (ToolFailure::ExecutionFailed, error.to_string())
        }
        CallError::Closed => {
            let message =
                format!("server `{name}` disconnected during the call, which may have taken effect");
            (ToolFailure::ExecutionFailed, message)
        }
        CallError::NeedsLogin { challenge } => {
            server.set_needs_login(challenge);
            (ToolFailure::AccessDenied, format!("server `{name}` requires a login: `rkat mcp login {name}`"))
        }
        CallError::Unreachable(_) => (ToolFailure::Unavailable, error.to_string()),
    };
    ToolOutput::failure(kind, &message)
}
