//! The store of ephemeral realms: maps in memory that end with the process.
//!
//! A transaction is checked completely before anything changes, and applying it cannot fail, so it is atomic without
//! copying data. The lock is held only briefly.

mod apply;
mod check;
mod recall;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use meerkat_core::{BlobId, RunId, SessionId, Timestamp};

use crate::{
    ArchivedFilter, Blob, CallRow, Committed, ConfigRow, Error, LeaseRow, MemoryQuery, MemoryRow, MessageRow,
    Reply, SessionQuery, SessionRow, StateChanges, StateQuery, StateRow, Store, Transaction,
};

/// A store that keeps everything in memory and is its own only owner.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    config: Option<ConfigRow>,
    blobs: HashMap<BlobId, Blob>,
    scopes: BTreeMap<String, state::Scope>,
}

#[derive(Debug)]
struct Session {
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Option<Timestamp>,
    labels: BTreeMap<String, String>,
    settings: Vec<u8>,
    progress: Vec<u8>,
    messages: Vec<Vec<u8>>,
    calls: Vec<CallRow>,
    memories: BTreeMap<u64, (Timestamp, String)>,
    tasks: Vec<(String, Vec<u8>)>,
    // Outlives the lease, because the next lease must have a greater number.
    fence: u64,
    lease: Option<Lease>,
}

#[derive(Debug)]
struct Lease {
    run: RunId,
    expires_at: Timestamp,
    interrupt: bool,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A transaction changes nothing before it is known to succeed, so the state is valid even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<'a, T: Send + 'a>(&'a self, read: impl FnOnce(&State) -> T + Send + 'a) -> Reply<'a, T> {
        Box::pin(async move { Ok(read(&self.state())) })
    }
}

impl Store for MemoryStore {
    fn commit(&self, transaction: Transaction) -> Reply<'_, Committed> {
        Box::pin(async move { self.state().commit(transaction) })
    }

    fn session(&self, id: SessionId) -> Reply<'_, Option<SessionRow>> {
        self.read(move |state| state.sessions.get(&id).map(|session| session.row(id)))
    }

    fn sessions(&self, query: SessionQuery) -> Reply<'_, Vec<SessionRow>> {
        self.read(move |state| state.list(&query))
    }

    fn messages(&self, id: SessionId, from: u64, limit: u64) -> Reply<'_, Vec<MessageRow>> {
        self.read(move |state| {
            state.sessions.get(&id).map_or_else(Vec::new, |session| session.page(from, limit))
        })
    }

    fn calls(&self, id: SessionId) -> Reply<'_, Vec<CallRow>> {
        self.read(move |state| state.sessions.get(&id).map_or_else(Vec::new, |session| session.calls.clone()))
    }

    fn config(&self) -> Reply<'_, Option<ConfigRow>> {
        self.read(|state| state.config.clone())
    }

    fn has_blob(&self, id: BlobId) -> Reply<'_, bool> {
        self.read(move |state| state.blobs.contains_key(&id))
    }

    fn blob(&self, id: BlobId) -> Reply<'_, Option<Blob>> {
        self.read(move |state| state.blobs.get(&id).cloned())
    }

    fn search_memories(&self, query: MemoryQuery) -> Reply<'_, Vec<MemoryRow>> {
        self.read(move |state| state.recall(&query))
    }

    fn tasks(&self, id: SessionId) -> Reply<'_, Vec<Vec<u8>>> {
        self.read(move |state| {
            let tasks = state.sessions.get(&id).into_iter().flat_map(|session| &session.tasks);
            tasks.map(|(_, task)| task.clone()).collect()
        })
    }

    fn interrupts(&self) -> Reply<'_, Vec<SessionId>> {
        self.read(|state| {
            let flagged = |session: &Session| session.lease.as_ref().is_some_and(|lease| lease.interrupt);
            let mut ids: Vec<_> =
                state.sessions.iter().filter(|(_, s)| flagged(s)).map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids
        })
    }

    fn state(&self, query: StateQuery) -> Reply<'_, Vec<StateRow>> {
        self.read(move |state| state.values(&query))
    }

    fn scopes(&self) -> Reply<'_, Vec<String>> {
        self.read(|state| {
            state.scopes.iter().filter(|(_, s)| !s.is_empty()).map(|(n, _)| n.clone()).collect()
        })
    }

    fn revision(&self, scope: String) -> Reply<'_, u64> {
        self.read(move |state| state.scopes.get(&scope).map_or(0, state::Scope::revision))
    }

    fn state_changes(&self, scope: String, since: u64) -> Reply<'_, StateChanges> {
        self.read(move |state| state.scopes.get(&scope).map(|scope| scope.changes(since)).unwrap_or_default())
    }

    fn examine(&self) -> Reply<'_, Option<PathBuf>> {
        Box::pin(async { Ok(None) })
    }
}

impl State {
    fn commit(&mut self, transaction: Transaction) -> Result<Committed, Error> {
        self.check_guards(&transaction.guards)?;
        self.check_changes(&transaction.changes)?;
        Ok(self.apply(transaction.changes))
    }

    fn generation(&self) -> u64 {
        self.config.as_ref().map_or(0, |config| config.generation)
    }

    fn list(&self, query: &SessionQuery) -> Vec<SessionRow> {
        let mut found: Vec<_> = self.sessions.iter().filter(|(_, session)| session.matches(query)).collect();
        found.sort_unstable_by_key(|(id, session)| std::cmp::Reverse((session.updated_at, **id)));
        let limit = query.limit.map_or(usize::MAX, to_usize);
        found
            .into_iter()
            .skip(to_usize(query.offset))
            .take(limit)
            .map(|(id, session)| session.row(*id))
            .collect()
    }
}

impl Session {
    fn matches(&self, query: &SessionQuery) -> bool {
        (self.archived_at.is_none() || query.archived == ArchivedFilter::Included)
            && query.labels.iter().all(|(name, value)| self.labels.get(name) == Some(value))
    }

    fn row(&self, id: SessionId) -> SessionRow {
        SessionRow {
            id,
            created_at: self.created_at,
            updated_at: self.updated_at,
            archived_at: self.archived_at,
            message_count: to_u64(self.messages.len()),
            labels: self.labels.clone(),
            settings: self.settings.clone(),
            progress: self.progress.clone(),
            fence: self.fence,
            lease: self.lease.as_ref().map(|lease| LeaseRow {
                run: lease.run,
                fence: self.fence,
                expires_at: lease.expires_at,
            }),
        }
    }

    fn page(&self, from: u64, limit: u64) -> Vec<MessageRow> {
        let rest = self.messages.iter().enumerate().skip(to_usize(from)).take(to_usize(limit));
        rest.map(|(seq, message)| MessageRow { seq: to_u64(seq), message: message.clone() }).collect()
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.expires_at > now)
    }
}

// A number that does not fit is as good as no limit.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
