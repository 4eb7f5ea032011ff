//! Memory in the config.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What agents remember of what compaction takes out of their sight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Whether they remember.
    pub enabled: bool,
    /// Whether an agent finds what was said in its own session, or in all of the realm.
    pub scope: MemoryScope,
}

/// Whose memories an agent finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    /// Those of its own session.
    #[default]
    Session,
    /// Those of every session of the realm.
    Realm,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { enabled: true, scope: MemoryScope::Session }
    }
}
