//! The session service: what embedders and every surface call.

use std::collections::BTreeMap;
use std::sync::Arc;

use meerkat_core::run::{LastRun, Pending, Progress, RunEnd, StoredCall};
use meerkat_core::{
    AwaitedCall, Message, OutputSchema, Provider, SessionId, Timestamp, ToolRoute, Usage, Usd,
};
use meerkat_store::{Backend, Change, Guard, SessionRow, Transaction};

use super::options::{NewSessionOptions, RunControl, RunResult, TurnOptions};
use super::record;
use crate::Error;
use crate::config::CurrentConfig;
use crate::prompt;
use crate::runtime::Shared;
use crate::unreadable::explained;

/// Creates, runs, reads, interrupts and archives sessions.
///
/// At most one run is in flight on a session, across processes: a second gets `SESSION_BUSY`. Reading never
/// waits for a run.
#[derive(Clone)]
pub struct SessionService {
    pub(super) shared: Arc<Shared>,
}

/// A session as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// When it began.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// How many messages it has.
    pub message_count: u64,
    /// Whether a run is in flight.
    pub is_active: bool,
    /// Whether its latest run ended with calls that wait for results or an approval.
    pub is_waiting: bool,
    /// Whether it is archived.
    pub is_archived: bool,
    /// Its model.
    pub model: String,
    /// Who serves it.
    pub provider: Provider,
    /// What it used.
    pub usage: Usage,
    /// What that cost, as far as prices were known.
    pub cost: Usd,
    /// What it can be found by.
    pub labels: BTreeMap<String, String>,
    /// Its latest run.
    pub last_run: Option<LastRun>,
}

/// A part of a session's messages.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    /// How many messages the session has.
    pub message_count: u64,
    /// How many were passed over.
    pub offset: u64,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
}

