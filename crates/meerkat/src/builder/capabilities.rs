//! The capabilities of this build.

use meerkat_capabilities::{CapabilityId, Declaration, Presence};
use meerkat_contracts::CapabilityReport;
use meerkat_store::Backend;

use crate::capabilities::Capabilities;
use crate::config::Config;
#[cfg(feature = "skills")]
use crate::{
    secrets::SecretSource,
    tools::{Skills, SkillsOptions},
};

/// Returns the capabilities of this build for a config and a realm backend. Does not need a store.
#[must_use]
pub fn capabilities(config: &Config, backend: Backend) -> CapabilityReport {
    list().report(config, backend)
}

/// Returns the capabilities of this build.
pub(super) fn list() -> Capabilities {
    let presence_of = |is_compiled: bool, feature| {
        if is_compiled { Presence::Always } else { Presence::Absent(feature) }
    };
    let presence = |id| match id {
        CapabilityId::Sessions | CapabilityId::Streaming | CapabilityId::StructuredOutput => Presence::Always,
        CapabilityId::SessionStore => presence_of(cfg!(feature = "session-store"), "session-store"),
        CapabilityId::SessionCompaction => {
            presence_of(cfg!(feature = "session-compaction"), "session-compaction")
        }
        CapabilityId::Hooks => Presence::Always,
        CapabilityId::Builtins => Presence::Gated("tools.builtins_enabled"),
        CapabilityId::Shell => Presence::Gated("tools.shell_enabled"),
        CapabilityId::Comms => Presence::Absent("comms"),
        CapabilityId::MemoryStore if cfg!(feature = "memory-store-session") => {
            Presence::Gated("memory.enabled")
        }
        CapabilityId::MemoryStore => Presence::Absent("memory-store-session"),
        CapabilityId::Schedule => Presence::Absent("schedule"),
        CapabilityId::WorkGraph => Presence::Absent("workgraph"),
        CapabilityId::Skills if cfg!(feature = "skills") => Presence::Gated("skills.enabled"),
        CapabilityId::Skills => Presence::Absent("skills"),
        CapabilityId::Registry if cfg!(feature = "registry") => Presence::Gated("registry.enabled"),
        CapabilityId::Registry => Presence::Absent("registry"),
        CapabilityId::McpLive => presence_of(cfg!(feature = "mcp"), "mcp"),
    };
    Capabilities(
        CapabilityId::ALL.iter().map(|id| Declaration { id: *id, presence: presence(*id) }).collect(),
    )
}

#[cfg(feature = "skills")]
impl Skills {
    /// Creates the skills from the directories and the bundled skills.
    #[must_use]
    pub fn new(options: SkillsOptions) -> Self {
        Self::with_capabilities(options, &list())
    }

    /// Applies a config to the catalog without a runtime, where skills are only served and nothing is run.
    pub async fn refresh_with(&self, config: &Config, secrets: &SecretSource) {
        let available = list().available(config, Backend::Sqlite);
        self.refresh(&config.skills, available, secrets).await;
    }
}

#[cfg(feature = "skills")]
impl Default for Skills {
    fn default() -> Self {
        Self::new(SkillsOptions::default())
    }
}
