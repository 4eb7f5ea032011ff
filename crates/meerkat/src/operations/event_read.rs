//! `meerkat_event_stream_read`.

use std::time::Duration;

use meerkat_contracts::{StreamReadReply, StreamReadRequest, StreamStatus};

use super::reply_limit::ReplyLimit;
use super::{Call, Impact, Operation};
use crate::Error;
use crate::events::{ReadLimit, ReadOutcome};
use crate::records::RecordError;

/// `meerkat_event_stream_read`.
pub struct EventRead;

const DEFAULT_MS: u64 = 5_000;

impl Operation for EventRead {
    const NAME: &'static str = "meerkat_event_stream_read";
    const TITLE: &'static str = "Read an event stream";
    const DOC: &'static str = "Read the next event of an open stream, or up to limit events at once; waits up to \
        timeout_ms for one. status is event, timeout (read again), or closed (the session was archived). If you read \
        too slowly, one stream_truncated event reports how many events were lost.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = StreamReadRequest;
    type Output = StreamReadReply;

    async fn call(call: Call, input: StreamReadRequest) -> Result<StreamReadReply, Error> {
        let id = input.stream_id;
        let timeout = Duration::from_millis(input.timeout_ms.unwrap_or(DEFAULT_MS));
        let timeout = if input.no_timeout == Some(true) { None } else { Some(timeout) };
        let sessions = call.runtime.sessions();
        let session_id = sessions.stream_session(id)?;
        let bounds = ReplyLimit::for_runtime(&call.runtime).await;
        let room = ReadLimit { events: input.limit.unwrap_or(1) as usize, bytes: bounds.limit() };
        let reading = sessions.read_stream(id, room, timeout, &call.control.cancel).await?;
        let (status, events) = match reading {
            ReadOutcome::Events(events) => (StreamStatus::Event, events),
            ReadOutcome::Timeout => (StreamStatus::Timeout, Vec::new()),
            ReadOutcome::Closed => (StreamStatus::Closed, Vec::new()),
        };
        let mut values = Vec::new();
        for event in events {
            let event = serde_json::to_value(&*event).map_err(RecordError::Encode)?;
            let size = event.to_string().len();
            values.push(bounds.truncate_message(event, size).await);
        }
        let (event, events) = match input.limit {
            None => (values.pop(), None),
            Some(_) => (None, Some(values)),
        };
        Ok(StreamReadReply { stream_id: id, session_id, status, event, events })
    }
}
