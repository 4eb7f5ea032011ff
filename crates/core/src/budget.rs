//! Budgets of runs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Usd;

/// Limits of a run; each is optional.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetLimits {
    /// Maximum number of tokens, input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum duration in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_secs: Option<u64>,
    /// Maximum number of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// Maximum cost in US dollars, if the model's price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.000_001))]
    pub max_cost_usd: Option<Usd>,
}

impl BudgetLimits {
    /// Returns the time limit.
    #[must_use]
    pub fn max_duration(&self) -> Option<Duration> {
        self.max_duration_secs.map(Duration::from_secs)
    }

    /// Returns these limits, with unset ones taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            max_tokens: self.max_tokens.or(other.max_tokens),
            max_duration_secs: self.max_duration_secs.or(other.max_duration_secs),
            max_tool_calls: self.max_tool_calls.or(other.max_tool_calls),
            max_cost_usd: self.max_cost_usd.or(other.max_cost_usd),
        }
    }
}

/// Type of the limit in a budget warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetType {
    /// Tokens.
    Tokens,
    /// Time.
    Time,
    /// Tool calls.
    ToolCalls,
    /// Money, counted in millionths of a dollar.
    Cost,
}