impl SessionService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Creates a session and runs its first prompt. Nothing is left behind if the first commit fails.
    ///
    /// # Errors
    /// After the first commit an error names the session, which stays and can be resumed.
    pub async fn create(
        &self,
        options: NewSessionOptions,
        mut turn: TurnOptions,
        control: RunControl,
    ) -> Result<RunResult, Error> {
        turn.validate()?;
        let current = self.run_config(&mut turn).await?;
        let asides = self.shared.give_skills(&mut turn, &current).await?;
        self.await_servers(&turn).await?;
        let found = self.shared.found_new(options, &turn, &current).await?;
        self.shared.execute(found, turn, current.config, control, asides).await
    }

    /// Runs the next prompt of a session, or gives it the results it waits for.
    ///
    /// # Errors
    /// `SESSION_BUSY` when a run is in flight, `SESSION_NOT_FOUND` when there is no such session or it is
    /// archived, `INVALID_PARAMS` when the input does not fit. What was committed before is never undone.
    pub async fn start_turn(
        &self,
        id: SessionId,
        mut turn: TurnOptions,
        control: RunControl,
    ) -> Result<RunResult, Error> {
        const TRIES: usize = 3;
        turn.validate()?;
        let current = self.run_config(&mut turn).await?;
        let asides = self.shared.give_skills(&mut turn, &current).await?;
        self.await_servers(&turn).await?;
        for _ in 0..TRIES {
            let row = self.row(id).await?;
            if row.archived_at.is_some() {
                return Err(meerkat_store::Error::Archived(id).into());
            }
            if self.is_active(&row) {
                return Err(meerkat_store::Error::Busy(id).into());
            }
            let fence = row.fence;
            let found = match self.explained(self.shared.found(row, &turn, &current.config).await).await {
                // The input may not fit because somebody else was faster: then the session was run since.
                Err(error @ Error::Opening(_)) if self.row(id).await?.fence == fence => return Err(error),
                Err(Error::Opening(_)) => continue,
                found => found?,
            };
            let again = (turn.clone(), current.config.clone(), control.clone(), asides.clone());
            let done = self.shared.execute(found, again.0, again.1, again.2, again.3).await;
            // Another process ran the session between our reading and our commit: look again.
            if !matches!(&done, Err(Error::Store(meerkat_store::Error::Changed(_)))) {
                return done;
            }
        }
        Err(meerkat_store::Error::Busy(id).into())
    }

    /// Interrupts the run in flight, in whatever process it is.
    ///
    /// # Errors
    /// `SESSION_NOT_RUNNING` when there is none.
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

    /// Reads a session, archived ones included where sessions are durable.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND` when there is none.
    pub async fn read(&self, id: SessionId) -> Result<SessionView, Error> {
        let row = self.row(id).await?;
        if self.is_gone(&row) {
            return Err(meerkat_store::Error::SessionNotFound(id).into());
        }
        self.explained(self.view(&row).await).await
    }

    /// Reads committed messages, oldest first.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND` when there is no such session.
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
        let messages = self.explained(messages).await?;
        Ok(HistoryPage { message_count, offset, messages })
    }

    /// Reads the last text the agent wrote.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn last_text(&self, id: SessionId) -> Result<Option<String>, Error> {
        const PAGE: u64 = 32;
        let mut end = self.read(id).await?.message_count;
        while end > 0 {
            let start = end.saturating_sub(PAGE);
            let page = self.history(id, start, Some(end - start)).await?;
            let text = page.messages.iter().rev().find_map(Message::assistant_text);
            if text.is_some() {
                return Ok(text);
            }
            end = start;
        }
        Ok(None)
    }

    /// Lists the calls that wait for the caller: for their results, or for an approval.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn pending_calls(&self, id: SessionId) -> Result<Pending, Error> {
        let rows = self.shared.store.calls(id).await?;
        let stored = rows.iter().map(record::call).collect();
        let stored: Vec<StoredCall> = self.explained(stored).await?;
        let mut pending = Pending::default();
        if stored.iter().all(|call| call.result.is_some() || call.intent.route == ToolRoute::Local) {
            return Ok(pending);
        }
        let count = self.read(id).await?.message_count;
        let last = self.history(id, count.saturating_sub(1), Some(1)).await?;
        for call in last.messages.first().map(Message::tool_calls).unwrap_or_default() {
            let waits = |stored: &&StoredCall| stored.intent.id == call.id && stored.result.is_none();
            let Some(StoredCall { intent, .. }) = stored.iter().find(waits) else { continue };
            match (intent.route, intent.expires_at) {
                (ToolRoute::Callback, _) => pending.calls.push(call),
                (ToolRoute::Approval, Some(expires_at)) => {
                    pending.approvals.push(AwaitedCall { call, expires_at });
                }
                _ => {}
            }
        }
        Ok(pending)
    }

    /// Archives a session: it is hidden and cannot be resumed, but its messages stay where sessions are
    /// durable. A run in flight is interrupted first.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND` when there is none, or it is archived already.
    pub async fn archive(&self, id: SessionId) -> Result<(), Error> {
        let _retiring = self.shared.live.retire(id);
        loop {
            let now = self.shared.clock.now();
            let guards = vec![Guard::Live(id), Guard::Free { session: id, now }];
            let change = match self.shared.realm.backend() {
                Backend::Memory => Change::Forget(id),
                _ => Change::Archive { session: id, at: now },
            };
            match self.shared.store.commit(Transaction { guards, changes: vec![change] }).await {
                Ok(_) => {
                    self.shared.events.end(id);
                    self.shared.servers.forget(id);
                    self.shared.tools.forget(id);
                    return Ok(());
                }
                Err(meerkat_store::Error::Busy(_)) => {
                    // It may end by itself in the meantime; either way we look again.
                    let _ = self.interrupt(id).await;
                    self.shared.clock.sleep(std::time::Duration::from_millis(20)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the config as a run needs it, and gives the run what it leaves to the config.
    async fn run_config(&self, turn: &mut TurnOptions) -> Result<CurrentConfig, Error> {
        let mut current = self.shared.config.get().await?;
        let agent = &mut current.config.agent;
        if let (None, Some(schema)) = (&turn.output_schema, &agent.output_schema) {
            turn.output_schema = Some(OutputSchema::parse(schema.clone())?);
        }
        if let (None, Some(file)) = (&agent.system_prompt, &agent.system_prompt_file) {
            agent.system_prompt = Some(prompt::read(file.clone()).await?);
        }
        Ok(current)
    }

    /// Waits for the MCP servers that a run must not start without, if it may use tools at all.
    async fn await_servers(&self, turn: &TurnOptions) -> Result<(), Error> {
        if turn.overlay.allows_none() { Ok(()) } else { self.shared.servers.require().await }
    }

    /// Says more about a record that cannot be decoded.
    async fn explained<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        explained(&*self.shared.store, result).await
    }

    async fn row(&self, id: SessionId) -> Result<SessionRow, Error> {
        let row = self.shared.store.session(id).await?;
        row.ok_or_else(|| meerkat_store::Error::SessionNotFound(id).into())
    }

    fn is_active(&self, row: &SessionRow) -> bool {
        row.lease.as_ref().is_some_and(|lease| lease.expires_at > self.shared.clock.now())
    }

    /// Says whether an archived session is gone: where nothing is durable, there is nothing to fall back to.
    fn is_gone(&self, row: &SessionRow) -> bool {
        row.archived_at.is_some() && self.shared.realm.backend() == Backend::Memory
    }

    /// Returns true if calls wait for the caller. A run that ended without any costs no look at the store.
    async fn is_waiting(&self, row: &SessionRow, progress: &Progress) -> Result<bool, Error> {
        let was_pending = progress.last_run.is_some_and(|run| run.end == Some(RunEnd::Pending));
        if !was_pending || self.is_active(row) {
            return Ok(false);
        }
        let waits = |call: StoredCall| call.result.is_none() && call.intent.route != ToolRoute::Local;
        let rows = self.shared.store.calls(row.id).await?;
        let calls = rows.iter().map(record::call).collect::<Result<Vec<_>, _>>()?;
        Ok(calls.into_iter().any(waits))
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
