//! Callbacks that the core has scheduled in this process, run in order and outside the hub's lock.
//!
//! Callbacks of the embedder may be slow, panic, or call the hub. They are queued until the thread that scheduled them
//! has released the lock. One thread at a time runs them, so they run in the order in which they were scheduled.

use std::collections::VecDeque;

/// An action to perform in this process.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// Queue of pending callbacks.
#[derive(Default)]
pub(crate) struct Callbacks {
    waiting: VecDeque<Callback>,
    is_running: bool,
}

impl Callbacks {
    pub(crate) fn push(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.waiting.push_back(Box::new(callback));
    }

    /// Returns `true` if no callback is pending or running.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.is_running
    }

    /// Returns `true` if the calling thread must run the pending callbacks.
    pub(crate) fn claim(&mut self) -> bool {
        let claimed = !self.waiting.is_empty() && !self.is_running;
        self.is_running |= claimed;
        claimed
    }

    /// Returns the next callback; after `None`, another thread may claim them.
    pub(crate) fn next(&mut self) -> Option<Callback> {
        let next = self.waiting.pop_front();
        self.is_running = next.is_some();
        next
    }
}
