//! `meerkat_event_stream_read`.

use std::time::Duration;

use meerkat_contracts::{StreamReadReply, StreamReadRequest, StreamStatus};

use super::reply_limit::ReplyLimit;
use super::{Call, Impact, Operation};
use crate::Error;
use crate::events::{ReadLimit, ReadOutcome, StreamId};
use crate::records::RecordError;

/// `meerkat_event_stream_read`.
pub struct EventRead;

const DEFAULT_MS: u64 = 5_000;
const MAX_MS: u64 = 600_000;
const MAX_EVENTS: u32 = 1_000;

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
        let id = stream_id(&input.stream_id)?;
        let timeout = timeout(&input)?;
        let limit = limit(input.limit)?;
        let sessions = call.runtime.sessions();
        let session_id = sessions.stream_session(id)?;
        let bounds = ReplyLimit::for_runtime(&call.runtime).await;
        let room = ReadLimit { events: limit, bytes: bounds.limit() };
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
        Ok(StreamReadReply { stream_id: input.stream_id, session_id, status, event, events })
    }
}

/// Parses the id of a stream.
pub(super) fn stream_id(text: &str) -> Result<StreamId, Error> {
    StreamId::try_parse(text).map_err(|_| {
        let excerpt: String = text.chars().take(80).collect();
        Error::arguments(format!("`stream_id`: `{excerpt}` is not a stream id"))
    })
}

fn timeout(input: &StreamReadRequest) -> Result<Option<Duration>, Error> {
    match (input.no_timeout, input.timeout_ms.unwrap_or(DEFAULT_MS)) {
        (Some(true), _) => Ok(None),
        (_, ms) if ms <= MAX_MS => Ok(Some(Duration::from_millis(ms))),
        (_, ms) => Err(Error::arguments(format!(
            "`timeout_ms` is {ms}, which is more than {MAX_MS}; use `no_timeout` to wait indefinitely"
        ))),
    }
}

fn limit(requested: Option<u32>) -> Result<usize, Error> {
    match requested {
        None => Ok(1),
        Some(limit @ 1..=MAX_EVENTS) => Ok(limit as usize),
        Some(limit) => {
            Err(Error::arguments(format!("`limit` is {limit}; it must be between 1 and {MAX_EVENTS}")))
        }
    }
}
