//! Whether and when to ask a model again: one pure function.

use std::time::Duration;

use crate::{ModelError, ModelErrorKind};

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
        RetryDecision::After(self.delay(error, attempt, spread))
    }

    fn delay(&self, error: &ModelError, attempt: u32, spread: f64) -> Duration {
        let grown = self.initial_delay.as_secs_f64() * self.multiplier.max(1.0).powi(attempt as i32 - 1);
        let spread = spread.clamp(0.0, 1.0).mul_add(0.2, 0.9);
        let wanted = Duration::try_from_secs_f64(grown * spread).unwrap_or(self.max_delay);
        let own = wanted.min(self.max_delay);
        match (error.retry_after, error.kind) {
            (Some(asked), _) => own.max(asked),
            (None, ModelErrorKind::RateLimited) => own.max(RATE_LIMIT_FLOOR),
            (None, _) => own,
        }
    }
}
