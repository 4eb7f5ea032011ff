//! `meerkat_sessions`.

use meerkat_contracts::{SessionEntry, SessionsReply, SessionsRequest};

use super::reply_limit::ReplyLimit;
use super::{Call, Impact, Operation};
use crate::records::RecordError;
use crate::{ArchivedFilter, Error, Runtime, SessionQuery, SessionView, UnreadableSession};

/// `meerkat_sessions`.
pub struct Sessions;

impl Operation for Sessions {
    const NAME: &'static str = "meerkat_sessions";
    const TITLE: &'static str = "List sessions";
    const DOC: &'static str = "List the realm's sessions, most recently changed first. Filter by labels, page with \
        offset and limit; next_offset is set if there are more. Archived sessions are omitted unless include_archived \
        is true.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = SessionsRequest;
    type Output = SessionsReply;

    async fn call(call: Call, input: SessionsRequest) -> Result<SessionsReply, Error> {
        let archived = match input.include_archived {
            Some(true) => ArchivedFilter::Included,
            _ => ArchivedFilter::Hidden,
        };
        let query = SessionQuery {
            labels: input.labels.unwrap_or_default(),
            archived,
            offset: input.offset.unwrap_or(0),
            limit: input.limit,
        };
        Ok(list_sessions(&call.runtime, query).await?.0)
    }
}

/// Lists sessions until the count or byte limit is reached, and returns the skipped ones, which cannot be read.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn list_sessions(
    runtime: &Runtime,
    mut query: SessionQuery,
) -> Result<(SessionsReply, Vec<UnreadableSession>), Error> {
    const PAGE_SIZE: u64 = 100;
    let limit = ReplyLimit::for_runtime(runtime).await.limit();
    let (mut remaining, mut bytes) = (query.limit.unwrap_or(u64::MAX), 0);
    let mut sessions: Vec<SessionEntry> = Vec::new();
    let mut unreadable = Vec::new();
    loop {
        // Request one more than needed, to know whether more sessions follow.
        query.limit = Some(remaining.saturating_add(1).min(PAGE_SIZE));
        let entries = runtime.sessions().list_each(query.clone()).await?;
        let count = entries.len() as u64;
        for view in entries {
            let view = match view {
                Ok(view) => view,
                Err(skipped) => {
                    query.offset += 1;
                    unreadable.extend((remaining > 0).then_some(skipped));
                    continue;
                }
            };
            let entry = entry(runtime, view);
            let size = serde_json::to_vec(&entry).map_err(RecordError::Encode)?.len();
            if remaining == 0 || (bytes + size > limit && !sessions.is_empty()) {
                return Ok((SessionsReply { sessions, next_offset: Some(query.offset) }, unreadable));
            }
            bytes += size;
            remaining -= 1;
            query.offset += 1;
            sessions.push(entry);
        }
        if Some(count) < query.limit {
            return Ok((SessionsReply { sessions, next_offset: None }, unreadable));
        }
    }
}

fn entry(runtime: &Runtime, view: SessionView) -> SessionEntry {
    SessionEntry {
        session_id: view.id,
        session_ref: runtime.reference(view.id),
        created_at: view.created_at.as_second(),
        updated_at: view.updated_at.as_second(),
        message_count: view.message_count,
        total_tokens: view.usage.total(),
        is_active: view.is_active,
        is_waiting: view.is_waiting,
        labels: view.labels,
        archived: view.is_archived,
    }
}
