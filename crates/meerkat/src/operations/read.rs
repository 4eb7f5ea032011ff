//! `meerkat_read`.

use meerkat_contracts::{Billing, ReadReply, SessionRequest, SessionState};

use super::reply_limit::ReplyLimit;
use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_read`.
pub struct Read;

impl Operation for Read {
    const NAME: &'static str = "meerkat_read";
    const TITLE: &'static str = "Read a session";
    const DOC: &'static str = "Read a session's state: whether a run is active, its model, its last answer, its token \
        usage, and the tool calls that are waiting for results or approval. Never waits for a run.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = SessionRequest;
    type Output = ReadReply;

    async fn call(call: Call, input: SessionRequest) -> Result<ReadReply, Error> {
        let id = input.session_id;
        let sessions = call.runtime.sessions();
        let view = sessions.read(id).await?;
        let pending = sessions.pending_calls(id).await?;
        let bounds = ReplyLimit::for_runtime(&call.runtime).await;
        let (pending_tool_calls, pending_approvals) = bounds.truncate_pending(pending).await;
        let (last_assistant_text, last_assistant_blob_id) = match sessions.last_text(id).await? {
            None => (None, None),
            Some(text) => {
                let bounded = bounds.truncate_text(text).await;
                (Some(bounded.text), bounded.blob_id)
            }
        };
        Ok(ReadReply {
            session_id: id,
            session_ref: call.runtime.reference(id),
            state: SessionState {
                session_id: id,
                created_at: view.created_at.as_second(),
                updated_at: view.updated_at.as_second(),
                message_count: view.message_count,
                is_active: view.is_active,
                model: view.model,
                provider: view.provider,
                last_assistant_text,
                last_assistant_blob_id,
                labels: view.labels,
                pending_tool_calls,
                pending_approvals,
                archived: view.is_archived,
            },
            billing: Billing { total_tokens: view.usage.total(), usage: view.usage },
        })
    }
}
