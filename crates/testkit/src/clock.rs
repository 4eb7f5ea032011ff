//! A clock that a test can stop and push.

use std::time::Duration;

use meerkat_core::{BoxFuture, Clock, Timestamp};
use tokio::time::Instant;

/// A clock that goes with tokio's: in a test with paused time it stands still, and jumps when all wait.
#[derive(Debug, Clone, Copy)]
pub struct TestClock {
    epoch: Timestamp,
    started: Instant,
}

impl TestClock {
    /// Starts at 2026-01-01.
    #[must_use]
    pub fn start() -> Self {
        let epoch = Timestamp::from_second(1_767_225_600).expect("a time of this century");
        Self { epoch, started: Instant::now() }
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.epoch + self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
