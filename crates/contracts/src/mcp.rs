//! The MCP servers of a session on the wire.

use std::collections::BTreeMap;

use meerkat_core::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NOT_BLANK;

/// An MCP server: a command to start (`command`, `args`, `env`) or a URL (`url`, `headers`, `transport`).
/// `${NAME}` in a value expands to an environment variable of this process; in `url` and `headers`, only the owner may
/// use it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerInput {
    /// Its name: letters, digits, `_`, `-`, and `.`; its tools are named `NAME__TOOL`.
    #[schemars(regex(pattern = "^[a-zA-Z0-9_.-]{1,64}$"))]
    pub name: String,
    /// The command to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NOT_BLANK))]
    pub command: Option<String>,
    /// Arguments of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Additional environment variables of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The server's URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://\S|\$\{"))]
    pub url: Option<String>,
    /// Headers of every request to the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// `streamable-http` or `sse`, for a URL; detected if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["streamable-http", "http", "sse", "stdio", null]))]
    pub transport: Option<String>,
    /// Time limit for connecting and listing tools, in seconds (default 10).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub connect_timeout_secs: Option<u64>,
    /// Seconds a call may take without a response or progress (default 300).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub tool_timeout_secs: Option<u64>,
    /// Whether runs fail to start without it; for persisted servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Whether it is enabled (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Protocol era: `auto` (the default), `legacy`, or `modern`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "legacy", "modern", null]))]
    pub era: Option<String>,
    /// Expose only these of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never expose these of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
}

/// Request to add an MCP server to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpAddRequest {
    /// The session.
    pub session_id: SessionId,
    /// The server.
    pub server_config: McpServerInput,
    /// Also write it to the project's `.rkat/mcp.toml` (default false).
    pub persisted: Option<bool>,
}

/// Request to remove an MCP server from a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpRemoveRequest {
    /// The session.
    pub session_id: SessionId,
    /// The server.
    #[schemars(regex(pattern = NOT_BLANK))]
    pub server_name: String,
    /// Also remove it from the project's `.rkat/mcp.toml` (default false).
    pub persisted: Option<bool>,
}

/// Request to reconnect MCP servers of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpReloadRequest {
    /// The session.
    pub session_id: SessionId,
    /// The server; all of the session's servers if omitted.
    #[schemars(regex(pattern = NOT_BLANK))]
    pub server_name: Option<String>,
    /// Accepted but ignored.
    pub persisted: Option<bool>,
}

/// A change to the MCP servers of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpOperation {
    /// A server is added.
    Add,
    /// A server is removed.
    Remove,
    /// A server is reconnected.
    Reload,
}

/// Status of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpStatus {
    /// The change takes effect before the session's next step.
    Staged,
}

/// An accepted change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct McpReply {
    /// The session.
    pub session_id: SessionId,
    /// `add`, `remove`, or `reload`.
    pub operation: McpOperation,
    /// The server; omitted if the change applies to all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// `staged`: it takes effect before the session's next step, and `tool_config_changed` events report the outcome.
    pub status: McpStatus,
    /// Whether the project's file was also changed.
    pub persisted: bool,
}
