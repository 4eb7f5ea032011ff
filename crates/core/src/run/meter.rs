//! Budget tracking of a run.

use super::effect::BudgetUsage;
use super::machine::Run;
use crate::{AgentEvent, BudgetType, Usage, Usd};

impl Run {
    pub(super) fn count(&mut self, usage: Usage) {
        self.progress.usage += usage;
        self.spent = self.spent.saturating_add(usage.total());
        self.warn(BudgetType::Tokens, self.spent);
        if let Some(price) = self.settings.price {
            let cost = price.cost(usage);
            self.progress.cost += cost;
            self.spent_money += cost;
            self.warn(BudgetType::Cost, self.spent_money.micros());
        }
    }

    /// Counts a model call that returned a response, regardless of its purpose.
    pub(super) fn count_step(&mut self) {
        self.steps += 1;
        self.progress.steps += 1;
    }

    /// Returns the number of model calls that the run may still make.
    pub(super) fn calls_left(&self) -> u32 {
        self.settings.max_steps.saturating_sub(self.steps)
    }

    /// Returns `true` if a call for a summary leaves at least one call for the step that follows.
    pub(super) fn has_calls_for_summary(&self) -> bool {
        self.calls_left() >= 2
    }

    /// Returns `true` if a budget allows no further model call: its tokens or its money are used up, or the run
    /// requested more tool calls than were left.
    pub(super) fn is_spent(&self) -> bool {
        let budget = &self.settings.budget;
        self.refused
            || budget.max_tokens.is_some_and(|limit| self.spent >= limit)
            || budget.max_cost_usd.is_some_and(|limit| self.spent_money >= limit)
    }

    /// Returns the budget used so far.
    pub(super) fn used(&self) -> BudgetUsage {
        let elapsed = self.effects.now().duration_since(self.began_at).as_millis();
        BudgetUsage {
            steps: self.steps,
            tool_calls: self.tool_calls,
            tokens: self.spent,
            cost: self.spent_money,
            elapsed_ms: u64::try_from(elapsed).unwrap_or(0),
            refused: self.refused,
        }
    }

    pub(super) fn tool_calls_left(&self) -> u32 {
        self.settings.budget.max_tool_calls.map_or(u32::MAX, |limit| limit.saturating_sub(self.tool_calls))
    }

    /// Warns once at the threshold and once at the limit.
    pub(super) fn warn(&mut self, budget_type: BudgetType, used: u64) {
        let (limit, slot) = match budget_type {
            BudgetType::Tokens => (self.settings.budget.max_tokens, 0),
            BudgetType::ToolCalls => (self.settings.budget.max_tool_calls.map(u64::from), 1),
            BudgetType::Cost => (self.settings.budget.max_cost_usd.map(Usd::micros), 2),
            BudgetType::Time => return,
        };
        let Some(limit) = limit.filter(|limit| *limit > 0) else {
            return;
        };
        let percent = used as f32 / limit as f32;
        let level = [1.0, self.settings.warn_at].into_iter().find(|level| percent >= *level);
        if let Some(level) = level.filter(|level| *level > self.warned[slot]) {
            self.warned[slot] = level;
            self.effects.emit(AgentEvent::BudgetWarning { budget_type, used, limit, percent });
        }
    }
}
