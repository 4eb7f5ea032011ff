//! The section `hooks`.

use meerkat_core::HookEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Commands, URLs, and functions called at hook points of every run. Only the owner can change them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HooksConfig {
    /// Time limit of hooks without their own, in milliseconds.
    pub default_timeout_ms: u64,
    /// Maximum size of a hook's input and of its output, in bytes.
    pub payload_max_bytes: usize,
    /// Maximum number of hooks running in the background.
    pub background_max_concurrency: usize,
    /// Whether clients of a server may use `hooks_override` to add commands and URLs to a run and to disable
    /// guardrails.
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
