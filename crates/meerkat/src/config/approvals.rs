//! The section `approvals`.

use std::time::Duration;

use meerkat_core::{ApprovalPolicy, ToolImpact};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::HumanDuration;
use crate::text::matches;

/// Approval of tool calls before they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsConfig {
    /// `never` requires no approvals, `on-request` requires them for tools that can modify or delete, `always` for all
    /// tools. A tool of an MCP server without annotations counts as one that can modify.
    pub policy: ApprovalPolicy,
    /// Time to wait for an approval; after that, the call is denied.
    pub timeout: HumanDuration,
    /// Tools that run without approval: names, in which `*` matches any characters.
    pub allow: Vec<String>,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self {
            policy: ApprovalPolicy::Never,
            timeout: HumanDuration(Duration::from_secs(600)),
            allow: Vec::new(),
        }
    }
}

impl ApprovalsConfig {
    /// Returns `true` if a call of this tool needs an approval under a policy.
    pub(crate) fn requires_approval(&self, policy: ApprovalPolicy, tool: &str, impact: ToolImpact) -> bool {
        policy.asks_for(impact) && !self.allow.iter().any(|pattern| matches(pattern, tool))
    }
}

#[cfg(test)]
mod tests {
    use super::{ApprovalPolicy, ApprovalsConfig, ToolImpact};

    #[test]
    fn allowed_tools_need_no_approval() {
        let config = ApprovalsConfig { allow: vec!["read_*".to_owned()], ..ApprovalsConfig::default() };
        let asks = |tool| config.requires_approval(ApprovalPolicy::Always, tool, ToolImpact::ReadOnly);
        assert_eq!([asks("read_file"), asks("shell")], [false, true]);
    }
}
