//! What a session remembers between runs, and how it is stored.

use meerkat_contracts::{SkillKey, ToolHandler};
use meerkat_core::run::{Intent, Progress, StoredCall};
use meerkat_core::{ApprovalPolicy, Message, Provider, Settled};
use meerkat_store::{CallRow, MessageRow, SessionRow};
use meerkat_tools::FileAccess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;

/// The settings of a session. Fields may be added with a default; none may change its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionSettings {
    /// The model of its runs.
    pub(crate) model: String,
    /// Who serves it.
    pub(crate) provider: Provider,
    /// Its own system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system_prompt: Option<String>,
    /// Further sections for the system prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) instructions: Vec<String>,
    /// The skills in its system prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) preload_skills: Vec<SkillKey>,
    /// How many tokens the model may write in one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u32>,
    /// Parameters for the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) provider_params: Option<Map<String, Value>>,
    /// How often to ask again for a structured output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) structured_output_retries: Option<u32>,
    /// The caller's tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<ToolHandler>,
    /// Whether it has built-in tools; the config decides if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) builtins: Option<bool>,
    /// What its built-in file tools may do; everything if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<FileAccess>,
    /// Whether it remembers what compaction leaves out; the config decides if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<bool>,
    /// Whether it has shell tools; the config decides if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shell: Option<bool>,
    /// How long its shell commands may take; the config decides if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shell_timeout_secs: Option<u64>,
    /// Which of its calls need an approval; the config decides if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approvals: Option<ApprovalPolicy>,
    /// The process that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance_id: Option<String>,
    /// The config's generation when it was created.
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
    let intent: Intent = decode("tool call", &row.call)?;
    let result: Option<Settled> =
        row.result.as_ref().map(|bytes| decode("tool result", bytes)).transpose()?;
    Ok(StoredCall { intent, result })
}
