//! The retry policy: which failures are retried, how often, and after which delay.

use std::time::Duration;

use meerkat_core::{ModelError, ModelErrorKind, Provider, RetryDecision, RetryPolicy};

fn error(kind: ModelErrorKind, retry_after: Option<Duration>) -> ModelError {
    ModelError { kind, provider: Provider::Other, status: None, retry_after, message: "no".to_owned() }
}

const fn after(millis: u64) -> RetryDecision {
    RetryDecision::After(Duration::from_millis(millis))
}

#[test]
fn retries_depend_on_error_kind() {
    use RetryDecision::{Exhausted, GiveUp};
    let backoff = [after(500), after(1000), after(2000), Exhausted];
    let rate = [after(30_000), after(30_000), after(30_000), Exhausted];
    let once = [after(500), Exhausted, Exhausted, Exhausted];
    let never = [GiveUp; 4];
    for (kind, decisions) in [
        (ModelErrorKind::RateLimited, rate),
        (ModelErrorKind::Overloaded, backoff),
        (ModelErrorKind::NetworkTimeout, backoff),
        (ModelErrorKind::CallTimeout, backoff),
        (ModelErrorKind::Connection, backoff),
        (ModelErrorKind::Server, backoff),
        (ModelErrorKind::StreamCut, backoff),
        (ModelErrorKind::Malformed, backoff),
        (ModelErrorKind::Incomplete, once),
        (ModelErrorKind::ContextOverflow, never),
        (ModelErrorKind::Auth, never),
        (ModelErrorKind::BadRequest, never),
        (ModelErrorKind::ContentFilter, never),
    ] {
        let policy = RetryPolicy::default();
        let error = error(kind, None);
        let decided = [1, 2, 3, 4].map(|attempt| policy.decide(&error, attempt, 0.5));
        assert_eq!(decided, decisions, "{kind:?}");
    }
}

#[test]
fn zero_retries_makes_failures_final() {
    let policy = RetryPolicy { max_retries: 0, ..RetryPolicy::default() };
    for (kind, decision) in [
        (ModelErrorKind::Overloaded, RetryDecision::Exhausted),
        (ModelErrorKind::Incomplete, RetryDecision::Exhausted),
        (ModelErrorKind::Auth, RetryDecision::GiveUp),
    ] {
        assert_eq!(policy.decide(&error(kind, None), 1, 0.5), decision, "{kind:?}");
    }
}

#[test]
fn longer_provider_delay_is_used() {
    let seconds = |n| Some(Duration::from_secs(n));
    let cases = [
        (ModelErrorKind::Overloaded, seconds(7), after(7_000)),
        (ModelErrorKind::Overloaded, seconds(0), after(500)),
        // The delay requested by the provider may exceed the maximum delay.
        (ModelErrorKind::Overloaded, seconds(90), after(90_000)),
        (ModelErrorKind::RateLimited, seconds(90), after(90_000)),
        // A requested delay replaces the minimum of thirty seconds for rate limits.
        (ModelErrorKind::RateLimited, seconds(7), after(7_000)),
        (ModelErrorKind::RateLimited, None, after(30_000)),
        (ModelErrorKind::Auth, seconds(7), RetryDecision::GiveUp),
    ];
    for (kind, retry_after, decision) in cases {
        let decided = RetryPolicy::default().decide(&error(kind, retry_after), 1, 0.5);
        assert_eq!(decided, decision, "{kind:?} {retry_after:?}");
    }
}

#[test]
fn spread_is_ten_percent_either_way() {
    let policy = RetryPolicy::default();
    let error = error(ModelErrorKind::Server, None);
    for (attempt, spread, millis) in [
        (1, 0.0, 450),
        (1, 0.5, 500),
        (1, 1.0, 550),
        (3, 0.0, 1800),
        (3, 1.0, 2200),
        (1, -4.0, 450),
        (1, 4.0, 550),
    ] {
        let decided = policy.decide(&error, attempt, spread);
        assert_eq!(decided, after(millis), "{attempt} {spread}");
    }
}

#[test]
fn delays_grow_up_to_the_maximum() {
    let policy = RetryPolicy { max_retries: 5000, ..RetryPolicy::default() };
    let error = error(ModelErrorKind::Server, None);
    for (attempt, millis) in [(6, 16_000), (7, 30_000), (8, 30_000), (5000, 30_000)] {
        assert_eq!(policy.decide(&error, attempt, 0.5), after(millis), "{attempt}");
        let at_most = policy.decide(&error, attempt, 1.0);
        assert!(matches!(at_most, RetryDecision::After(d) if d <= policy.max_delay), "{at_most:?}");
    }
}
