//! The clock port: the runtime's only source of time.

use std::time::Duration;

use crate::{BoxFuture, Timestamp};

/// Source of the current time and of timers.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Completes after the given duration.
    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()>;
}
