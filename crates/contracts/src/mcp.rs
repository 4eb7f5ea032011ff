//! The MCP servers of a session on the wire.

use std::collections::BTreeMap;

use meerkat_core::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An MCP server: a program to start (`command`, `args`, `env`), or an address (`url`, `headers`, `transport`).
/// `${NAME}` in a value stands for an environment variable of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerInput {
    /// Its name: letters, digits, `_`, `-` and `.`; its tools are called `NAME__TOOL`.
    pub name: String,
    /// The program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The program's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// What the program's environment has besides the usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The headers of every request to the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// `streamable-http` or `sse` for an address; found out if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// How long it may take until its tools are known (default 10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout_secs: Option<u64>,
    /// How long a call may go without a sign of life (default 300).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_timeout_secs: Option<u64>,
    /// Whether a run must not start without it; for what is persisted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Whether it is in use (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Which generation of the protocol it speaks: `auto` (the default), `legacy` or `modern`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// Offer only these of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never offer these of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
}

/// Adds an MCP server to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpAddRequest {
    /// The session.
    pub session_id: String,
    /// The server.
    pub server_config: McpServerInput,
    /// Write it to the project's `.rkat/mcp.toml` too (default false).
    pub persisted: Option<bool>,
}

/// Removes an MCP server from a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpRemoveRequest {
    /// The session.
    pub session_id: String,
    /// The server.
    pub server_name: String,
    /// Remove it from the project's `.rkat/mcp.toml` too (default false).
    pub persisted: Option<bool>,
}

/// Connects MCP servers of a session anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpReloadRequest {
    /// The session.
    pub session_id: String,
    /// The server; all of the session's if left out.
    pub server_name: Option<String>,
    /// Taken and without effect: there is nothing to write.
    pub persisted: Option<bool>,
}

/// A change to the MCP servers of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpOperation {
    /// A server comes.
    Add,
    /// A server goes.
    Remove,
    /// A server is connected anew.
    Reload,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpStatus {
    /// It is made before the session's next step.
    Staged,
}

/// A change that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct McpReply {
    /// The session.
    pub session_id: SessionId,
    /// `add`, `remove` or `reload`.
    pub operation: McpOperation,
    /// The server; left out when all are meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// `staged`: it is made before the session's next step, and `tool_config_changed` events tell of it.
    pub status: McpStatus,
    /// Whether the project's file was changed too.
    pub persisted: bool,
}
