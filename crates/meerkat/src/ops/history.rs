//! `meerkat_history`.

use meerkat_contracts::{HistoryReply, HistoryRequest};

use super::{Call, Handle, Impact};
use crate::Error;

pub(super) struct History;

impl Handle for History {
    const NAME: &'static str = "meerkat_history";
    const TITLE: &'static str = "Read a session's history";
    const DOC: &'static str = "Read a session's committed messages, oldest first. Use offset and limit to page \
        through a long one; has_more says whether there is more. Works on archived sessions too.";
    const IMPACT: Impact = Impact::Reads;
    type Input = HistoryRequest;
    type Output = HistoryReply;

    async fn handle(call: Call, input: HistoryRequest) -> Result<HistoryReply, Error> {
        let id = input.session_id.parse()?;
        let page = call.runtime.sessions().history(id, input.offset.unwrap_or(0), input.limit).await?;
        let has_more = page.offset + (page.messages.len() as u64) < page.message_count;
        Ok(HistoryReply {
            session_id: id,
            session_ref: call.runtime.reference(id),
            message_count: page.message_count,
            offset: page.offset,
            limit: input.limit,
            has_more,
            messages: page.messages,
        })
    }
}
