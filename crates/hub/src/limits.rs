//! How much a worker may ask of the hub.

use std::time::Duration;

/// Bounds on every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest message in bytes.
    pub message_bytes: usize,
    /// How many bytes may wait for a worker that does not read before it is dropped.
    pub queued_bytes: usize,
    /// How many messages a second are taken from a worker; the rest wait in its socket.
    pub messages_per_second: u32,
    /// How many workers may be connected.
    pub connections: usize,
    /// How many functions a worker may register.
    pub functions: usize,
    /// How many triggers a worker may register.
    pub triggers: usize,
    /// How many calls of a worker may be unanswered: what functions that call each other in a circle run into.
    pub calls: usize,
    /// How long a call may take, whatever its caller thinks.
    pub call_time: Duration,
    /// How many calls may wait in a queue.
    pub queued_calls: usize,
    /// How many channels may be open.
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
