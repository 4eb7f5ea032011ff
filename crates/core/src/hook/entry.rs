//! One hook as it is configured.

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
    /// What it is called in events, and how a run leaves it out.
    #[serde(default = "default_id")]
    pub id: String,
    /// Whether it is called at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Where it is called.
    #[serde(default = "default_point")]
    pub point: HookPoint,
    /// Whether the run waits for it.
    #[serde(default)]
    pub mode: HookMode,
    /// What its answer can do.
    #[serde(default)]
    pub capability: HookCapability,
    /// A lower one is called first.
    #[serde(default = "default_priority")]
    pub priority: i32,
    /// How long it may take, in milliseconds; `hooks.default_timeout_ms` if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What its failure means: `fail_open` lets the run go on, `fail_closed` counts as a refusal. If not set, a
    /// guardrail closes and an observer opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// What is called.
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
    /// Returns what its failure means.
    #[must_use]
    pub fn on_failure(&self) -> FailurePolicy {
        self.failure_policy.unwrap_or(match self.capability {
            HookCapability::Observe => FailurePolicy::FailOpen,
            HookCapability::Guardrail => FailurePolicy::FailClosed,
        })
    }

    /// Returns how long it may take.
    #[must_use]
    pub fn timeout(&self, default_ms: u64) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(default_ms))
    }
}

/// Whether a run waits for a hook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookMode {
    /// It waits.
    #[default]
    Foreground,
    /// It does not.
    Background,
}

/// What a hook's answer can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookCapability {
    /// Nothing: it is told.
    #[default]
    Observe,
    /// It can refuse.
    #[serde(alias = "rewrite")]
    Guardrail,
}

/// What the failure of a hook means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailurePolicy {
    /// The run goes on.
    FailOpen,
    /// It counts as a refusal.
    FailClosed,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum HookRuntime {
    /// A function of the program that embeds the runtime.
    InProcess {
        /// The name it was registered under.
        name: String,
    },
    /// A program: it reads the invocation from its input and writes its answer to its output.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
        /// Variables for it. Shown masked.
        #[serde(default)]
        env: SecretMap,
    },
    /// An address: it is sent the invocation and answers.
    Http {
        /// The address.
        url: String,
        /// How it is sent.
        #[serde(default = "post")]
        method: String,
        /// Headers. Shown masked.
        #[serde(default)]
        headers: SecretMap,
    },
}

impl HookEntry {
    /// Tells what it is given in secret.
    pub fn tell_secrets(&self, redactor: &Redactor) {
        let secrets = match &self.runtime {
            HookRuntime::InProcess { .. } => return,
            HookRuntime::Command { command, args, env } => {
                redactor.learn_args(command, args);
                env
            }
            HookRuntime::Http { url, headers, .. } => {
                redactor.learn_url(url);
                headers
            }
        };
        secrets.expose().for_each(|(name, value)| redactor.learn_named(name, value));
    }
}

fn post() -> String {
    "POST".to_owned()
}

/// Values that are given to a hook and shown to nobody.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretMap(BTreeMap<String, String>);

impl SecretMap {
    /// What stands for a value where it is shown.
    pub const MASK: &'static str = "***";

    /// Returns the values.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Takes the values out of a text.
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
