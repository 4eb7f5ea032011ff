//! Records of the store: the state of a session between runs, its stored form, and errors of records.

use std::path::{Path, PathBuf};

use meerkat_contracts::{SkillKey, ToolHandler};
use meerkat_core::run::{CallIntent, Progress, StoredCall};
use meerkat_core::{ApprovalPolicy, CompletedCall, ErrorKind, Message, ModelInfo, Provider};
use meerkat_store::{CallRow, MessageRow, SessionRow, Store};
use meerkat_tools::FileAccess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::coded::Coded;

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

impl SessionSettings {
    /// Creates the settings of a new session.
    pub(crate) fn new(model: &ModelInfo, instance_id: Option<String>, config_generation: u64) -> Self {
        Self {
            model: model.id.clone(),
            provider: model.provider,
            system_prompt: None,
            instructions: Vec::new(),
            preload_skills: Vec::new(),
            max_tokens: None,
            provider_params: None,
            structured_output_retries: None,
            tools: Vec::new(),
            builtins: None,
            files: None,
            memory: None,
            shell: None,
            shell_timeout_secs: None,
            approvals: None,
            instance_id,
            config_generation,
        }
    }
}

/// Error of a stored record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The store rejected the request or failed.
    #[error(transparent)]
    Store(#[from] meerkat_store::Error),
    /// A stored record cannot be read.
    #[error("cannot read the stored {what}{}: {source}", in_file(file.as_deref()))]
    Unreadable {
        /// Kind of record.
        what: &'static str,
        /// The decoding error.
        source: serde_json::Error,
        /// The file that contains it, if known.
        file: Option<PathBuf>,
    },
    /// A record cannot be encoded.
    #[error("internal error: cannot encode a record: {0}")]
    Encode(serde_json::Error),
}

impl Coded for RecordError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => Coded::kind(error),
            Self::Unreadable { .. } => ErrorKind::StoreError,
            Self::Encode(_) => ErrorKind::Internal,
        }
    }

    fn data(&self) -> Option<Value> {
        if let Self::Store(error) = self { error.data() } else { None }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Store(error) => return Coded::hint(error),
            Self::Unreadable { what: "config", .. } => "replace it with `rkat config set`",
            Self::Unreadable { source, .. } if source.is_data() => {
                "a newer version may have written it; `rkat doctor` checks the file"
            }
            Self::Unreadable { .. } => {
                "it is damaged: move the realm's directory aside, then restore a backup with `rkat realm restore FILE`; \
                 `rkat doctor` checks it"
            }
            Self::Encode(_) => return None,
        };
        Some(hint.to_owned())
    }
}

impl RecordError {
    /// Adds the file to the error of a record that cannot be decoded, or replaces it with the damage that a quick check
    /// of the file finds.
    pub(crate) async fn explain(self, store: &dyn Store) -> Self {
        let Self::Unreadable { what, source, .. } = self else { return self };
        match store.examine().await {
            Ok(file) => Self::Unreadable { what, source, file },
            Err(damage) => damage.into(),
        }
    }
}

/// Formats a file for an error message, if it is known.
fn in_file(file: Option<&Path>) -> String {
    file.map(|file| format!(" in `{}`", file.display())).unwrap_or_default()
}

/// Explains the error of a result, if it has one.
pub(crate) async fn explain_result<T>(
    store: &dyn Store,
    result: Result<T, RecordError>,
) -> Result<T, RecordError> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.explain(store).await),
    }
}

pub(crate) fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, RecordError> {
    serde_json::to_vec(record).map_err(RecordError::Encode)
}

pub(crate) fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(bytes).map_err(|source| RecordError::Unreadable { what, source, file: None })
}

pub(crate) fn settings(row: &SessionRow) -> Result<SessionSettings, RecordError> {
    decode("session settings", &row.settings)
}

pub(crate) fn progress(row: &SessionRow) -> Result<Progress, RecordError> {
    decode("session totals", &row.progress)
}

pub(crate) fn message(row: &MessageRow) -> Result<Message, RecordError> {
    decode("message", &row.message)
}

pub(crate) fn call(row: &CallRow) -> Result<StoredCall, RecordError> {
    let intent: CallIntent = decode("tool call", &row.call)?;
    let result: Option<CompletedCall> =
        row.result.as_ref().map(|bytes| decode("tool result", bytes)).transpose()?;
    Ok(StoredCall { intent, result })
}
