//! What this build has: the one place that knows cargo features.

use meerkat_capabilities::{CapabilityId, Declaration, Presence};

/// Whether long conversations are shortened.
pub(crate) const COMPACTION: bool = cfg!(feature = "session-compaction");

/// Whether sessions can survive the process.
pub(crate) const SESSION_STORE: bool = cfg!(feature = "session-store");

/// Declares every capability, in the order of reports.
pub(crate) fn declarations() -> Vec<Declaration> {
    let built = |yes: bool, feature| {
        if yes { Presence::Always } else { Presence::Absent(feature) }
    };
    let presence = |id| match id {
        CapabilityId::Sessions | CapabilityId::Streaming | CapabilityId::StructuredOutput => Presence::Always,
        CapabilityId::SessionStore => built(SESSION_STORE, "session-store"),
        CapabilityId::SessionCompaction => built(COMPACTION, "session-compaction"),
        CapabilityId::Hooks => Presence::Absent("hooks"),
        CapabilityId::Builtins => Presence::Absent("builtins"),
        CapabilityId::Shell => Presence::Absent("shell"),
        CapabilityId::Comms => Presence::Absent("comms"),
        CapabilityId::MemoryStore => Presence::Absent("memory-store-session"),
        CapabilityId::Schedule => Presence::Absent("schedule"),
        CapabilityId::WorkGraph => Presence::Absent("workgraph"),
        CapabilityId::Skills => Presence::Absent("skills"),
        CapabilityId::McpLive => Presence::Absent("mcp"),
    };
    CapabilityId::ALL.iter().map(|id| Declaration { id: *id, presence: presence(*id) }).collect()
}
