//! Whether and when to ask a model again: one pure function.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ModelError, ModelErrorKind, Provider};

/// How often and how patiently to retry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Retries after the first try.
    pub max_retries: u32,
    /// The first delay.
    pub initial_delay: Duration,
    /// The longest delay we choose ourselves.
    pub max_delay: Duration,
    /// What each delay is multiplied by to get the next.
    pub multiplier: f64,
}

/// What to do about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Ask again after this long.
    After(Duration),
    /// It would fail again.
    GiveUp,
    /// It might work, but we tried often enough.
    Exhausted,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            initial_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            multiplier: 2.0,
        }
    }
}

/// A rate limit without a stated end is waited out at least this long.
const RATE_LIMIT_FLOOR: Duration = Duration::from_secs(30);

impl RetryPolicy {
    /// Decides what to do after try number `attempt` (1 is the first) failed. `spread` in 0..1 places the
    /// delay within ten per cent either way, so that many runs do not come back at once.
    #[must_use]
    pub fn decide(&self, error: &ModelError, attempt: u32, spread: f64) -> RetryDecision {
        let allowed = match error.kind {
            ModelErrorKind::RateLimited
            | ModelErrorKind::Overloaded
            | ModelErrorKind::NetworkTimeout
            | ModelErrorKind::CallTimeout
            | ModelErrorKind::Connection
            | ModelErrorKind::Server
            | ModelErrorKind::StreamCut
            | ModelErrorKind::Malformed => self.max_retries,
            ModelErrorKind::Incomplete => self.max_retries.min(1),
            ModelErrorKind::ContextOverflow
            | ModelErrorKind::Auth
            | ModelErrorKind::BadRequest
            | ModelErrorKind::ContentFilter => return RetryDecision::GiveUp,
        };
        if attempt > allowed {
            return RetryDecision::Exhausted;
        }
        RetryDecision::After(self.plan(error, attempt, spread).delay())
    }

    /// Says how long to wait after try number `attempt` failed, and why so long.
    #[must_use]
    pub fn plan(&self, error: &ModelError, attempt: u32, spread: f64) -> RetryPlan {
        let grown = self.initial_delay.as_secs_f64() * self.multiplier.max(1.0).powi(attempt as i32 - 1);
        let spread = spread.clamp(0.0, 1.0).mul_add(0.2, 0.9);
        let wanted = Duration::try_from_secs_f64(grown * spread).unwrap_or(self.max_delay);
        let own = wanted.min(self.max_delay);
        let is_floored = error.retry_after.is_none()
            && error.kind == ModelErrorKind::RateLimited
            && own < RATE_LIMIT_FLOOR;
        let floor = if is_floored { RATE_LIMIT_FLOOR } else { Duration::ZERO };
        RetryPlan {
            attempt,
            max_retries: self.max_retries,
            computed_delay_ms: millis(own),
            selected_delay_ms: millis(own.max(floor).max(error.retry_after.unwrap_or_default())),
            retry_after_hint_ms: error.retry_after.map(millis),
            rate_limit_floor_applied: is_floored,
            budget_capped: false,
        }
    }
}

/// A failed call of the model, and what is done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    /// What failed.
    pub failure: RetryFailure,
    /// What is done about it.
    pub plan: RetryPlan,
}

/// A failure that is worth another try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryFailure {
    /// Who failed.
    pub provider: Provider,
    /// What sort of failure it is.
    pub kind: RetryKind,
    /// How long the provider asked us to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// How long the call took until it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What happened.
    pub message: String,
}

/// The sorts of failure that are worth another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryKind {
    /// Too many requests.
    RateLimited,
    /// The network did not answer in time.
    NetworkTimeout,
    /// The call took longer than allowed.
    CallTimeout,
    /// Anything else.
    RetryableProviderError,
}

/// When the model is asked again, and why then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryPlan {
    /// The try that failed, from 1.
    pub attempt: u32,
    /// How many retries there may be.
    pub max_retries: u32,
    /// The delay we would choose ourselves.
    pub computed_delay_ms: u64,
    /// The delay that is kept.
    pub selected_delay_ms: u64,
    /// How long the provider asked us to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_hint_ms: Option<u64>,
    /// Whether it is long because a rate limit without a stated end is waited out.
    pub rate_limit_floor_applied: bool,
    /// Whether it is short because the run has no more time than that.
    pub budget_capped: bool,
}

impl RetryPlan {
    /// Returns the delay that is kept.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        Duration::from_millis(self.selected_delay_ms)
    }

    /// Shortens the delay to the time there is left.
    #[must_use]
    pub fn within(mut self, left: Option<Duration>) -> Self {
        if let Some(left) = left.map(millis).filter(|left| *left < self.selected_delay_ms) {
            self.selected_delay_ms = left;
            self.budget_capped = true;
        }
        self
    }
}

impl RetryFailure {
    /// Describes a failed call that took this long.
    #[must_use]
    pub fn new(error: &ModelError, took: Option<Duration>) -> Self {
        let kind = match error.kind {
            ModelErrorKind::RateLimited => RetryKind::RateLimited,
            ModelErrorKind::NetworkTimeout => RetryKind::NetworkTimeout,
            ModelErrorKind::CallTimeout => RetryKind::CallTimeout,
            _ => RetryKind::RetryableProviderError,
        };
        Self {
            provider: error.provider,
            kind,
            retry_after_ms: error.retry_after.map(millis),
            duration_ms: took.map(millis),
            message: error.message.clone(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
