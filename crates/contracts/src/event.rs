//! Event streams on the wire.

use meerkat_core::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Opens a stream of a session's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamOpenRequest {
    /// The session; it need not be running.
    pub session_id: String,
    /// Begin after the event with this `seq`, with what is still kept; 0 for all of it. Only new events if left
    /// out. What is no longer kept is told as one `stream_truncated` event.
    pub after: Option<u64>,
}

/// A stream that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamOpenReply {
    /// The stream, for `meerkat_event_stream_read`.
    pub stream_id: String,
    /// The session.
    pub session_id: SessionId,
}

/// Reads a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamReadRequest {
    /// The stream, from `meerkat_event_stream_open`.
    pub stream_id: String,
    /// How long to wait for an event, in milliseconds (default 5000, at most 600000; 0 does not wait).
    pub timeout_ms: Option<u64>,
    /// Wait as long as it takes; `timeout_ms` does not count then.
    pub no_timeout: Option<bool>,
    /// Give up to this many events, in `events`; without it one event is given, in `event`.
    pub limit: Option<u32>,
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamStatus {
    /// Here it is.
    Event,
    /// Nothing came in time; read again.
    Timeout,
    /// Nothing will come any more, and the stream is gone.
    Closed,
}

/// What a stream gave.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StreamReadReply {
    /// The stream.
    pub stream_id: String,
    /// The session.
    pub session_id: SessionId,
    /// `event`, `timeout` or `closed`.
    pub status: StreamStatus,
    /// The event: `event_id`, `source`, `source_id`, `seq`, `timestamp_ms` and the `payload` with its `type`. One
    /// that is too long is shown in part, and its `blob_id` leads to the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub event: Option<Value>,
    /// The events, if a `limit` was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub events: Option<Vec<Value>>,
}

/// Closes a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCloseRequest {
    /// The stream.
    pub stream_id: String,
}

/// A stream that is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamCloseReply {
    /// The stream.
    pub stream_id: String,
    /// Whether it was open.
    pub closed: bool,
    /// The session, if it was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}
