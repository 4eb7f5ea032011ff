//! Sessions on the wire: requests and replies of the session operations.
//!
//! In requests a missing field and `null` mean the same.

use std::collections::BTreeMap;

use meerkat_core::run::ExtractionError;
use meerkat_core::{
    ApprovalPolicy, BlobId, BudgetLimits, Content, Message, Provider, SchemaWarning, SessionId,
    TerminalCause, Timestamp, Usage, Usd,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{HookOverrides, SkillKey, SkillRef};

/// Starts a session and runs its first prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRequest {
    /// What the agent is asked to do: a text, or a list of text, image and video blocks.
    pub prompt: Content,
    /// Replaces the default system prompt.
    pub system_prompt: Option<String>,
    /// The model, for example `claude-opus-4-6`; the config's default if left out. `offline` needs no key.
    pub model: Option<String>,
    /// How many tokens the model may write in one step.
    pub max_tokens: Option<u32>,
    /// Who serves the model; usually follows from its name.
    pub provider: Option<Provider>,
    /// A JSON Schema for a structured result beside the text, or a wrapper `{schema, name, strict, compat}`.
    pub output_schema: Option<Map<String, Value>>,
    /// How often to ask again for a structured result that does not fit (default 2).
    pub structured_output_retries: Option<u32>,
    /// Send the run's events as notifications while it goes on.
    pub stream: Option<bool>,
    /// Log the run's events on the server's stderr.
    pub verbose: Option<bool>,
    /// Tools of yours that the agent may call; a call ends the run with `pending_tool_calls`.
    pub tools: Option<Vec<ToolHandler>>,
    /// Built-in tools on or off; the config decides if left out.
    pub enable_builtins: Option<bool>,
    /// Memory of what compaction leaves out on or off; the config decides if left out.
    pub enable_memory: Option<bool>,
    /// Settings of the built-in tools.
    pub builtin_config: Option<BuiltinConfig>,
    /// Keep the session alive for messages of other agents; needs `comms_name`.
    #[serde(alias = "host_mode")]
    pub keep_alive: Option<bool>,
    /// The agent's name among other agents.
    pub comms_name: Option<String>,
    /// Hooks of this run only.
    pub hooks_override: Option<HookOverrides>,
    /// What the session can be found by later.
    pub labels: Option<BTreeMap<String, String>>,
    /// Further sections for the system prompt.
    pub additional_instructions: Option<Vec<String>>,
    /// Parameters for the provider, kept for the session's later runs.
    pub provider_params: Option<Map<String, Value>>,
    /// Which calls wait for an approval: `never`, `on-request` or `always`. It holds for the session, and only where it is
    /// stricter than the config.
    pub approval_policy: Option<ApprovalPolicy>,
    /// What the run may use up.
    pub budget_limits: Option<BudgetLimits>,
    /// Skills to put into the system prompt.
    pub preload_skills: Option<Vec<SkillKey>>,
    /// Skills to give to this run.
    pub skill_refs: Option<Vec<SkillRef>>,
    /// No longer taken; use `skill_refs`.
    pub skill_references: Option<Vec<String>>,
}

/// A tool that the caller runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolHandler {
    /// The tool's name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its input.
    pub input_schema: Map<String, Value>,
    /// Who runs it: `callback`, the default and the only one, means you do, and give the result to `meerkat_resume`.
    pub handler: Option<String>,
}

impl ToolHandler {
    /// The only handler.
    pub const CALLBACK: &'static str = "callback";
}

/// Settings of the built-in tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuiltinConfig {
    /// Shell tools on or off; the config decides if left out.
    pub enable_shell: Option<bool>,
    /// How long a shell command may take (default 30).
    pub shell_timeout_secs: Option<u64>,
}

