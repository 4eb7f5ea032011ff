//! The state of a session between runs, and its stored form.

use meerkat_contracts::{SkillKey, ToolHandler};
use meerkat_core::run::{CallIntent, Progress, StoredCall};
use meerkat_core::{ApprovalPolicy, CompletedCall, Message, Provider};
use meerkat_store::{CallRow, MessageRow, SessionRow};
use meerkat_tools::FileAccess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;

/// The settings of a session. Fields may be added with a default; none may change its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionSettings {
    /// The session's model.
    pub(crate) model: String,
    /// The model's provider.
    pub(crate) provider: Provider,
    /// The session's own system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system_prompt: Option<String>,
    /// Additional sections of the system prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) instructions: Vec<String>,
    /// Skills in the system prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) preload_skills: Vec<SkillKey>,
    /// Maximum output tokens per step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u32>,
    /// Provider parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) provider_params: Option<Map<String, Value>>,
    /// Maximum retries for an invalid structured output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) structured_output_retries: Option<u32>,
    /// The caller's tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<ToolHandler>,
    /// Whether built-in tools are enabled; defaults to the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) builtins: Option<bool>,
    /// Access of the built-in file tools; defaults to full access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<FileAccess>,
    /// Whether compacted messages are remembered; defaults to the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<bool>,
    /// Whether shell tools are enabled; defaults to the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shell: Option<bool>,
    /// Time limit of shell commands, in seconds; defaults to the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shell_timeout_secs: Option<u64>,
    /// The approval policy for calls; defaults to the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approvals: Option<ApprovalPolicy>,
    /// The process that created the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance_id: Option<String>,
    /// The config's generation when the session was created.
    #[serde(default)]
    pub(crate) config_generation: u64,
}

pub(crate) fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(record).map_err(Error::Encode)
}

fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|source| Error::Record { what, source, file: None })
}

pub(crate) fn settings(row: &SessionRow) -> Result<SessionSettings, Error> {
    decode("session settings", &row.settings)
}

pub(crate) fn progress(row: &SessionRow) -> Result<Progress, Error> {
    decode("session totals", &row.progress)
}

pub(crate) fn message(row: &MessageRow) -> Result<Message, Error> {
    decode("message", &row.message)
}

pub(crate) fn call(row: &CallRow) -> Result<StoredCall, Error> {
    let intent: CallIntent = decode("tool call", &row.call)?;
    let result: Option<CompletedCall> =
        row.result.as_ref().map(|bytes| decode("tool result", bytes)).transpose()?;
    Ok(StoredCall { intent, result })
}
