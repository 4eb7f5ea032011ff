//! The retry policy for model calls: one pure function.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ModelError, ModelErrorKind, Provider};

/// Number and timing of retries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Maximum number of retries after the first attempt.
    pub max_retries: u32,
    /// First delay.
    pub initial_delay: Duration,
    /// Maximum computed delay; the provider may ask for longer.
    pub max_delay: Duration,
    /// Factor by which each delay grows.
    pub multiplier: f64,
}

/// Decision about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry after this delay.
    After(Duration),
    /// A retry would fail again.
    GiveUp,
    /// A retry might work, but the retries are used up.
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

/// Minimum delay after a rate limit without a `retry-after` hint.
const RATE_LIMIT_FLOOR: Duration = Duration::from_secs(30);

impl RetryPolicy {
    /// Decides what to do after attempt number `attempt` (starting at 1) failed. `spread` in 0..1 varies the delay by
    /// up to ten percent, so that concurrent runs do not retry at the same time.
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

    /// Returns the delay after attempt number `attempt` failed, with the reasons for it.
    #[must_use]
    pub fn plan(&self, error: &ModelError, attempt: u32, spread: f64) -> RetryPlan {
        let grown = self.initial_delay.as_secs_f64() * self.multiplier.max(1.0).powi(attempt as i32 - 1);
        let spread = spread.clamp(0.0, 1.0).mul_add(0.2, 0.9);
        let jittered = Duration::try_from_secs_f64(grown * spread).unwrap_or(self.max_delay);
        let computed = jittered.min(self.max_delay);
        let is_floored = error.retry_after.is_none()
            && error.kind == ModelErrorKind::RateLimited
            && computed < RATE_LIMIT_FLOOR;
        let floor = if is_floored { RATE_LIMIT_FLOOR } else { Duration::ZERO };
        RetryPlan {
            attempt,
            max_retries: self.max_retries,
            computed_delay_ms: millis(computed),
            selected_delay_ms: millis(computed.max(floor).max(error.retry_after.unwrap_or_default())),
            retry_after_hint_ms: error.retry_after.map(millis),
            rate_limit_floor_applied: is_floored,
            budget_capped: false,
        }
    }
}

/// A failed model call and its planned retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    /// The failure.
    pub failure: RetryFailure,
    /// The planned retry.
    pub plan: RetryPlan,
}

/// A retryable failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryFailure {
    /// Provider that failed.
    pub provider: Provider,
    /// Kind of failure.
    pub kind: RetryKind,
    /// Delay requested by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Duration of the failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Human-readable description.
    pub message: String,
}

/// Kinds of retryable failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryKind {
    /// Too many requests.
    RateLimited,
    /// The network timed out.
    NetworkTimeout,
    /// The call exceeded its time limit.
    CallTimeout,
    /// Any other retryable failure.
    RetryableProviderError,
}

/// Delay before a retry, and the reasons for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryPlan {
    /// Number of the failed attempt, starting at 1.
    pub attempt: u32,
    /// Maximum number of retries.
    pub max_retries: u32,
    /// Delay computed from the retry policy.
    pub computed_delay_ms: u64,
    /// Delay that is applied.
    pub selected_delay_ms: u64,
    /// Delay requested by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_hint_ms: Option<u64>,
    /// Whether the delay was raised to the minimum for rate limits.
    pub rate_limit_floor_applied: bool,
    /// Always `false`: a run ends at once if the delay does not fit into its remaining time.
    pub budget_capped: bool,
}

impl RetryPlan {
    /// Returns the delay that is applied.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        Duration::from_millis(self.selected_delay_ms)
    }
}

impl RetryFailure {
    /// Creates the description of a failed call with this duration.
    #[must_use]
    pub fn new(error: &ModelError, duration: Option<Duration>) -> Self {
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
            duration_ms: duration.map(millis),
            message: error.message.clone(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
