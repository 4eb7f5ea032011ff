//! Calls of the model, and when to retry them.

use super::effect::{Effect, Effects, ModelTask, Stop};
use super::meter::{Meter, since};
use super::settings::RunSettings;
use crate::{AgentEvent, ModelError, Retry, RetryDecision, RetryFailure, RetryPolicy, Timestamp};

/// The latest model call.
#[derive(Debug)]
pub(super) struct ModelCalls {
    retry: RetryPolicy,
    /// Varies the delays of concurrent runs.
    seed: u32,
    started_at: Timestamp,
    /// Error of the call, if it failed and will be retried.
    failure: Option<String>,
}

impl ModelCalls {
    pub(super) fn new(settings: &RunSettings, now: Timestamp) -> Self {
        let seed = settings.run_id.uuid().as_u128() as u32;
        Self { retry: settings.retry, seed, started_at: now, failure: None }
    }

    pub(super) fn start(&mut self, task: ModelTask, effects: &mut Effects) {
        self.started_at = effects.now();
        effects.push(Effect::CallModel(task));
    }

    pub(super) fn succeeded(&mut self) {
        self.failure = None;
    }

    /// Decides about a retry and, if there is one, starts the delay. A run without time for the delay ends at once.
    pub(super) fn failed(
        &mut self,
        error: &ModelError,
        attempt: u32,
        meter: &Meter,
        effects: &mut Effects,
    ) -> RetryDecision {
        let mixed = self.seed.wrapping_mul(attempt.wrapping_add(meter.steps()).wrapping_mul(0x9E37_79B9) | 1);
        let spread = f64::from(mixed) / f64::from(u32::MAX);
        let decision = self.retry.decide(error, attempt, spread);
        if let RetryDecision::After(_) = decision {
            self.failure = Some(error.to_string());
            let plan = self.retry.plan(error, attempt, spread);
            if meter.time_left(effects.now()).is_some_and(|left| left <= plan.delay()) {
                effects.push(Effect::Stop(Stop::Deadline));
                return decision;
            }
            let failure = RetryFailure::new(error, since(self.started_at, effects.now()));
            effects.emit(AgentEvent::Retrying {
                attempt,
                max_attempts: plan.max_retries,
                error: error.to_string(),
                delay_ms: plan.selected_delay_ms,
                retry: Some(Retry { failure, plan }),
            });
            effects.push(Effect::Sleep(plan.delay()));
        }
        decision
    }

    /// Returns the error of the latest call, if it failed and will be retried.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
