//! Options, control handles, and results of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meerkat_contracts::{SkillKey, ToolHandler};
use meerkat_core::run::{RunInput, RunReport};
use meerkat_core::{
    ApprovalPolicy, BudgetLimits, HookEntry, OutputSchema, Provider, RunId, SchemaWarning, SessionId,
    TraceContext,
};
use meerkat_tools::FileAccess;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::events::EventSink;
use crate::Error;

/// Options of a new session.
#[derive(Debug, Clone, Default)]
pub struct NewSessionOptions {
    /// Labels for finding the session later.
    pub labels: BTreeMap<String, String>,
}

/// Options of one run: its input, and settings for this run or for the session from now on.
#[derive(Debug, Clone, Default)]
pub struct TurnOptions {
    /// The user's prompt and tool results.
    pub input: RunInput,
    /// The session's model from now on.
    pub model: Option<String>,
    /// The model's provider.
    pub provider: Option<Provider>,
    /// The session's system prompt from now on.
    pub system_prompt: Option<String>,
    /// The session's instructions from now on.
    pub instructions: Option<Vec<String>>,
    /// Maximum output tokens per step from now on.
    pub max_tokens: Option<u32>,
    /// Provider parameters from now on.
    pub provider_params: Option<Map<String, Value>>,
    /// The caller's tools from now on.
    pub tools: Option<Vec<ToolHandler>>,
    /// Enables or disables built-in tools from now on. Defaults to the config if no run of the session set it.
    pub builtins: Option<bool>,
    /// Access of the built-in file tools from now on. Defaults to full access if no run of the session set it.
    pub files: Option<FileAccess>,
    /// Enables or disables memory of compacted messages from now on. Defaults to the config if no run of the session
    /// set it.
    pub memory: Option<bool>,
    /// Enables or disables shell tools from now on. Defaults to the config if no run of the session set it. Requires
    /// built-in tools.
    pub shell: Option<bool>,
    /// Time limit of shell commands from now on, in seconds.
    pub shell_timeout_secs: Option<u64>,
    /// Schema of this run's structured output.
    pub output_schema: Option<OutputSchema>,
    /// Maximum retries for an invalid structured output, from now on.
    pub structured_output_retries: Option<u32>,
    /// Allowed and blocked tools of this run.
    pub overlay: ToolOverlay,
    /// Budget limits of this run.
    pub budget: BudgetLimits,
    /// Skills in the system prompt from now on.
    pub preload_skills: Option<Vec<SkillKey>>,
    /// Skills inserted before the user's prompt.
    pub skills: Vec<SkillKey>,
    /// Added and disabled hooks of this run.
    pub hooks: HookOverlay,
    /// The approval policy for calls from now on. Defaults to the config if no run of the session set it.
    pub approvals: Option<ApprovalPolicy>,
}

impl TurnOptions {
    /// Rejects invalid options.
    ///
    /// # Errors
    /// Returns `INVALID_PARAMS` with the field and the accepted values.
    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.max_tokens == Some(0) {
            let message = "`max_tokens` must be greater than 0; omit it to use the config's limit";
            return Err(Error::Arguments(message.to_owned()));
        }
        validate_tools(self.tools.as_deref().unwrap_or_default())
    }
}

/// Changes to the configured hooks for one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOverlay {
    /// Hooks to add to those of the config.
    pub entries: Vec<HookEntry>,
    /// Ids of configured hooks to disable.
    pub disable: Vec<String>,
}

/// Allowed and blocked tools of a run; blocking takes precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverlay {
    /// If set, only these tools are allowed.
    pub allowed: Option<Vec<String>>,
    /// Tools that are blocked.
    pub blocked: Vec<String>,
}

impl ToolOverlay {
    /// Returns `true` if the run may use no tools.
    pub(super) fn allows_none(&self) -> bool {
        self.allowed.as_ref().is_some_and(Vec::is_empty)
    }

    pub(super) fn allows(&self, name: &str) -> bool {
        let contains = |names: &[String]| names.iter().any(|entry| entry == name);
        !contains(&self.blocked) && self.allowed.as_deref().is_none_or(contains)
    }
}

/// Rejects caller tools that providers do not accept or that have an unknown handler.
///
/// # Errors
/// Returns `INVALID_PARAMS` with the field and the accepted values.
pub(crate) fn validate_tools(tools: &[ToolHandler]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if tool.name.is_empty() || tool.name.len() > 64 || !tool.name.bytes().all(is_valid) {
            let name: String = tool.name.chars().take(80).collect();
            return Err(Error::Arguments(format!(
                "`tools[{index}].name`: `{name}` must have 1 to 64 letters, digits, `_` or `-`"
            )));
        }
        if !seen.insert(&tool.name) {
            return Err(Error::Arguments(format!("`tools[{index}].name`: duplicate tool `{}`", tool.name)));
        }
        if let Some(handler) = tool.handler.as_deref().filter(|handler| *handler != ToolHandler::CALLBACK) {
            let handler: String = handler.chars().take(80).collect();
            return Err(Error::Arguments(format!(
                "`tools[{index}].handler`: unknown handler `{handler}`; use `{}`, or omit the field",
                ToolHandler::CALLBACK
            )));
        }
    }
    Ok(())
}

/// Handles for observing and interrupting a run.
#[derive(Clone, Default)]
pub struct RunControl {
    /// Cancelling it interrupts the run.
    pub cancel: CancellationToken,
    /// Callback that receives the run's events.
    pub events: Option<EventSink>,
    /// The run's id; generated if `None`.
    pub run_id: Option<RunId>,
    /// The caller's trace context, used as the parent of the run's span.
    pub trace: Option<Arc<TraceContext>>,
}

/// Result of a run that completed or is pending.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Session id.
    pub session_id: SessionId,
    /// The model that was used.
    pub model: String,
    /// Warnings for the caller, for example about the model or the schema.
    pub warnings: Vec<String>,
    /// Parts of the output schema that the provider does not support.
    pub schema_warnings: Vec<SchemaWarning>,
    /// Report of the outcome: completed or pending. Failures and interrupts are errors.
    pub report: RunReport,
}
