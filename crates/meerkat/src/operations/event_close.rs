//! `meerkat_event_stream_close`.

use meerkat_contracts::{StreamCloseReply, StreamCloseRequest};

use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_event_stream_close`.
pub struct EventClose;

impl Operation for EventClose {
    const NAME: &'static str = "meerkat_event_stream_close";
    const TITLE: &'static str = "Close an event stream";
    const DOC: &'static str = "Close an event stream you no longer read. closed is false if it was not open.";
    const IMPACT: Impact = Impact::Idempotent;
    type Input = StreamCloseRequest;
    type Output = StreamCloseReply;

    async fn call(call: Call, input: StreamCloseRequest) -> Result<StreamCloseReply, Error> {
        let session_id = call.runtime.sessions().close_stream(input.stream_id);
        Ok(StreamCloseReply { stream_id: input.stream_id, closed: session_id.is_some(), session_id })
    }
}
