//! Sessions on the wire: requests and replies of the session operations.
//!
//! In requests a missing field and `null` mean the same.

use std::collections::BTreeMap;

use meerkat_core::run::ExtractionError;
use meerkat_core::{
    BlobId, Content, Message, Provider, SchemaWarning, SessionId, TerminalCause, Timestamp, Usage, Usd,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A tool run by the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolHandler {
    /// Name of the tool.
    #[schemars(regex(pattern = "^[a-zA-Z0-9_-]{1,64}$"))]
    pub name: String,
    /// Description of the tool, for the model.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Map<String, Value>,
    /// Always `callback`, the default: you run the tool and send its result with `meerkat_resume`.
    #[schemars(extend("enum" = [Self::CALLBACK, null]))]
    pub handler: Option<String>,
}

impl ToolHandler {
    /// The only handler.
    pub const CALLBACK: &'static str = "callback";
}

/// Settings of the built-in tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuiltinConfig {
    /// Enable or disable shell tools; the config decides if omitted.
    pub enable_shell: Option<bool>,
    /// Timeout of a shell command, in seconds (default 30).
    #[schemars(range(min = 1))]
    pub shell_timeout_secs: Option<u64>,
}

/// Tools a run may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolOverlayInput {
    /// Allow only these tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Exclude these tools.
    pub blocked_tools: Option<Vec<String>>,
}

/// Decision on a call that is awaiting approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalInput {
    /// The call's id, from `pending_approvals`.
    pub tool_use_id: String,
    /// Whether it may run.
    pub approve: bool,
    /// Expiry time of the question, from `pending_approvals`; if set, only that question is answered.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub expires_at: Option<Timestamp>,
    /// Reason for a denial, for the agent.
    pub reason: Option<String>,
}

/// The result of a pending tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResultInput {
    /// The call's id, from `pending_tool_calls`.
    pub tool_use_id: String,
    /// The result or the error: a string, or a list of text and image blocks.
    pub content: Content,
    /// Whether the tool failed.
    pub is_error: Option<bool>,
}

/// Reply of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RunReply {
    /// The run ended.
    Completed(Box<CompletedReply>),
    /// The run is waiting for the caller to run tools or approve calls.
    Pending(Box<PendingReply>),
}

/// A completed run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CompletedReply {
    /// The agent's answer.
    pub content: Vec<TextBlock>,
    /// The session, for `meerkat_resume`.
    pub session_id: SessionId,
    /// Number of model calls.
    pub turns: u32,
    /// Number of tool calls that were run.
    pub tool_calls: u32,
    /// The structured result, if requested.
    pub structured_output: Option<Value>,
    /// Parts of the schema that the provider does not support.
    pub schema_warnings: Option<Vec<SchemaWarning>>,
    /// The reason a requested structured result is missing.
    pub extraction_error: Option<ExtractionError>,
    /// The session and its realm.
    pub session_ref: String,
    /// The full answer, for `meerkat_blob_get`, if it was truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob_id: Option<BlobId>,
    /// The model that answered.
    pub model: String,
    /// Tokens the session has used so far.
    pub usage: Usage,
    /// Cost of the session so far in US dollars, if the model's price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// Reason the run ended, if the agent did not end it with an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_cause_kind: Option<TerminalCause>,
    /// Notes on how the request was handled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A run that is waiting for the caller.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PendingReply {
    /// Human-readable message.
    pub content: Vec<TextBlock>,
    /// The session, for `meerkat_resume`.
    pub session_id: SessionId,
    /// `pending_tool_call`, or `pending_approval` if calls are awaiting approval.
    pub status: &'static str,
    /// Calls to run, in order.
    pub pending_tool_calls: Vec<PendingCall>,
    /// Calls for the user to approve or deny, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_approvals: Vec<PendingApproval>,
    /// The session and its realm.
    pub session_ref: String,
    /// The model that made the calls.
    pub model: String,
    /// Tokens the session has used so far.
    pub usage: Usage,
    /// Cost of the session so far in US dollars, if the model's price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// A call for the caller to run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PendingCall {
    /// The call's id, for `tool_results` or `approvals`.
    pub tool_use_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// The arguments; if too long, they are truncated, and `args_blob_id` has the full arguments.
    pub args: Value,
    /// The full arguments, for `meerkat_blob_get`, if they were truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_blob_id: Option<BlobId>,
}

