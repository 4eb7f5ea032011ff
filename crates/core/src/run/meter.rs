//! The budget of a run: counters, limits, and warnings.

use std::time::Duration;

use super::effect::{BudgetUsage, Effects};
use super::settings::RunSettings;
use crate::{AgentEvent, BudgetLimits, BudgetType, Price, Timestamp, Usage, Usd};

/// The budget of a run, and its use so far.
#[derive(Debug)]
pub(super) struct Meter {
    max_steps: u32,
    budget: BudgetLimits,
    price: Option<Price>,
    warn_at: f32,
    used: BudgetUsage,
    /// Levels of the latest warnings, by type of budget.
    warned: [f32; 4],
    began_at: Timestamp,
}

impl Meter {
    /// Creates the meter of a run that has already used some of its budget.
    pub(super) fn new(settings: &RunSettings, used: BudgetUsage, now: Timestamp) -> Self {
        let &RunSettings { max_steps, budget, price, warn_at, .. } = settings;
        let began_at = now.checked_sub(Duration::from_millis(used.elapsed_ms)).unwrap_or(now);
        Self { max_steps, budget, price, warn_at, used, warned: [0.0; 4], began_at }
    }

    /// Returns the budget used so far.
    pub(super) fn used(&self, now: Timestamp) -> BudgetUsage {
        let elapsed = now.duration_since(self.began_at).as_millis();
        BudgetUsage { elapsed_ms: u64::try_from(elapsed).unwrap_or(0), ..self.used }
    }

    /// Returns the number of model calls that returned a response, regardless of their purpose.
    pub(super) fn steps(&self) -> u32 {
        self.used.steps
    }

    pub(super) fn count_step(&mut self) {
        self.used.steps += 1;
    }

    /// Counts the tokens of a model call, and returns their cost, if the price is known.
    pub(super) fn count_usage(&mut self, usage: Usage, effects: &mut Effects) -> Usd {
        self.used.tokens = self.used.tokens.saturating_add(usage.total());
        self.warn(BudgetType::Tokens, self.used.tokens, self.budget.max_tokens, effects);
        let Some(price) = self.price else {
            return Usd::default();
        };
        let cost = price.cost(usage);
        self.used.cost += cost;
        let limit = self.budget.max_cost_usd.map(Usd::micros);
        self.warn(BudgetType::Cost, self.used.cost.micros(), limit, effects);
        cost
    }

    /// Counts tool calls that start.
    pub(super) fn count_calls(&mut self, count: usize, effects: &mut Effects) {
        self.used.tool_calls += count as u32;
        let limit = self.budget.max_tool_calls.map(u64::from);
        self.warn(BudgetType::ToolCalls, u64::from(self.used.tool_calls), limit, effects);
    }

    /// Returns how many of the `requested` tool calls the run may make. If it may not make all, its budget is exhausted.
    pub(super) fn admit_calls(&mut self, requested: usize) -> usize {
        let limit = self.budget.max_tool_calls.unwrap_or(u32::MAX);
        let allowed = if self.is_spent() { 0 } else { limit.saturating_sub(self.used.tool_calls) as usize };
        self.used.refused |= requested > allowed;
        allowed
    }

    /// Returns `true` if the limit on model calls allows another one.
    pub(super) fn has_steps(&self) -> bool {
        self.used.steps < self.max_steps
    }

    /// Returns `true` if a call for a summary leaves at least one call for the step that follows.
    pub(super) fn can_summarize(&self) -> bool {
        self.max_steps.saturating_sub(self.used.steps) >= 2
    }

    /// Returns `true` if a budget allows no further model call: its tokens or its money are used up, or the run
    /// requested more tool calls than were left.
    pub(super) fn is_spent(&self) -> bool {
        self.used.refused
            || self.budget.max_tokens.is_some_and(|limit| self.used.tokens >= limit)
            || self.budget.max_cost_usd.is_some_and(|limit| self.used.cost >= limit)
    }

    /// Returns the remaining time of the run, or `None` if it has no time limit.
    pub(super) fn time_left(&self, now: Timestamp) -> Option<Duration> {
        let limit = self.budget.max_duration()?;
        Some(limit.saturating_sub(since(self.began_at, now).unwrap_or_default()))
    }

    /// Warns once at the threshold and once at the limit.
    fn warn(&mut self, budget_type: BudgetType, used: u64, limit: Option<u64>, effects: &mut Effects) {
        let Some(limit) = limit.filter(|limit| *limit > 0) else {
            return;
        };
        let percent = used as f32 / limit as f32;
        let level = [1.0, self.warn_at].into_iter().find(|level| percent >= *level);
        let warned = &mut self.warned[budget_type as usize];
        if let Some(level) = level.filter(|level| level > warned) {
            *warned = level;
            effects.emit(AgentEvent::BudgetWarning { budget_type, used, limit, percent });
        }
    }

    /// Warns that the run ends because of its time limit.
    pub(super) fn warn_of_deadline(&self, effects: &mut Effects) {
        if let Some(limit) = self.budget.max_duration_secs {
            let budget_type = BudgetType::Time;
            let used = limit - self.time_left(effects.now()).unwrap_or_default().as_secs().min(limit);
            let percent = used as f32 / limit.max(1) as f32;
            effects.emit(AgentEvent::BudgetWarning { budget_type, used, limit, percent });
        }
    }
}

/// Returns the time between two timestamps, or `None` if the clock went backwards.
pub(super) fn since(earlier: Timestamp, later: Timestamp) -> Option<Duration> {
    Duration::try_from(later.duration_since(earlier)).ok()
}
