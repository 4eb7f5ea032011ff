//! Limits on workers of the hub.

use std::time::Duration;

/// Limits on every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum message size in bytes.
    pub message_bytes: usize,
    /// Maximum number of unsent bytes for a worker that does not read before it is dropped.
    pub queued_bytes: usize,
    /// Maximum number of messages read per second from a worker; the rest stay in its socket.
    pub messages_per_second: u32,
    /// Maximum number of connected workers.
    pub connections: usize,
    /// Maximum number of functions per worker.
    pub functions: usize,
    /// Maximum number of triggers per worker.
    pub triggers: usize,
    /// Maximum number of unanswered calls per worker; functions that call each other in a circle reach it.
    pub calls: usize,
    /// Maximum duration of a call, whatever timeout its caller uses.
    pub call_time: Duration,
    /// Maximum number of pending calls per queue.
    pub queued_calls: usize,
    /// Maximum number of open channels.
    pub channels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 64 * 1024 * 1024,
            queued_bytes: 256 * 1024 * 1024,
            messages_per_second: 100_000,
            connections: 1024,
            functions: 10_000,
            triggers: 10_000,
            calls: 4096,
            call_time: Duration::from_secs(600),
            queued_calls: 10_000,
            channels: 1024,
        }
    }
}