/// A call that is awaiting approval.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PendingApproval {
    /// The call, for `approvals`.
    #[serde(flatten)]
    pub call: PendingCall,
    /// Time at which the call counts as denied.
    #[schemars(with = "String")]
    pub expires_at: Timestamp,
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TextBlock {
    /// Always `text`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

impl TextBlock {
    /// Creates a text block.
    pub fn new(text: impl Into<String>) -> Self {
        Self { kind: "text", text: text.into() }
    }
}

impl PendingReply {
    /// Status of a run that is waiting for results.
    pub const STATUS: &'static str = "pending_tool_call";
    /// Human-readable message.
    pub const SENTENCE: &'static str = "Agent is waiting for tool results";
    /// Status of a run that is awaiting approval.
    pub const APPROVAL_STATUS: &'static str = "pending_approval";
    /// Human-readable message.
    pub const APPROVAL_SENTENCE: &'static str = "Agent is waiting for the user's approval";
}

impl RunReply {
    /// Returns the session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        match self {
            Self::Completed(reply) => reply.session_id,
            Self::Pending(reply) => reply.session_id,
        }
    }

    /// Returns the calls that await approval, if the run waits for nothing else.
    #[must_use]
    pub fn awaiting(&self) -> &[PendingApproval] {
        match self {
            Self::Pending(reply) if reply.pending_tool_calls.is_empty() => &reply.pending_approvals,
            _ => &[],
        }
    }
}

impl JsonSchema for RunReply {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RunReply".into()
    }

    /// Returns one object with the fields of both variants, because clients drop tools whose root is a union.
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut properties = Map::new();
        for schema in [CompletedReply::json_schema(generator), PendingReply::json_schema(generator)] {
            if let Some(own) = schema.get("properties").and_then(Value::as_object) {
                for (name, property) in own {
                    properties.entry(name.clone()).or_insert_with(|| property.clone());
                }
            }
        }
        let schema =
            json!({ "type": "object", "properties": properties, "required": ["content", "session_id"] });
        schemars::Schema::try_from(schema).unwrap_or_default()
    }
}

/// Request that names a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRequest {
    /// The session.
    pub session_id: SessionId,
}

/// A session's state and usage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReadReply {
    /// The session.
    pub session_id: SessionId,
    /// The session and its realm.
    pub session_ref: String,
    /// State of the session.
    pub state: SessionState,
    /// Tokens the session has used.
    pub billing: Billing,
}

/// A session's state.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SessionState {
    /// The session.
    pub session_id: SessionId,
    /// Creation time, in Unix seconds.
    pub created_at: i64,
    /// Time of the last change, in Unix seconds.
    pub updated_at: i64,
    /// Number of messages in the session.
    pub message_count: u64,
    /// Whether a run is active.
    pub is_active: bool,
    /// The session's model.
    pub model: String,
    /// Model provider.
    pub provider: Provider,
    /// The last text the agent wrote.
    pub last_assistant_text: Option<String>,
    /// The full text, for `meerkat_blob_get`, if it was truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_assistant_blob_id: Option<BlobId>,
    /// Labels of the session.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Calls that are waiting for the caller's results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_tool_calls: Vec<PendingCall>,
    /// Calls that are awaiting the user's approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_approvals: Vec<PendingApproval>,
    /// Whether it is archived.
    pub archived: bool,
}

/// Token usage of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Billing {
    /// Total number of tokens.
    pub total_tokens: u64,
    /// Tokens by kind.
    pub usage: Usage,
}

/// Request for part of a session's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRequest {
    /// The session.
    pub session_id: SessionId,
    /// Number of messages to skip, from the oldest (default 0).
    pub offset: Option<u64>,
    /// Maximum number of messages to return (default: all that fit in a reply).
    pub limit: Option<u64>,
}

/// Part of a session's history.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HistoryReply {
    /// The session.
    pub session_id: SessionId,
    /// The session and its realm.
    pub session_ref: String,
    /// Number of messages in the session.
    pub message_count: u64,
    /// Number of messages skipped.
    pub offset: u64,
    /// Maximum number of messages requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Whether more messages follow.
    pub has_more: bool,
    /// `offset` of the next page, if more messages follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The messages, oldest first. Long messages are truncated; their `blob_id` has the full message.
    #[schemars(with = "Vec<Message>")]
    pub messages: Vec<Value>,
}

/// Request to list sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsRequest {
    /// Maximum number of sessions to return (default: all that fit in a reply).
    pub limit: Option<u64>,
    /// Number of sessions to skip.
    pub offset: Option<u64>,
    /// Only sessions with all of these labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Also list archived sessions.
    pub include_archived: Option<bool>,
}

/// Sessions, most recently changed first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionsReply {
    /// The sessions.
    pub sessions: Vec<SessionEntry>,
    /// `offset` of the next page, if more sessions match than fit in a reply or were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionEntry {
    /// The session.
    pub session_id: SessionId,
    /// The session and its realm.
    pub session_ref: String,
    /// Creation time, in Unix seconds.
    pub created_at: i64,
    /// Time of the last change, in Unix seconds.
    pub updated_at: i64,
    /// Number of messages in the session.
    pub message_count: u64,
    /// Total number of tokens used.
    pub total_tokens: u64,
    /// Whether a run is active.
    pub is_active: bool,
    /// Whether calls are waiting for results or approval.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_waiting: bool,
    /// Labels of the session.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether it is archived.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

/// A requested interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InterruptReply {
    /// The session.
    pub session_id: SessionId,
    /// Always true; a session without an active run is an error.
    pub interrupted: bool,
}

/// An archived session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArchiveReply {
    /// The session.
    pub session_id: SessionId,
    /// Always true.
    pub archived: bool,
}
