//! Configuration of one hook.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::{HookPoint, Redactor};

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookEntry {
    /// Id of the hook, in events and for disabling it in a run.
    #[serde(default = "default_id")]
    pub id: String,
    /// Whether the hook is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Point of the run at which it is called.
    #[serde(default = "default_point")]
    pub point: HookPoint,
    /// Whether the run waits for the hook.
    #[serde(default)]
    pub mode: HookMode,
    /// Capability of the hook's output.
    #[serde(default)]
    pub capability: HookCapability,
    /// Order of the calls; lower runs first.
    #[serde(default = "default_priority")]
    pub priority: i32,
    /// Timeout in milliseconds; `hooks.default_timeout_ms` if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Effect of a failure: `fail_open` continues the run, `fail_closed` counts as a denial. If not set, a guardrail
    /// fails closed and an observer fails open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// Function, command, or URL to call.
    pub runtime: HookRuntime,
}

fn default_id() -> String {
    "hook".to_owned()
}

const fn yes() -> bool {
    true
}

const fn default_point() -> HookPoint {
    HookPoint::TurnBoundary
}

const fn default_priority() -> i32 {
    100
}

impl HookEntry {
    /// Returns the effect of a failure.
    #[must_use]
    pub fn on_failure(&self) -> FailurePolicy {
        self.failure_policy.unwrap_or(match self.capability {
            HookCapability::Observe => FailurePolicy::FailOpen,
            HookCapability::Guardrail => FailurePolicy::FailClosed,
        })
    }

    /// Returns the timeout.
    #[must_use]
    pub fn timeout(&self, default_ms: u64) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(default_ms))
    }
}

/// Whether a run waits for a hook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookMode {
    /// The run waits.
    #[default]
    Foreground,
    /// The run continues without waiting.
    Background,
}

/// Capability of a hook's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookCapability {
    /// Nothing: the hook is only notified.
    #[default]
    Observe,
    /// Deny.
    #[serde(alias = "rewrite")]
    Guardrail,
}

/// Effect of a hook failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailurePolicy {
    /// The run continues.
    FailOpen,
    /// The failure counts as a denial.
    FailClosed,
}

/// Function, command, or URL of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum HookRuntime {
    /// A function registered by the embedding application.
    InProcess {
        /// Name under which it was registered.
        name: String,
    },
    /// A command that reads the invocation from stdin and writes its output to stdout.
    Command {
        /// The command.
        command: String,
        /// Arguments.
        #[serde(default)]
        args: Vec<String>,
        /// Environment variables; values are masked when shown.
        #[serde(default)]
        env: SecretMap,
    },
    /// A URL that the invocation is sent to.
    Http {
        /// The URL.
        url: String,
        /// HTTP method.
        #[serde(default = "post")]
        method: String,
        /// Headers; values are masked when shown.
        #[serde(default)]
        headers: SecretMap,
    },
}

impl HookEntry {
    /// Registers the hook's secrets with the redactor.
    pub fn register_secrets(&self, redactor: &Redactor) {
        let secrets = match &self.runtime {
            HookRuntime::InProcess { .. } => return,
            HookRuntime::Command { command, args, env } => {
                redactor.add_args(command, args);
                env
            }
            HookRuntime::Http { url, headers, .. } => {
                redactor.add_url(url);
                headers
            }
        };
        secrets.expose().for_each(|(name, value)| redactor.add_named(name, value));
    }
}

fn post() -> String {
    "POST".to_owned()
}

/// Secret values passed to a hook, and masked everywhere else.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretMap(BTreeMap<String, String>);

impl SecretMap {
    /// Replacement for a value when it is shown.
    pub const MASK: &'static str = "***";

    /// Returns the values.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Replaces the values in a text.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let long = self.0.values().filter(|value| value.len() > 3);
        long.fold(text.to_owned(), |text, value| text.replace(value.as_str(), Self::MASK))
    }
}

impl FromIterator<(String, String)> for SecretMap {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl fmt::Debug for SecretMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|name| (name, Self::MASK))).finish()
    }
}

impl Serialize for SecretMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.keys().map(|name| (name, Self::MASK)))
    }
}
