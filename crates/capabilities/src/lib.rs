//! Types with which the crates of Meerkat declare their capabilities.
//!
//! A capability has one id and one description. The crate that owns it declares whether it is compiled in and
//! which config key gates it; the facade collects the declarations and resolves them to a status. This crate depends
//! on neither the config document nor the crates that declare capabilities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $description:literal;)*) => {
        /// Capability of a build.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum CapabilityId { $($(#[$doc])* #[serde(rename = $id)] $variant,)* }

        impl CapabilityId {
            /// All capabilities, in report order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the id used in reports and in skills.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// Returns a short description.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* }
            }
        }
    };
}

capabilities! {
    /// Sessions.
    Sessions = "sessions", "Session lifecycle management";
    /// Events during a run.
    Streaming = "streaming", "Event streaming during runs";
    /// Answers that conform to a schema.
    StructuredOutput = "structured_output", "Structured output extraction with JSON schema";
    /// Hooks called at defined points of a run.
    Hooks = "hooks", "Lifecycle hooks for tool and turn events";
    /// Built-in tools.
    Builtins = "builtins", "Built-in tools (task management)";
    /// The shell tools.
    Shell = "shell", "Shell command execution";
    /// Messages between agents.
    Comms = "comms", "Inter-agent communication";
    /// Searchable memory.
    MemoryStore = "memory_store", "Semantic memory indexing";
    /// Schedules.
    Schedule = "schedule", "Durable schedules and occurrence delivery";
    /// The work graph.
    WorkGraph = "work_graph", "WorkGraph tools and companion workflow";
    /// Sessions that survive the process.
    SessionStore = "session_store", "Durable sessions in the realm's store";
    /// Compaction of long conversations.
    SessionCompaction = "session_compaction", "Automatic compaction of long conversations";
    /// Skills.
    Skills = "skills", "Skill loading and injection";
    /// MCP servers added to a running session.
    McpLive = "mcp_live", "Live MCP servers in sessions";
    /// Skills and prompts registered by workers.
    Registry = "registry", "Skills and prompts registered by other programs";
}

/// Availability of a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CapabilityStatus {
    /// Compiled in and enabled.
    Available,
    /// Compiled in but disabled.
    DisabledByPolicy {
        /// The policy that disables it.
        description: String,
    },
    /// Not compiled in.
    NotCompiled {
        /// The cargo feature that enables it.
        feature: String,
    },
    /// Not supported by the protocol in use.
    NotSupportedByProtocol {
        /// The reason.
        reason: String,
    },
}

/// Declaration of a capability by the crate that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// The capability's id.
    pub id: CapabilityId,
    /// Conditions under which it is available.
    pub presence: Presence,
}

/// Conditions under which a capability is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Always available.
    Always,
    /// Available if this config key enables it.
    Gated(&'static str),
    /// Not compiled in; this cargo feature is missing.
    Absent(&'static str),
}

impl Declaration {
    /// Resolves the declaration to a status; `gate` returns whether a config key is enabled.
    pub fn status(&self, gate: impl Fn(&str) -> bool) -> CapabilityStatus {
        match self.presence {
            Presence::Always => CapabilityStatus::Available,
            Presence::Gated(key) if gate(key) => CapabilityStatus::Available,
            Presence::Gated(_) => {
                CapabilityStatus::DisabledByPolicy { description: "Disabled by config".to_owned() }
            }
            Presence::Absent(feature) => CapabilityStatus::NotCompiled { feature: feature.to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statuses_serialize_to_wire_format() {
        let declare = |presence| Declaration { id: CapabilityId::Shell, presence };
        let status = |presence, on| serde_json::to_value(declare(presence).status(|_| on)).unwrap();
        assert_eq!(status(Presence::Always, false), json!("Available"));
        assert_eq!(status(Presence::Gated("tools.shell_enabled"), true), json!("Available"));
        assert_eq!(
            status(Presence::Gated("tools.shell_enabled"), false),
            json!({"DisabledByPolicy": {"description": "Disabled by config"}})
        );
        assert_eq!(status(Presence::Absent("comms"), true), json!({"NotCompiled": {"feature": "comms"}}));
    }

    #[test]
    fn ids_match_their_wire_names() {
        for id in CapabilityId::ALL {
            assert_eq!(serde_json::to_value(id).unwrap(), json!(id.as_str()));
        }
    }
}
