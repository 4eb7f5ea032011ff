//! The section `memory`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Memory of messages removed by compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Whether compacted messages are remembered.
    pub enabled: bool,
    /// The memories an agent can search: those of its `session`, or of the whole `realm`.
    pub scope: MemoryScope,
}

/// The memories an agent can search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    /// Memories of the agent's session.
    #[default]
    Session,
    /// Memories of all sessions of the realm.
    Realm,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { enabled: true, scope: MemoryScope::Session }
    }
}
