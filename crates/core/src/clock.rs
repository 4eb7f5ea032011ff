//! The clock port: the only way the runtime learns the time.

use std::time::Duration;

use crate::{BoxFuture, Timestamp};

/// Tells the time and waits.
pub trait Clock: Send + Sync {
    /// Returns the time now.
    fn now(&self) -> Timestamp;

    /// Returns when the duration has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()>;
}
