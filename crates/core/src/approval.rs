//! Approvals: which calls need one before they run, and the decisions about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, ToolCall};

/// Impact of a tool on the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolImpact {
    /// Only reads.
    ReadOnly,
    /// Adds data, and never modifies or deletes any.
    Additive,
    /// May modify or delete data.
    Destructive,
}

/// Policy for which calls must be approved before they run, from least to most strict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// No calls.
    #[default]
    Never,
    /// Calls of tools that may modify or delete data, or that do not declare their impact.
    OnRequest,
    /// All calls.
    Always,
}

impl ApprovalPolicy {
    /// Returns `true` if a call of a tool with this impact needs approval.
    #[must_use]
    pub const fn asks_for(self, impact: ToolImpact) -> bool {
        match self {
            Self::Never => false,
            Self::OnRequest => matches!(impact, ToolImpact::Destructive),
            Self::Always => true,
        }
    }
}

/// Decision about a call that awaits approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Id of the call.
    pub call: String,
    /// Expiry of the request that this decides, if known: call ids may be reused.
    pub expires_at: Option<Timestamp>,
    /// The decision.
    pub decision: Decision,
}

/// Decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run the call.
    Approve,
    /// Do not run the call, with an optional reason.
    Deny(Option<String>),
}

/// A call that awaits approval.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// The call.
    pub call: ToolCall,
    /// Time after which the call counts as denied.
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{ApprovalPolicy, ToolImpact};

    #[test]
    fn policy_depends_on_tool_impact() {
        let impacts = [ToolImpact::ReadOnly, ToolImpact::Additive, ToolImpact::Destructive];
        let asks = |policy: ApprovalPolicy| impacts.map(|impact| policy.asks_for(impact));
        assert_eq!(asks(ApprovalPolicy::Never), [false, false, false]);
        assert_eq!(asks(ApprovalPolicy::OnRequest), [false, false, true]);
        assert_eq!(asks(ApprovalPolicy::Always), [true, true, true]);
    }
}
