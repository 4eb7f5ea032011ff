//! Event streams on the wire.

use meerkat_core::{SessionId, StreamId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Request to open a stream of a session's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamOpenRequest {
    /// The session; it need not be running.
    pub session_id: SessionId,
    /// Start after the event with this `seq`, as far back as events are retained; 0 for all of them. Only new events
    /// if omitted. Events that are no longer retained are replaced by one `stream_truncated` event.
    pub after: Option<u64>,
}

/// An opened stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamOpenReply {
    /// The stream, for `meerkat_event_stream_read`.
    pub stream_id: StreamId,
    /// The session.
    pub session_id: SessionId,
}

/// Request to read from a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamReadRequest {
    /// The stream, from `meerkat_event_stream_open`.
    pub stream_id: StreamId,
    /// Maximum time to wait for an event, in milliseconds (default 5000; 0 returns immediately).
    #[schemars(range(max = 600_000))]
    pub timeout_ms: Option<u64>,
    /// Wait indefinitely, whatever `timeout_ms` is.
    pub no_timeout: Option<bool>,
    /// Return up to this many events, in `events`; if omitted, one event is returned, in `event`.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// Outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamStatus {
    /// An event was returned.
    Event,
    /// No event arrived in time; read again.
    Timeout,
    /// No more events will arrive, and the stream is closed.
    Closed,
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StreamReadReply {
    /// The stream.
    pub stream_id: StreamId,
    /// The session.
    pub session_id: SessionId,
    /// `event`, `timeout`, or `closed`.
    pub status: StreamStatus,
    /// The event: `event_id`, `source`, `source_id`, `seq`, `timestamp_ms`, and the `payload` with its `type`. If it
    /// is too long, it is truncated, and its `blob_id` has the full event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub event: Option<Value>,
    /// The events, if `limit` was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub events: Option<Vec<Value>>,
}

/// Request to close a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCloseRequest {
    /// The stream.
    pub stream_id: StreamId,
}

/// A closed stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamCloseReply {
    /// The stream.
    pub stream_id: StreamId,
    /// Whether it was open.
    pub closed: bool,
    /// The session, if it was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}
