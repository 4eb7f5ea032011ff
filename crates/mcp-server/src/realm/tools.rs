//! Operations as MCP tools.

use std::sync::{Arc, LazyLock};

use meerkat::operations::{AnyOperation, Call, Impact, JsonReply, TABLE, find};
use meerkat::{Error, RunControl, Runtime, excerpt};
use meerkat_contracts::ErrorBody;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

/// Outcome of a call of an operation.
pub(super) type Outcome = Result<JsonReply, Error>;

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| TABLE.iter().map(tool).collect());

/// The tool does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool `{}`", excerpt(.0))]
pub struct UnknownTool(pub String);

/// Returns the tools, as in a `tools/list` result.
#[must_use]
pub fn tools_list() -> Vec<Value> {
    tools().iter().map(|tool| serde_json::to_value(tool).unwrap_or_default()).collect()
}

/// Calls a tool and returns its result, as for `tools/call`. A failing tool also returns a result, with
/// `isError: true`.
///
/// # Errors
/// Returns an error if the tool does not exist.
pub async fn handle_tools_call(
    runtime: &Runtime,
    name: &str,
    arguments: Value,
) -> Result<Value, UnknownTool> {
    handle_tools_call_with(runtime, name, arguments, RunControl::default()).await
}

/// Calls a tool like [`handle_tools_call`], with control over its run.
///
/// # Errors
/// Returns an error if the tool does not exist.
pub async fn handle_tools_call_with(
    runtime: &Runtime,
    name: &str,
    arguments: Value,
    control: RunControl,
) -> Result<Value, UnknownTool> {
    let operation = find(name).ok_or_else(|| UnknownTool(name.to_owned()))?;
    let call = Call { runtime: runtime.clone(), control };
    let result = result(operation.call(call, arguments).await);
    Ok(serde_json::to_value(result).unwrap_or_default())
}

/// Returns the tools.
pub(super) fn tools() -> &'static [Tool] {
    &TOOLS
}

/// Builds the result of a call.
pub(super) fn result(outcome: Outcome) -> CallToolResult {
    match outcome {
        Ok(reply) => success(reply.json),
        Err(error) => failure(&error.body()),
    }
}

/// Builds the result of a successful call.
pub(super) fn success(payload: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(payload.to_string())]);
    result.structured_content = Some(payload);
    result
}

/// Builds the result of a failed call.
pub(super) fn failure(body: &ErrorBody) -> CallToolResult {
    let body = serde_json::to_value(body).unwrap_or_default();
    CallToolResult::error(vec![ContentBlock::text(body.to_string())])
}

/// Returns `true` if the tool accepts an argument of this name.
pub(super) fn accepts_argument(name: &str, argument: &str) -> bool {
    let properties = |tool: &Tool| tool.input_schema.get("properties")?.get(argument).cloned();
    TOOLS.iter().find(|tool| tool.name == name).and_then(properties).is_some()
}

fn tool(operation: &AnyOperation) -> Tool {
    let object = |schema: Value| -> Arc<JsonObject> {
        match schema {
            Value::Object(object) => Arc::new(object),
            _ => Arc::default(),
        }
    };
    let (read_only, destructive, idempotent, open_world) = match operation.impact {
        Impact::ReadOnly => (true, false, true, false),
        Impact::Idempotent => (false, false, true, false),
        Impact::Destructive => (false, true, true, false),
        Impact::Creates => (false, false, false, true),
        Impact::RunsAgent => (false, true, false, true),
    };
    let annotations = ToolAnnotations::with_title(operation.title)
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(open_world);
    Tool::new(operation.name, operation.doc, object(operation.input_schema()))
        .with_title(operation.title)
        .with_raw_output_schema(object(operation.output_schema()))
        .with_annotations(annotations)
}
