//! `meerkat_event_stream_open`.

use meerkat_contracts::{StreamOpenReply, StreamOpenRequest};

use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_event_stream_open`.
pub struct EventOpen;

impl Operation for EventOpen {
    const NAME: &'static str = "meerkat_event_stream_open";
    const TITLE: &'static str = "Open an event stream";
    const DOC: &'static str = "Open a stream of a session's events: steps, text as it is generated, and tool calls. \
        Open it before the run it should follow, or set after to the seq of the last event you have to get the events \
        still retained. Covers runs in this process only. Read it with meerkat_event_stream_read.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = StreamOpenRequest;
    type Output = StreamOpenReply;

    async fn call(call: Call, input: StreamOpenRequest) -> Result<StreamOpenReply, Error> {
        let session_id = input.session_id;
        let stream_id = call.runtime.sessions().open_stream(session_id, input.after).await?;
        Ok(StreamOpenReply { stream_id, session_id })
    }
}
