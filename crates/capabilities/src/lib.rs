//! The vocabulary in which the parts of Meerkat declare what they can do.
//!
//! A capability has one id and one description. The crate that owns it declares whether it is compiled in and
//! which config gate governs it; the facade collects the declarations and resolves them to a status. Nothing
//! here knows a config document or a crate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $description:literal;)*) => {
        /// Something a build may be able to do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum CapabilityId { $($(#[$doc])* #[serde(rename = $id)] $variant,)* }

        impl CapabilityId {
            /// Every capability, in the order of reports.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the id used in reports and in skills.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// Says what it is, in a few words.
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
    /// Events while a run goes on.
    Streaming = "streaming", "Event streaming during runs";
    /// Answers that fit a schema.
    StructuredOutput = "structured_output", "Structured output extraction with JSON schema";
    /// Programs called at points of a run.
    Hooks = "hooks", "Lifecycle hooks for tool and turn events";
    /// Built-in tools.
    Builtins = "builtins", "Built-in tools (task management)";
    /// The shell tools.
    Shell = "shell", "Shell command execution";
    /// Messages between agents.
    Comms = "comms", "Inter-agent communication";
    /// Memory that can be searched.
    MemoryStore = "memory_store", "Semantic memory indexing";
    /// Schedules.
    Schedule = "schedule", "Durable schedules and occurrence delivery";
    /// The work graph.
    WorkGraph = "work_graph", "WorkGraph tools and companion workflow";
    /// Sessions that survive the process.
    SessionStore = "session_store", "Durable sessions in the realm's store";
    /// Shortening of long conversations.
    SessionCompaction = "session_compaction", "Automatic compaction of long conversations";
    /// Skills.
    Skills = "skills", "Skill loading and injection";
    /// MCP servers added to a running session.
    McpLive = "mcp_live", "Live MCP servers in sessions";
    /// Skills and prompts that other programs publish.
    Registry = "registry", "Skills and prompts registered by other programs";
}

/// Whether a capability can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CapabilityStatus {
    /// Compiled in and enabled.
    Available,
    /// Compiled in and switched off.
    DisabledByPolicy {
        /// By what.
        description: String,
    },
    /// Not compiled in.
    NotCompiled {
        /// The cargo feature that would.
        feature: String,
    },
    /// The protocol in use cannot carry it.
    NotSupportedByProtocol {
        /// Why.
        reason: String,
    },
}

/// What the owner of a capability says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// Which capability.
    pub id: CapabilityId,
    /// Whether and how it can be had.
    pub presence: Presence,
}

/// Whether and how a capability can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    Always,
    /// It is there if this key of the config says so.
    Gated(&'static str),
    /// It is not compiled in; this cargo feature is missing.
    Absent(&'static str),
}

impl Declaration {
    /// Resolves the declaration; `gate` says whether a config key is on.
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
    fn statuses_have_the_shapes_of_the_wire() {
        let of = |presence| Declaration { id: CapabilityId::Shell, presence };
        let status = |presence, on| serde_json::to_value(of(presence).status(|_| on)).unwrap();
        assert_eq!(status(Presence::Always, false), json!("Available"));
        assert_eq!(status(Presence::Gated("tools.shell_enabled"), true), json!("Available"));
        assert_eq!(
            status(Presence::Gated("tools.shell_enabled"), false),
            json!({"DisabledByPolicy": {"description": "Disabled by config"}})
        );
        assert_eq!(status(Presence::Absent("comms"), true), json!({"NotCompiled": {"feature": "comms"}}));
    }

    #[test]
    fn ids_are_the_wire_names() {
        for id in CapabilityId::ALL {
            assert_eq!(serde_json::to_value(id).unwrap(), json!(id.as_str()));
        }
    }
}
