//! Reading, listing, interrupting, and archiving sessions. A session whose record cannot be read does not hide the
//! others.

use std::collections::BTreeMap;

use meerkat_core::run::{LastRun, Pending, Progress, RunEnd, StoredCall};
use meerkat_core::{ApprovalRequest, Message, Provider, SessionId, Timestamp, ToolRoute, Usage, Usd};
use meerkat_store::{
    ArchivedFilter, Backend, Change, Guard, LeaseRow, SessionQuery, SessionRow, Transaction, UsageRow,
};

use super::{Planner, SessionService};
use crate::Error;
use crate::records::{self, RecordError, explain_result};

/// Current state of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// Session id.
    pub id: SessionId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Number of messages.
    pub message_count: u64,
    /// Whether the session has an active run.
    pub is_active: bool,
    /// Whether the latest run ended with calls that need results or an approval.
    pub is_waiting: bool,
    /// Whether the session is archived.
    pub is_archived: bool,
    /// The session's model.
    pub model: String,
    /// The model's provider.
    pub provider: Provider,
    /// Total token usage.
    pub usage: Usage,
    /// Total cost of the usage whose prices are known.
    pub cost: Usd,
    /// Labels for finding the session.
    pub labels: BTreeMap<String, String>,
    /// The latest run.
    pub last_run: Option<LastRun>,
}

/// Page of a session's messages.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    /// Number of messages in the session.
    pub message_count: u64,
    /// Number of skipped messages.
    pub offset: u64,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
}

/// A session whose record cannot be read.
#[derive(Debug)]
pub struct UnreadableSession {
    /// Session id.
    pub id: SessionId,
    /// The reason, including the file that contains the record.
    pub error: Box<Error>,
}

impl SessionService {
    /// Interrupts a session's active run, in any process.
    ///
    /// # Errors
    /// Returns `SESSION_NOT_RUNNING` if the session has no active run.
    pub async fn interrupt(&self, id: SessionId) -> Result<(), Error> {
        let row = self.row(id).await?;
        if self.is_gone(&row) {
            return Err(meerkat_store::Error::SessionNotFound(id).into());
        }
        if self.inner.planner.active.interrupt(id) {
            return Ok(());
        }
        if !self.is_active(&row) {
            return Err(meerkat_store::Error::NotRunning(id).into());
        }
        let guards = vec![Guard::Running { session: id, now: self.inner.planner.clock.now() }];
        let changes = vec![Change::RequestInterrupt(id)];
        self.inner.planner.store.commit(Transaction { guards, changes }).await?;
        Ok(())
    }

    /// Reads a session; an archived one too if sessions are durable.
    ///
    /// # Errors
    /// Returns `SESSION_NOT_FOUND` if the session does not exist.
    pub async fn read(&self, id: SessionId) -> Result<SessionView, Error> {
        let row = self.row(id).await?;
        if self.is_gone(&row) {
            return Err(meerkat_store::Error::SessionNotFound(id).into());
        }
        self.explain_result(self.view(&row).await).await
    }

    /// Reads committed messages, oldest first.
    ///
    /// # Errors
    /// Returns `SESSION_NOT_FOUND` if the session does not exist.
    pub async fn history(
        &self,
        id: SessionId,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<HistoryPage, Error> {
        let message_count = self.read(id).await?.message_count;
        let offset = offset.min(message_count);
        let limit = limit.unwrap_or(u64::MAX).min(message_count - offset);
        let rows = self.inner.planner.store.messages(id, offset, limit).await?;
        let messages = rows.iter().map(records::message).collect();
        let messages = self.explain_result(messages).await?;
        Ok(HistoryPage { message_count, offset, messages })
    }

    /// Returns the agent's latest text.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn last_text(&self, id: SessionId) -> Result<Option<String>, Error> {
        const PAGE_SIZE: u64 = 32;
        let mut end = self.read(id).await?.message_count;
        while end > 0 {
            let start = end.saturating_sub(PAGE_SIZE);
            let page = self.history(id, start, Some(end - start)).await?;
            let text = page.messages.iter().rev().find_map(Message::assistant_text);
            if text.is_some() {
                return Ok(text);
            }
            end = start;
        }
        Ok(None)
    }

