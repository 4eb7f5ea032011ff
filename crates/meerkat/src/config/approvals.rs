//! The section `approvals`.

use std::time::Duration;

use meerkat_core::{ApprovalPolicy, ToolImpact};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::span::Span;
use crate::pattern::matches;

/// Which tool calls somebody must approve before they are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsConfig {
    /// `never` asks for none, `on-request` for those of tools that may change or delete things, `always` for all. A
    /// tool of an MCP server that says nothing of itself may change things.
    pub policy: ApprovalPolicy,
    /// How long a call waits; then it counts as denied.
    pub timeout: Span,
    /// Tools that are run without asking: names, in which `*` stands for any letters.
    pub allow: Vec<String>,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self { policy: ApprovalPolicy::Never, timeout: Span(Duration::from_secs(600)), allow: Vec::new() }
    }
}

impl ApprovalsConfig {
    /// Says whether a call of this tool needs an approval, under a policy.
    pub(crate) fn asks_for(&self, policy: ApprovalPolicy, tool: &str, impact: ToolImpact) -> bool {
        policy.asks_for(impact) && !self.allow.iter().any(|pattern| matches(pattern, tool))
    }
}

#[cfg(test)]
mod tests {
    use super::{ApprovalPolicy, ApprovalsConfig, ToolImpact};

    #[test]
    fn what_is_allowed_is_not_asked_for() {
        let config = ApprovalsConfig { allow: vec!["read_*".to_owned()], ..ApprovalsConfig::default() };
        let asks = |tool| config.asks_for(ApprovalPolicy::Always, tool, ToolImpact::ReadOnly);
        assert_eq!([asks("read_file"), asks("shell")], [false, true]);
    }
}