/// Continues a session, or gives it the results of pending tool calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeRequest {
    /// The session.
    pub session_id: String,
    /// What to do next, as a text or a list of blocks; may be empty when `tool_results` or `approvals` are given.
    #[serde(default)]
    pub prompt: Content,
    /// The results of the pending tool calls, every one of them.
    pub tool_results: Option<Vec<ToolResultInput>>,
    /// What the user decided about the calls in `pending_approvals`, every one of them. Leave `prompt` empty.
    pub approvals: Option<Vec<ApprovalInput>>,
    /// Your tools; those of the last run are kept if left out or empty.
    pub tools: Option<Vec<ToolHandler>>,
    /// Send the run's events as notifications while it goes on.
    pub stream: Option<bool>,
    /// Log the run's events on the server's stderr.
    pub verbose: Option<bool>,
    /// Built-in tools on or off; as before if left out.
    pub enable_builtins: Option<bool>,
    /// Memory of what compaction leaves out on or off; as before if left out.
    pub enable_memory: Option<bool>,
    /// Settings of the built-in tools; as before if left out.
    pub builtin_config: Option<BuiltinConfig>,
    /// Keep the session alive for messages of other agents; as before if left out.
    #[serde(alias = "host_mode")]
    pub keep_alive: Option<bool>,
    /// The agent's name among other agents; as before if left out.
    pub comms_name: Option<String>,
    /// Another model for the rest of the session.
    pub model: Option<String>,
    /// How many tokens the model may write in one step; as before if left out.
    pub max_tokens: Option<u32>,
    /// Who serves the model; usually follows from its name.
    pub provider: Option<Provider>,
    /// Hooks of this run only.
    pub hooks_override: Option<HookOverrides>,
    /// Replaces the system prompt for the rest of the session.
    pub system_prompt: Option<String>,
    /// A JSON Schema for a structured result of this run.
    pub output_schema: Option<Map<String, Value>>,
    /// How often to ask again for a structured result that does not fit; as before if left out.
    pub structured_output_retries: Option<u32>,
    /// Further sections for the system prompt, for the rest of the session.
    pub additional_instructions: Option<Vec<String>>,
    /// Parameters for the provider, merged into those of the session; `null` removes one.
    pub provider_params: Option<Map<String, Value>>,
    /// Which calls wait for an approval from now on; as before if left out, and only where it is stricter than the config.
    pub approval_policy: Option<ApprovalPolicy>,
    /// What this run may use up.
    pub budget_limits: Option<BudgetLimits>,
    /// Skills to put into the system prompt.
    pub preload_skills: Option<Vec<SkillKey>>,
    /// Skills to give to this run.
    pub skill_refs: Option<Vec<SkillRef>>,
    /// No longer taken; use `skill_refs`.
    pub skill_references: Option<Vec<String>>,
    /// Which tools this run may use.
    #[serde(alias = "turn_tool_overlay")]
    pub flow_tool_overlay: Option<ToolOverlayInput>,
}

/// Which tools a run may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolOverlayInput {
    /// Only these.
    pub allowed_tools: Option<Vec<String>>,
    /// Not these.
    pub blocked_tools: Option<Vec<String>>,
}

/// What was decided about a call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalInput {
    /// The call's id, from `pending_approvals`.
    pub tool_use_id: String,
    /// Whether it may be run.
    pub approve: bool,
    /// When the question expires, from `pending_approvals`; if given, only that question is answered.
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<Timestamp>,
    /// Why not, for the agent.
    pub reason: Option<String>,
}

/// The result of a pending tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResultInput {
    /// The call's id, from `pending_tool_calls`.
    pub tool_use_id: String,
    /// The result, or what went wrong: a text, or a list of text and image blocks.
    pub content: Content,
    /// Whether the tool failed.
    pub is_error: Option<bool>,
}

/// What a run gives back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RunReply {
    /// It ended.
    Completed(Box<CompletedReply>),
    /// It waits for you to run tools.
    Pending(Box<PendingReply>),
}

/// A run that ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CompletedReply {
    /// The agent's answer.
    pub content: Vec<TextBlock>,
    /// The session, for `meerkat_resume`.
    pub session_id: SessionId,
    /// How many model calls were made.
    pub turns: u32,
    /// How many tool calls were run.
    pub tool_calls: u32,
    /// The structured result, if one was asked for.
    pub structured_output: Option<Value>,
    /// What a provider could not take of the schema.
    pub schema_warnings: Option<Vec<SchemaWarning>>,
    /// Why there is no structured result although one was asked for.
    pub extraction_error: Option<ExtractionError>,
    /// The session with its realm.
    pub session_ref: String,
    /// The whole answer, for `meerkat_blob_get`, if it was too long to be shown whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob_id: Option<BlobId>,
    /// The model that answered.
    pub model: String,
    /// What the session has used so far.
    pub usage: Usage,
    /// What it has cost so far in US dollars, if the price of its model is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// What ended the run, if not the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_cause_kind: Option<TerminalCause>,
    /// What you should know about how the request was taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A run that waits for the caller.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PendingReply {
    /// A sentence for people.
    pub content: Vec<TextBlock>,
    /// The session, for `meerkat_resume`.
    pub session_id: SessionId,
    /// `pending_tool_call`, or `pending_approval` if calls wait for an approval.
    pub status: &'static str,
    /// The calls to run, in order.
    pub pending_tool_calls: Vec<PendingCall>,
    /// The calls that the user is to approve or deny, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_approvals: Vec<PendingApproval>,
    /// The session with its realm.
    pub session_ref: String,
    /// The model that asked.
    pub model: String,
    /// What the session has used so far.
    pub usage: Usage,
    /// What it has cost so far in US dollars, if the price of its model is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// A call the caller is to run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PendingCall {
    /// Its id, for `tool_results`.
    pub tool_use_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments. If they are too long they are shown in part, and `args_blob_id` leads to the whole.
    pub args: Value,
    /// The whole arguments, for `meerkat_blob_get`, if they were too long to be shown whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_blob_id: Option<BlobId>,
}

