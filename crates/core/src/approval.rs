//! Approvals: which calls somebody must agree to before they are run, and what was said of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, ToolCall};

/// What a tool may do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolImpact {
    /// It only looks.
    ReadOnly,
    /// It adds, and destroys nothing.
    Additive,
    /// It may change or delete what is there.
    Destructive,
}

/// Which calls somebody must approve before they are run; the later, the stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// None.
    #[default]
    Never,
    /// Those of tools that may change or delete things, or do not say that they do not.
    OnRequest,
    /// All.
    Always,
}

impl ApprovalPolicy {
    /// Says whether a call of such a tool needs an approval.
    #[must_use]
    pub const fn asks_for(self, impact: ToolImpact) -> bool {
        match self {
            Self::Never => false,
            Self::OnRequest => matches!(impact, ToolImpact::Destructive),
            Self::Always => true,
        }
    }
}

/// What somebody says of a call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The call's id.
    pub call: String,
    /// When the question expires that this answers, if that is known: ids of calls may come again.
    pub expires_at: Option<Timestamp>,
    /// What is to become of it.
    pub decision: Decision,
}

/// What is to become of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is run.
    Approve,
    /// It is not run, for this reason if there is one.
    Deny(Option<String>),
}

/// A call that waits for an approval.
#[derive(Debug, Clone, PartialEq)]
pub struct AwaitedCall {
    /// The call.
    pub call: ToolCall,
    /// When it counts as denied.
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{ApprovalPolicy, ToolImpact};

    #[test]
    fn a_policy_asks_by_what_a_tool_may_do() {
        let impacts = [ToolImpact::ReadOnly, ToolImpact::Additive, ToolImpact::Destructive];
        let asks = |policy: ApprovalPolicy| impacts.map(|impact| policy.asks_for(impact));
        assert_eq!(asks(ApprovalPolicy::Never), [false, false, false]);
        assert_eq!(asks(ApprovalPolicy::OnRequest), [false, false, true]);
        assert_eq!(asks(ApprovalPolicy::Always), [true, true, true]);
    }
}
