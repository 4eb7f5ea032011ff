//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Longest wait: a commit can take many seconds while others write to the same disk.
const DEADLINE: Duration = Duration::from_secs(180);
/// Pause between two polls, so that polling does not slow down what it waits for.
const PAUSE: Duration = Duration::from_millis(2);

/// Polls until the condition holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(PAUSE);
    }
}
