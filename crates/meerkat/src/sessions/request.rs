//! The request for a run: its options, and every check of them that needs no state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use meerkat_capabilities::CapabilityId;
use meerkat_contracts::{MAX_OUTPUT_RETRIES, SkillKey, ToolHandler};
use meerkat_core::run::RunInput;
use meerkat_core::{
    Approval, ApprovalPolicy, ApprovalRequest, BoxFuture, BudgetLimits, OutputSchema, Provider, RunId,
    SessionId, TraceContext, excerpt,
};
use meerkat_tools::FileAccess;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::prompt::MAX_SECTION_BYTES;
use crate::Error;
use crate::capabilities::Capabilities;
use crate::events::EventSink;
use crate::hooks::HookOverlay;
use crate::records::SessionSettings;
use crate::request_error::RequestError;
use crate::schema::OutputValidator;
use crate::tools::{ToolOverlay, check_skill_keys, check_tool_names};

/// A request for a run. Every surface builds one.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The session.
    pub target: Target,
    /// Options of the run.
    pub turn: TurnOptions,
    /// Handles for observing and interrupting the run.
    pub control: RunControl,
}

/// The session of a run.
#[derive(Debug, Clone)]
pub enum Target {
    /// A new session.
    New(NewSessionOptions),
    /// An existing session.
    Existing(SessionId),
}

/// Options of a new session.
#[derive(Debug, Clone, Default)]
pub struct NewSessionOptions {
    /// Labels for finding the session later.
    pub labels: BTreeMap<String, String>,
}

