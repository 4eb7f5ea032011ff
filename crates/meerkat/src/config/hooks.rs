//! Hooks in the config.

use meerkat_core::HookEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Programs, addresses and functions that are asked or told at points of every run. Only the owner changes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HooksConfig {
    /// How long a hook may take that does not say, in milliseconds.
    pub default_timeout_ms: u64,
    /// How long what a hook is told and what it answers may be, in bytes.
    pub payload_max_bytes: usize,
    /// How many hooks may be at work in the background.
    pub background_max_concurrency: usize,
    /// Whether clients of a server may add programs and addresses to a run, and leave guardrails out, with
    /// `hooks_override`.
    pub client_overrides: bool,
    /// The hooks.
    pub entries: Vec<HookEntry>,
}

impl Default for HooksConfig {
    fn default() -> Self {
        Self {
            default_timeout_ms: 5000,
            payload_max_bytes: 131_072,
            background_max_concurrency: 32,
            client_overrides: false,
            entries: Vec::new(),
        }
    }
}
