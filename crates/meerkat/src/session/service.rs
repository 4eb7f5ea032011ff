//! The session service, called by embedders and every surface.

use std::collections::BTreeMap;
use std::sync::Arc;

use meerkat_core::run::{LastRun, Pending, Progress, RunEnd, StoredCall};
use meerkat_core::{
    ApprovalRequest, Message, OutputSchema, Provider, SessionId, Timestamp, ToolRoute, Usage, Usd,
};
use meerkat_store::{Backend, Change, Guard, SessionRow, Transaction};

use super::options::{NewSessionOptions, RunControl, RunResult, TurnOptions};
use super::record;
use crate::Error;
use crate::config::CurrentConfig;
use crate::prompt;
use crate::runtime::Shared;
use crate::unreadable::explain_result;

/// Creates, runs, reads, interrupts, and archives sessions.
///
/// A session has at most one active run, across processes: starting a second fails with `SESSION_BUSY`. Reading never
/// waits for a run.
#[derive(Clone)]
pub struct SessionService {
    pub(super) shared: Arc<Shared>,
}

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

impl SessionService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Creates a session and runs its first prompt. If the first commit fails, no session is created.
    ///
    /// # Errors
    /// Returns an error if the run fails. After the first commit, the error names the session, which remains and can be
    /// resumed.
    pub async fn create(
        &self,
        options: NewSessionOptions,
        mut turn: TurnOptions,
        control: RunControl,
    ) -> Result<RunResult, Error> {
        turn.validate()?;
        let current = self.run_config(&mut turn).await?;
        let initial_events = self.shared.inject_skill_refs(&mut turn, &current).await?;
        self.await_servers(&turn).await?;
        let prepared = self.shared.prepare_new(options, &turn, &current).await?;
        self.shared.execute(prepared, turn, current.config, control, initial_events).await
    }

    /// Runs the next prompt of a session, or resumes it with the results of pending calls.
    ///
    /// # Errors
    /// Returns `SESSION_BUSY` if the session has an active run, `SESSION_NOT_FOUND` if it does not exist or is
    /// archived, and `INVALID_PARAMS` if the input does not match the session's state. Committed steps are never
    /// undone.
    pub async fn start_turn(
        &self,
        id: SessionId,
        mut turn: TurnOptions,
        control: RunControl,
    ) -> Result<RunResult, Error> {
        const MAX_ATTEMPTS: usize = 3;
        turn.validate()?;
        let current = self.run_config(&mut turn).await?;
        let initial_events = self.shared.inject_skill_refs(&mut turn, &current).await?;
        self.await_servers(&turn).await?;
        for _ in 0..MAX_ATTEMPTS {
            let row = self.row(id).await?;
            if row.archived_at.is_some() {
                return Err(meerkat_store::Error::Archived(id).into());
            }
            if self.is_active(&row) {
                return Err(meerkat_store::Error::Busy(id).into());
            }
            let fence = row.fence;
            let prepared = match self
                .explain_result(self.shared.prepare_existing(row, &turn, &current.config).await)
                .await
            {
                // The input may be invalid because another process ran the session in the meantime.
                Err(error @ Error::InvalidInput(_)) if self.row(id).await?.fence == fence => {
                    return Err(error);
                }
                Err(Error::InvalidInput(_)) => continue,
                prepared => prepared?,
            };
            let args = (turn.clone(), current.config.clone(), control.clone(), initial_events.clone());
            let result = self.shared.execute(prepared, args.0, args.1, args.2, args.3).await;
            // Retry if another process ran the session between our read and our commit.
            if !matches!(&result, Err(Error::Store(meerkat_store::Error::Changed(_)))) {
                return result;
            }
        }
        Err(meerkat_store::Error::Busy(id).into())
    }

    /// Interrupts a session's active run, in any process.
    ///
    /// # Errors
    /// Returns `SESSION_NOT_RUNNING` if the session has no active run.
    pub async fn interrupt(&self, id: SessionId) -> Result<(), Error> {
        let row = self.row(id).await?;
        if self.is_gone(&row) {
            return Err(meerkat_store::Error::SessionNotFound(id).into());
        }
        if self.shared.live.interrupt(id) {
            return Ok(());
        }
        let guards = vec![Guard::Running { session: id, now: self.shared.clock.now() }];
        let changes = vec![Change::RequestInterrupt(id)];
        self.shared.store.commit(Transaction { guards, changes }).await?;
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
        let rows = self.shared.store.messages(id, offset, limit).await?;
        let messages = rows.iter().map(record::message).collect();
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
        let rows = self.shared.store.calls(id).await?;
        let stored = rows.iter().map(record::call).collect();
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
        let _guard = self.shared.live.begin_archive(id);
        loop {
            let now = self.shared.clock.now();
            let guards = vec![Guard::NotArchived(id), Guard::LeaseFree { session: id, now }];
            let change = match self.shared.realm.backend() {
                Backend::Memory => Change::DeleteSession(id),
                _ => Change::Archive { session: id, at: now },
            };
            match self.shared.store.commit(Transaction { guards, changes: vec![change] }).await {
                Ok(_) => {
                    self.shared.events.end_session(id);
                    self.shared.servers.forget(id);
                    self.shared.tools.forget(id);
                    return Ok(());
                }
                Err(meerkat_store::Error::Busy(_)) => {
                    // Ignore errors: the run may have ended in the meantime. Retry either way.
                    let _ = self.interrupt(id).await;
                    self.shared.clock.sleep(std::time::Duration::from_millis(20)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Loads the config for a run, and fills in options that the run leaves to the config.
    async fn run_config(&self, turn: &mut TurnOptions) -> Result<CurrentConfig, Error> {
        let mut current = self.shared.config.get().await?;
        let agent = &mut current.config.agent;
        if let (None, Some(schema)) = (&turn.output_schema, &agent.output_schema) {
            turn.output_schema = Some(OutputSchema::parse(schema.clone())?);
        }
        if let (None, Some(file)) = (&agent.system_prompt, &agent.system_prompt_file) {
            agent.system_prompt = Some(prompt::read_file(file.clone()).await?);
        }
        Ok(current)
    }

    /// Waits for the MCP servers that must be ready before a run, if the run may use tools.
    async fn await_servers(&self, turn: &TurnOptions) -> Result<(), Error> {
        if turn.overlay.allows_none() { Ok(()) } else { self.shared.servers.require().await }
    }

    /// Adds details to the error of a record that cannot be decoded.
    async fn explain_result<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        explain_result(&*self.shared.store, result).await
    }

    async fn row(&self, id: SessionId) -> Result<SessionRow, Error> {
        let row = self.shared.store.session(id).await?;
        row.ok_or_else(|| meerkat_store::Error::SessionNotFound(id).into())
    }

    fn is_active(&self, row: &SessionRow) -> bool {
        row.lease.as_ref().is_some_and(|lease| lease.expires_at > self.shared.clock.now())
    }

    /// Returns `true` if an archived session no longer exists, because the realm is in memory.
    fn is_gone(&self, row: &SessionRow) -> bool {
        row.archived_at.is_some() && self.shared.realm.backend() == Backend::Memory
    }

    /// Returns `true` if the session has pending calls. Does not read the store if the latest run ended without any.
    async fn is_waiting(&self, row: &SessionRow, progress: &Progress) -> Result<bool, Error> {
        let was_pending = progress.last_run.is_some_and(|run| run.end == Some(RunEnd::Pending));
        if !was_pending || self.is_active(row) {
            return Ok(false);
        }
        let is_pending = |call: StoredCall| call.result.is_none() && call.intent.route != ToolRoute::Local;
        let rows = self.shared.store.calls(row.id).await?;
        let calls = rows.iter().map(record::call).collect::<Result<Vec<_>, _>>()?;
        Ok(calls.into_iter().any(is_pending))
    }

    pub(super) async fn view(&self, row: &SessionRow) -> Result<SessionView, Error> {
        let settings = record::settings(row)?;
        let progress: Progress = record::progress(row)?;
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
}