/// A call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PendingApproval {
    /// The call, for `approvals`.
    #[serde(flatten)]
    pub call: PendingCall,
    /// When it counts as denied.
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
    /// Makes a block.
    pub fn new(text: impl Into<String>) -> Self {
        Self { kind: "text", text: text.into() }
    }
}

impl PendingReply {
    /// The status of a run that waits for results.
    pub const STATUS: &'static str = "pending_tool_call";
    /// The sentence for people.
    pub const SENTENCE: &'static str = "Agent is waiting for tool results";
    /// The status of a run that waits for an approval.
    pub const APPROVAL_STATUS: &'static str = "pending_approval";
    /// The sentence for people.
    pub const APPROVAL_SENTENCE: &'static str = "Agent is waiting for the user's approval";
}

impl JsonSchema for RunReply {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RunReply".into()
    }

    /// One object with the fields of both, because clients drop tools whose root is a union.
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

/// Names a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRequest {
    /// The session.
    pub session_id: String,
}

/// A session's state.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReadReply {
    /// The session.
    pub session_id: SessionId,
    /// The session with its realm.
    pub session_ref: String,
    /// Its state.
    pub state: SessionState,
    /// What it used.
    pub billing: Billing,
}

/// A session's state.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SessionState {
    /// The session.
    pub session_id: SessionId,
    /// When it began, in Unix seconds.
    pub created_at: i64,
    /// When it last changed, in Unix seconds.
    pub updated_at: i64,
    /// How many messages it has.
    pub message_count: u64,
    /// Whether a run is in flight.
    pub is_active: bool,
    /// Its model.
    pub model: String,
    /// Who serves the model.
    pub provider: Provider,
    /// The last text the agent wrote.
    pub last_assistant_text: Option<String>,
    /// The whole of that text, for `meerkat_blob_get`, if it was too long to be shown whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_assistant_blob_id: Option<BlobId>,
    /// What it can be found by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The calls that wait for the caller's results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_tool_calls: Vec<PendingCall>,
    /// The calls that wait for the user's approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_approvals: Vec<PendingApproval>,
    /// Whether it is archived.
    pub archived: bool,
}

/// What a session used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Billing {
    /// Tokens in all.
    pub total_tokens: u64,
    /// Tokens by kind.
    pub usage: Usage,
}

/// Which part of a session's history to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRequest {
    /// The session.
    pub session_id: String,
    /// How many messages to pass over, from the oldest (default 0).
    pub offset: Option<u64>,
    /// How many to give (default all that fit into a reply).
    pub limit: Option<u64>,
}

/// A part of a session's history.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HistoryReply {
    /// The session.
    pub session_id: SessionId,
    /// The session with its realm.
    pub session_ref: String,
    /// How many messages it has.
    pub message_count: u64,
    /// How many were passed over.
    pub offset: u64,
    /// How many were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Whether there are more.
    pub has_more: bool,
    /// The `offset` of the next page, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The messages, oldest first. One that is too long is shown in part, and its `blob_id` leads to the whole.
    #[schemars(with = "Vec<Message>")]
    pub messages: Vec<Value>,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsRequest {
    /// How many to give (default all that fit into a reply).
    pub limit: Option<u64>,
    /// How many to pass over.
    pub offset: Option<u64>,
    /// Only sessions with all of these labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// List archived sessions too.
    pub include_archived: Option<bool>,
}

/// Sessions, the most recently changed first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionsReply {
    /// The sessions.
    pub sessions: Vec<SessionEntry>,
    /// The `offset` of the next page, if there are more than fit into a reply or than were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One session of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionEntry {
    /// The session.
    pub session_id: SessionId,
    /// The session with its realm.
    pub session_ref: String,
    /// When it began, in Unix seconds.
    pub created_at: i64,
    /// When it last changed, in Unix seconds.
    pub updated_at: i64,
    /// How many messages it has.
    pub message_count: u64,
    /// Tokens it used.
    pub total_tokens: u64,
    /// Whether a run is in flight.
    pub is_active: bool,
    /// Whether calls wait for results or an approval.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_waiting: bool,
    /// What it can be found by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether it is archived.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

/// An interrupt that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InterruptReply {
    /// The session.
    pub session_id: SessionId,
    /// Always true; a session with no run in flight is an error.
    pub interrupted: bool,
}

/// A session that was archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArchiveReply {
    /// The session.
    pub session_id: SessionId,
    /// Always true.
    pub archived: bool,
}
