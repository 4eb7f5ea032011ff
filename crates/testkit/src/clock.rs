//! A clock that a test can pause and advance.

use std::time::Duration;

use meerkat_core::{BoxFuture, Clock, Timestamp};
use tokio::time::Instant;

/// A clock driven by tokio's: in a test with paused time it stands still, and advances once every task is idle.
#[derive(Debug, Clone, Copy)]
pub struct TestClock {
    epoch: Timestamp,
    started: Instant,
}

impl TestClock {
    /// Starts the clock at 2026-01-01.
    #[must_use]
    pub fn start() -> Self {
        let epoch = Timestamp::from_second(1_767_225_600).expect("a valid timestamp");
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
