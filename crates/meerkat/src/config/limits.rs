//! What may be used up at most, whatever a run asks for.

use meerkat_core::{BudgetLimits, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::span::Span;

/// No config may make replies shorter than this.
pub(crate) const LEAST_REPLY_BYTES: usize = 1024;

/// What may be used up at most, and how long replies may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Tokens of any run, whatever it asks for.
    pub budget: Option<u64>,
    /// Time of any run, whatever it asks for.
    pub max_duration: Option<Span>,
    /// US dollars of any run, whatever it asks for, as far as its model's price is known.
    pub max_cost_usd: Option<Usd>,
    /// Sessions that one process runs at once; 100000 if not set.
    pub max_sessions: Option<usize>,
    /// Bytes of a text in a reply; a longer one is shown as its head and tail and kept whole as a blob.
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
    /// Returns how many sessions one process may run at once.
    #[must_use]
    pub fn max_sessions(&self) -> usize {
        self.max_sessions.unwrap_or(100_000)
    }

    /// Lowers what a run may use up to what any run may.
    #[must_use]
    pub fn cap(&self, limits: BudgetLimits) -> BudgetLimits {
        let lower = |asked: Option<u64>, most: Option<u64>| match (asked, most) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        };
        let most = self.max_duration.map(|span| span.0.as_secs().max(1));
        BudgetLimits {
            max_tokens: lower(limits.max_tokens, self.budget),
            max_duration_secs: lower(limits.max_duration_secs, most),
            max_tool_calls: limits.max_tool_calls,
            max_cost_usd: match (limits.max_cost_usd, self.max_cost_usd) {
                (Some(asked), Some(most)) => Some(asked.min(most)),
                (asked, most) => asked.or(most),
            },
        }
    }
}
