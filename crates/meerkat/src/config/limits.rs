//! The section `limits`.

use meerkat_core::{BudgetLimits, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::HumanDuration;

/// Minimum value of `limits.max_reply_bytes`.
pub(crate) const MIN_REPLY_BYTES: usize = 1024;

/// Hard limits on runs and reply size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Maximum tokens of any run.
    pub budget: Option<u64>,
    /// Maximum duration of any run.
    pub max_duration: Option<HumanDuration>,
    /// Maximum cost of any run in US dollars, if its model's price is known.
    pub max_cost_usd: Option<Usd>,
    /// Maximum number of sessions that one process runs at once; 100000 if not set.
    pub max_sessions: Option<usize>,
    /// Maximum size of a text in a reply, in bytes; a longer one is truncated, and the full text is stored as a blob.
    pub max_reply_bytes: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            budget: None,
            max_duration: None,
            max_cost_usd: None,
            max_sessions: None,
            max_reply_bytes: 100 * 1024,
        }
    }
}

impl LimitsConfig {
    /// Returns the maximum number of sessions that one process runs at once.
    #[must_use]
    pub fn max_sessions(&self) -> usize {
        self.max_sessions.unwrap_or(100_000)
    }

    /// Lowers the budget of a run to the hard limits.
    #[must_use]
    pub fn cap(&self, limits: BudgetLimits) -> BudgetLimits {
        let lower = |requested: Option<u64>, max: Option<u64>| match (requested, max) {
            (Some(requested), Some(max)) => Some(requested.min(max)),
            (requested, max) => requested.or(max),
        };
        let max_secs = self.max_duration.map(|span| span.0.as_secs().max(1));
        BudgetLimits {
            max_tokens: lower(limits.max_tokens, self.budget),
            max_duration_secs: lower(limits.max_duration_secs, max_secs),
            max_tool_calls: limits.max_tool_calls,
            max_cost_usd: match (limits.max_cost_usd, self.max_cost_usd) {
                (Some(requested), Some(max)) => Some(requested.min(max)),
                (requested, max) => requested.or(max),
            },
        }
    }
}