macro_rules! turn_options {
    ($(
        $(#[$rule:meta])*
        $wire:ident as $field:ident: $type:ty => $target:ty, $scope:ident, $flag:literal, $run:literal, $resume:literal;
    )*) => {
        /// Options of one run: its input, and settings for this run or for the session from now on.
        #[derive(Debug, Clone, Default)]
        pub struct TurnOptions {
            /// The user's prompt and tool results.
            pub input: RunInput,
            $(#[doc = $run] pub $field: $target,)*
            /// Access of the built-in file tools from now on. Defaults to full access if no run of the session set it.
            pub files: Option<FileAccess>,
            /// Enables or disables shell tools from now on. Defaults to the config if no run of the session set it.
            /// Requires built-in tools.
            pub shell: Option<bool>,
            /// Time limit of shell commands from now on, in seconds.
            pub shell_timeout_secs: Option<u64>,
            /// Allowed and blocked tools of this run.
            pub overlay: ToolOverlay,
            /// Whether the session stays reachable after its run.
            pub keep_alive: Option<bool>,
        }

        impl TurnOptions {
            /// Applies the options that the session keeps as they are.
            pub(super) fn keep_in(&self, settings: &mut SessionSettings) {
                $(keep!($scope, settings.$field, self.$field);)*
                settings.files.keep(&self.files);
                settings.shell.keep(&self.shell);
                settings.shell_timeout_secs.keep(&self.shell_timeout_secs);
            }
        }
    };
}

macro_rules! keep {
    (session, $setting:expr, $option:expr) => {
        $setting.keep(&$option)
    };
    ($scope:ident, $setting:expr, $option:expr) => {};
}

meerkat_contracts::run_options!(turn_options);

/// A setting of a session that an option replaces if it is set.
trait Setting<T> {
    fn keep(&mut self, option: &Option<T>);
}

impl<T: Clone> Setting<T> for Option<T> {
    fn keep(&mut self, option: &Self) {
        if option.is_some() {
            self.clone_from(option);
        }
    }
}

impl<T: Clone> Setting<Self> for Vec<T> {
    fn keep(&mut self, option: &Option<Self>) {
        if let Some(option) = option {
            self.clone_from(option);
        }
    }
}

impl RunRequest {
    /// Rejects options that are invalid or unavailable, instead of ignoring them silently. Returns the validator of the
    /// output schema, if there is one.
    pub(super) fn check(&self, capabilities: &Capabilities) -> Result<Option<OutputValidator>, Error> {
        if let Target::New(options) = &self.target {
            check_labels(&options.labels)?;
        }
        self.turn.check(capabilities)
    }
}

impl TurnOptions {
    fn check(&self, capabilities: &Capabilities) -> Result<Option<OutputValidator>, Error> {
        self.check_comms()?;
        self.check_skills()?;
        let validator = self.output_schema.clone().map(OutputValidator::new).transpose()?;
        if self.structured_output_retries.is_some_and(|retries| retries > MAX_OUTPUT_RETRIES) {
            let message = format!("`structured_output_retries` must be at most {MAX_OUTPUT_RETRIES}");
            return Err(Error::arguments(message));
        }
        if self.memory == Some(true) && !capabilities.has(CapabilityId::MemoryStore) {
            return Err(RequestError::NotCompiled { what: "memory", feature: "memory-store-session" }.into());
        }
        if self.shell_timeout_secs == Some(0) {
            return Err(Error::arguments("`builtin_config.shell_timeout_secs` must be greater than 0"));
        }
        check_instructions(self.instructions.as_deref().unwrap_or_default())?;
        if self.max_tokens == Some(0) {
            let message = "`max_tokens` must be greater than 0; omit it to use the config's limit";
            return Err(Error::arguments(message));
        }
        if self.budget.max_cost_usd.is_some_and(|cost| cost.is_zero()) {
            let message = "`budget_limits.max_cost_usd` must be greater than 0; omit it for no limit";
            return Err(Error::arguments(message));
        }
        check_tools(self.tools.as_deref().unwrap_or_default())?;
        Ok(validator)
    }

    fn check_comms(&self) -> Result<(), RequestError> {
        let has_name = self.comms_name.as_ref().is_some_and(|name| !name.trim().is_empty());
        match (self.keep_alive, has_name) {
            (Some(true), false) => {
                Err(RequestError::Arguments("`keep_alive` needs a `comms_name`".to_owned()))
            }
            (_, true) => {
                Err(RequestError::NotCompiled { what: "communication between agents", feature: "comms" })
            }
            (_, false) => Ok(()),
        }
    }

    fn check_skills(&self) -> Result<(), RequestError> {
        if !self.skill_references.is_empty() {
            let message = "`skill_references` is no longer accepted; use `skill_refs`";
            return Err(RequestError::Arguments(message.to_owned()));
        }
        check_skill_keys("preload_skills", self.preload_skills.as_deref().unwrap_or_default())?;
        check_skill_keys("skill_refs", &self.skills)
    }
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Error> {
    const RESERVED: [&str; 3] = ["mob_id", "role", "meerkat_id"];
    /// Limit on their total size, because they are returned for every session in a list.
    const MAX_BYTES: usize = 8 * 1024;
    let reserved = |key: &&String| RESERVED.contains(&key.as_str()) || key.starts_with("meerkat.");
    if let Some(key) = labels.keys().find(reserved) {
        return Err(Error::arguments(format!(
            "the label `{}` is reserved; choose another name",
            excerpt(key)
        )));
    }
    let length: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    if length > MAX_BYTES {
        let message = format!("`labels` have {length} bytes together, which is more than {MAX_BYTES}");
        return Err(Error::arguments(message));
    }
    Ok(())
}

/// Checks that the instructions fit in a system prompt.
fn check_instructions(instructions: &[String]) -> Result<(), Error> {
    match instructions.iter().position(|text| text.len() > MAX_SECTION_BYTES) {
        Some(index) => Err(Error::arguments(format!(
            "`additional_instructions[{index}]` is longer than {MAX_SECTION_BYTES} bytes"
        ))),
        None => Ok(()),
    }
}

/// Rejects caller tools that providers do not accept or that have an unknown handler.
///
/// # Errors
/// Returns `INVALID_PARAMS` with the field and the accepted values.
fn check_tools(tools: &[ToolHandler]) -> Result<(), RequestError> {
    check_tool_names("tools", tools.iter().map(|tool| &*tool.name))?;
    for (index, tool) in tools.iter().enumerate() {
        if let Some(handler) = tool.handler.as_deref().filter(|handler| *handler != ToolHandler::CALLBACK) {
            return Err(RequestError::Arguments(format!(
                "`tools[{index}].handler`: unknown handler `{}`; use `{}`, or omit the field",
                excerpt(handler),
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
    /// Decides about the calls that need approval. Without it, they end the run.
    pub approver: Option<Arc<dyn Approver>>,
}

impl fmt::Debug for RunControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunControl")
            .field("is_cancelled", &self.cancel.is_cancelled())
            .field("has_events", &self.events.is_some())
            .field("run_id", &self.run_id)
            .field("trace", &self.trace)
            .field("has_approver", &self.approver.is_some())
            .finish()
    }
}

/// Asks the user about calls that need approval.
pub trait Approver: Send + Sync {
    /// Returns the decisions, or `None` to leave the calls pending.
    fn decide<'a>(
        &'a self,
        session: SessionId,
        calls: &'a [ApprovalRequest],
    ) -> BoxFuture<'a, Option<Vec<Approval>>>;
}
