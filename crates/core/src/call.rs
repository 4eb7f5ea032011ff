//! Calls of tools, as the model sees them: definitions, calls, and results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Content;

/// Definition of a tool, as sent to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDef {
    /// Name by which the model calls it.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// A call requested by the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Id of the call, unique in its step.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments.
    pub args: Value,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Id of the call.
    pub tool_use_id: String,
    /// Content of the result.
    pub content: Content,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}
