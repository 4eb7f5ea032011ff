//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Polls until the condition holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
    }
}