    /// Lists pending calls: those that need a result or an approval from the caller.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn pending_calls(&self, id: SessionId) -> Result<Pending, Error> {
        let rows = self.inner.planner.store.calls(id).await?;
        let stored = rows.iter().map(records::call).collect();
        let stored: Vec<StoredCall> = self.explain_result(stored).await?;
        let mut pending = Pending::default();
        if stored.iter().all(|call| call.result.is_some() || call.intent.route == ToolRoute::Local) {
            return Ok(pending);
        }
        let count = self.read(id).await?.message_count;
        let last = self.history(id, count.saturating_sub(1), Some(1)).await?;
        for call in last.messages.first().map(Message::tool_calls).unwrap_or_default() {
            let is_pending = |stored: &&StoredCall| stored.intent.id == call.id && stored.result.is_none();
            let Some(StoredCall { intent, .. }) = stored.iter().find(is_pending) else { continue };
            match (intent.route, intent.expires_at) {
                (ToolRoute::Callback, _) => pending.calls.push(call),
                (ToolRoute::Approval, Some(expires_at)) => {
                    pending.approvals.push(ApprovalRequest { call, expires_at });
                }
                _ => {}
            }
        }
        Ok(pending)
    }

    /// Archives a session: it is hidden and cannot be resumed, but its messages stay readable if sessions are
    /// durable. An active run is interrupted first.
    ///
    /// # Errors
    /// Returns `SESSION_NOT_FOUND` if the session does not exist or is already archived.
    pub async fn archive(&self, id: SessionId) -> Result<(), Error> {
        let _guard = self.inner.planner.active.begin_archive(id);
        loop {
            let now = self.inner.planner.clock.now();
            let guards = vec![Guard::NotArchived(id), Guard::LeaseFree { session: id, now }];
            let change = match self.inner.backend {
                Backend::Memory => Change::DeleteSession(id),
                _ => Change::Archive { session: id, at: now },
            };
            match self.inner.planner.store.commit(Transaction { guards, changes: vec![change] }).await {
                Ok(_) => {
                    self.inner.planner.events.end_session(id);
                    self.inner.planner.extensions.iter().for_each(|extension| extension.forget(id));
                    return Ok(());
                }
                Err(meerkat_store::Error::Busy(_)) => {
                    // Ignore errors: the run may have ended in the meantime. Retry either way.
                    let _ = self.interrupt(id).await;
                    self.inner.planner.active.release_ended(id).await?;
                    self.inner.planner.clock.sleep(std::time::Duration::from_millis(20)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Adds details to the error of a record that cannot be decoded.
    pub(super) async fn explain_result<T>(&self, result: Result<T, RecordError>) -> Result<T, Error> {
        Ok(explain_result(&*self.inner.planner.store, result).await?)
    }

    pub(super) async fn row(&self, id: SessionId) -> Result<SessionRow, Error> {
        let row = self.inner.planner.store.session(id).await?;
        row.ok_or_else(|| meerkat_store::Error::SessionNotFound(id).into())
    }

    pub(super) fn is_active(&self, row: &SessionRow) -> bool {
        let Planner { active, clock, .. } = &self.inner.planner;
        let is_running =
            |lease: &LeaseRow| lease.expires_at > clock.now() && !active.is_ended(row.id, lease.fence);
        row.lease.as_ref().is_some_and(is_running)
    }

    /// Returns `true` if an archived session no longer exists, because the realm is in memory.
    fn is_gone(&self, row: &SessionRow) -> bool {
        row.archived_at.is_some() && self.inner.backend == Backend::Memory
    }

    /// Returns `true` if the session has pending calls. Does not read the store if the latest run ended without any.
    async fn is_waiting(&self, row: &SessionRow, progress: &Progress) -> Result<bool, RecordError> {
        let was_pending = progress.last_run.is_some_and(|run| run.end == Some(RunEnd::Pending));
        if !was_pending || self.is_active(row) {
            return Ok(false);
        }
        let is_pending = |call: StoredCall| call.result.is_none() && call.intent.route != ToolRoute::Local;
        let rows = self.inner.planner.store.calls(row.id).await?;
        let calls = rows.iter().map(records::call).collect::<Result<Vec<_>, _>>()?;
        Ok(calls.into_iter().any(is_pending))
    }

    async fn view(&self, row: &SessionRow) -> Result<SessionView, RecordError> {
        let settings = records::settings(row)?;
        let progress: Progress = records::progress(row)?;
        let is_waiting = self.is_waiting(row, &progress).await?;
        Ok(SessionView {
            id: row.id,
            created_at: row.created_at,
            updated_at: row.updated_at,
            message_count: row.message_count,
            is_active: self.is_active(row),
            is_waiting,
            is_archived: row.archived_at.is_some(),
            model: settings.model,
            provider: settings.provider,
            usage: progress.usage,
            cost: progress.cost,
            labels: row.labels.clone(),
            last_run: progress.last_run,
        })
    }

    /// Lists the readable sessions, most recently changed first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn list(&self, query: SessionQuery) -> Result<Vec<SessionView>, Error> {
        Ok(self.list_each(query).await?.into_iter().flatten().collect())
    }

    /// Lists sessions, most recently changed first, with an error for each that cannot be read. These are also logged.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn list_each(
        &self,
        query: SessionQuery,
    ) -> Result<Vec<Result<SessionView, UnreadableSession>>, Error> {
        let rows = self.rows(query).await?;
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            entries.push(match self.view(row).await {
                Err(error @ RecordError::Unreadable { .. }) => Err(self.unreadable(row.id, error).await),
                view => Ok(view?),
            });
        }
        Ok(entries)
    }

    /// Lists session ids, most recently changed first, including sessions that cannot be read.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn ids(&self, query: SessionQuery) -> Result<Vec<SessionId>, Error> {
        Ok(self.rows(query).await?.into_iter().map(|row| row.id).collect())
    }

    /// Lists the usage of all sessions by day.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn usage(&self) -> Result<Vec<UsageRow>, Error> {
        Ok(self.inner.planner.store.usage().await?)
    }

    async fn rows(&self, mut query: SessionQuery) -> Result<Vec<SessionRow>, Error> {
        if self.inner.backend == Backend::Memory {
            query.archived = ArchivedFilter::Hidden;
        }
        Ok(self.inner.planner.store.sessions(query).await?)
    }

    /// Returns `true` if a session can be resumed: it is neither archived nor being archived.
    pub(super) async fn is_resumable(&self, session: SessionId) -> bool {
        // In this order, because the session may be archived between the two.
        if self.inner.planner.active.is_archiving(session) {
            return false;
        }
        let row = self.inner.planner.store.session(session).await;
        row.map_or(true, |row| row.is_some_and(|row| row.archived_at.is_none()))
    }

    async fn unreadable(&self, id: SessionId, error: RecordError) -> UnreadableSession {
        let error = Error::from(error.explain(&*self.inner.planner.store).await);
        tracing::warn!(session = %id, error = error.body().message, "skipping unreadable session");
        UnreadableSession { id, error: Box::new(error) }
    }
}
