//! `meerkat_sessions`.

use meerkat_contracts::{SessionEntry, SessionsReply, SessionsRequest};

use super::{Call, Handle, Impact};
use crate::{Archived, Error, SessionQuery};

pub(super) struct Sessions;

impl Handle for Sessions {
    const NAME: &'static str = "meerkat_sessions";
    const TITLE: &'static str = "List sessions";
    const DOC: &'static str = "List the realm's sessions, the most recently changed first. Filter by labels, page \
        with offset and limit; archived sessions are left out unless include_archived is true.";
    const IMPACT: Impact = Impact::Reads;
    type Input = SessionsRequest;
    type Output = SessionsReply;

    async fn handle(call: Call, input: SessionsRequest) -> Result<SessionsReply, Error> {
        let archived = match input.include_archived {
            Some(true) => Archived::Included,
            _ => Archived::Hidden,
        };
        let query = SessionQuery {
            labels: input.labels.unwrap_or_default(),
            archived,
            offset: input.offset.unwrap_or(0),
            limit: input.limit,
        };
        let views = call.runtime.sessions().list(query).await?;
        let entry = |view: crate::SessionView| SessionEntry {
            session_id: view.id,
            session_ref: call.runtime.reference(view.id),
            created_at: view.created_at.as_second(),
            updated_at: view.updated_at.as_second(),
            message_count: view.message_count,
            total_tokens: view.usage.total(),
            is_active: view.is_active,
            labels: view.labels,
            archived: view.is_archived,
        };
        Ok(SessionsReply { sessions: views.into_iter().map(entry).collect() })
    }
}
