//! What can be asked of a run, how it is watched, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meerkat_contracts::{SkillKey, ToolHandler};
use meerkat_core::run::{Report, RunInput};
use meerkat_core::{
    ApprovalPolicy, BudgetLimits, HookEntry, OutputSchema, Provider, RunId, SchemaWarning, SessionId,
    TraceContext,
};
use meerkat_tools::FileAccess;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::events::EventSink;
use crate::Error;

/// What a new session is like.
#[derive(Debug, Clone, Default)]
pub struct NewSessionOptions {
    /// What it can be found by.
    pub labels: BTreeMap<String, String>,
}

/// One run: what to do, and what to change in the session for it and from then on.
#[derive(Debug, Clone, Default)]
pub struct TurnOptions {
    /// What the user says and brings.
    pub input: RunInput,
    /// Another model from now on.
    pub model: Option<String>,
    /// Who serves it.
    pub provider: Option<Provider>,
    /// Another system prompt from now on.
    pub system_prompt: Option<String>,
    /// Other instructions from now on.
    pub instructions: Option<Vec<String>>,
    /// Another output limit from now on.
    pub max_tokens: Option<u32>,
    /// Other provider parameters from now on.
    pub provider_params: Option<Map<String, Value>>,
    /// Other tools of the caller from now on.
    pub tools: Option<Vec<ToolHandler>>,
    /// Built-in tools on or off from now on; the config decides where nobody ever said.
    pub builtins: Option<bool>,
    /// What the built-in file tools may do from now on; everything unless a run of the session set it.
    pub files: Option<FileAccess>,
    /// Memory of what compaction leaves out on or off from now on; the config decides where nobody ever said.
    pub memory: Option<bool>,
    /// Shell tools on or off from now on; the config decides where nobody ever said. They come with built-in tools only.
    pub shell: Option<bool>,
    /// How long shell commands may take from now on, in seconds.
    pub shell_timeout_secs: Option<u64>,
    /// What the structured output of this run must fit.
    pub output_schema: Option<OutputSchema>,
    /// How often to ask again for it, from now on.
    pub structured_output_retries: Option<u32>,
    /// Which tools this run may use.
    pub overlay: ToolOverlay,
    /// What this run may use up.
    pub budget: BudgetLimits,
    /// Other skills in the system prompt from now on.
    pub preload_skills: Option<Vec<SkillKey>>,
    /// Skills that are put before what the user says.
    pub skills: Vec<SkillKey>,
    /// Other hooks for this run.
    pub hooks: HookWishes,
    /// Which calls need an approval from now on; the config decides where nobody ever said.
    pub approvals: Option<ApprovalPolicy>,
}

impl TurnOptions {
    /// Rejects options that no model, provider, or caller could work with.
    ///
    /// # Errors
    /// Returns `INVALID_PARAMS` with the field and what it must be.
    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.max_tokens == Some(0) {
            let message = "`max_tokens` must be greater than 0; omit it to use the config's limit";
            return Err(Error::Arguments(message.to_owned()));
        }
        validate_tools(self.tools.as_deref().unwrap_or_default())
    }
}

/// The hooks of a run, as far as they are not those of the config.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookWishes {
    /// Hooks besides those of the config.
    pub entries: Vec<HookEntry>,
    /// The ids of those of the config that are left out.
    pub disable: Vec<String>,
}

/// Which tools a run may use; a block comes before an allowance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverlay {
    /// Only these, if set.
    pub allowed: Option<Vec<String>>,
    /// Not these.
    pub blocked: Vec<String>,
}

impl ToolOverlay {
    /// Says whether there is no tool a run may use.
    pub(super) fn allows_none(&self) -> bool {
        self.allowed.as_ref().is_some_and(Vec::is_empty)
    }

    pub(super) fn allows(&self, name: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|listed| listed == name);
        !listed(&self.blocked) && self.allowed.as_deref().is_none_or(listed)
    }
}

/// Rejects tools of a caller that no provider takes or that no one could run.
///
/// # Errors
/// Returns `INVALID_PARAMS` with the field and what it must be.
pub(crate) fn validate_tools(tools: &[ToolHandler]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if tool.name.is_empty() || tool.name.len() > 64 || !tool.name.bytes().all(fits) {
            let shown: String = tool.name.chars().take(80).collect();
            return Err(Error::Arguments(format!(
                "`tools[{index}].name`: `{shown}` must have 1 to 64 letters, digits, `_` or `-`"
            )));
        }
        if !seen.insert(&tool.name) {
            return Err(Error::Arguments(format!("`tools[{index}].name`: `{}` is there twice", tool.name)));
        }
        if let Some(handler) = tool.handler.as_deref().filter(|handler| *handler != ToolHandler::CALLBACK) {
            let shown: String = handler.chars().take(80).collect();
            return Err(Error::Arguments(format!(
                "`tools[{index}].handler`: unknown handler `{shown}`; use `{}`, or omit the field",
                ToolHandler::CALLBACK
            )));
        }
    }
    Ok(())
}

/// How a run is watched and stopped.
#[derive(Clone, Default)]
pub struct RunControl {
    /// Cancelling it interrupts the run.
    pub cancel: CancellationToken,
    /// Gets the run's events.
    pub events: Option<EventSink>,
    /// What the run is called; a name is made up if none is given.
    pub run_id: Option<RunId>,
    /// Where the caller stands in a trace; the run's span belongs there.
    pub trace: Option<Arc<TraceContext>>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// The session.
    pub session_id: SessionId,
    /// The model that served it.
    pub model: String,
    /// What the caller should know about how the model or the schema was taken.
    pub warnings: Vec<String>,
    /// What the provider cannot take of the output schema.
    pub schema_warnings: Vec<SchemaWarning>,
    /// What came of it: completed or pending. Failures and interrupts are errors.
    pub report: Report,
}
