//! `meerkat_history`.

use meerkat_contracts::{HistoryReply, HistoryRequest};
use meerkat_core::SessionId;
use serde_json::Value;

use super::reply_limit::ReplyLimit;
use super::{Call, Impact, Operation};
use crate::records::RecordError;
use crate::{Error, Runtime};

/// `meerkat_history`.
pub struct History;

impl Operation for History {
    const NAME: &'static str = "meerkat_history";
    const TITLE: &'static str = "Read a session's history";
    const DOC: &'static str = "Read a session's committed messages, oldest first. Use offset and limit to page through \
        a long history; has_more is true if more messages follow, and next_offset is where they start. A page holds \
        about 100 KB. Also works on archived sessions.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = HistoryRequest;
    type Output = HistoryReply;

    async fn call(call: Call, input: HistoryRequest) -> Result<HistoryReply, Error> {
        let id = input.session_id;
        let page = page(&call.runtime, id, input.offset.unwrap_or(0), input.limit).await?;
        let end = page.offset + page.messages.len() as u64;
        let has_more = end < page.message_count;
        Ok(HistoryReply {
            session_id: id,
            session_ref: call.runtime.reference(id),
            message_count: page.message_count,
            offset: page.offset,
            limit: input.limit,
            has_more,
            next_offset: has_more.then_some(end),
            messages: page.messages,
        })
    }
}

struct Page {
    message_count: u64,
    offset: u64,
    messages: Vec<Value>,
}

/// Reads messages until the count or byte limit is reached.
async fn page(runtime: &Runtime, id: SessionId, offset: u64, limit: Option<u64>) -> Result<Page, Error> {
    const PAGE_SIZE: u64 = 32;
    let bounds = ReplyLimit::for_runtime(runtime).await;
    let sessions = runtime.sessions();
    let first = sessions.history(id, offset, Some(0)).await?;
    let (message_count, offset) = (first.message_count, first.offset);
    let requested = limit.unwrap_or(u64::MAX).min(message_count - offset);
    let mut messages: Vec<Value> = Vec::new();
    let mut bytes = 0;
    while (messages.len() as u64) < requested {
        let from = offset + messages.len() as u64;
        let batch =
            sessions.history(id, from, Some(PAGE_SIZE.min(requested - messages.len() as u64))).await?;
        for message in &batch.messages {
            let value = serde_json::to_value(message).map_err(RecordError::Encode)?;
            let size = value.to_string().len();
            bytes += size.min(bounds.limit());
            if bytes > bounds.limit() && !messages.is_empty() {
                return Ok(Page { message_count, offset, messages });
            }
            messages.push(bounds.truncate_message(value, size).await);
        }
        if batch.messages.is_empty() {
            break;
        }
    }
    Ok(Page { message_count, offset, messages })
}
