//! The store of ephemeral realms: maps in memory that end with the process.
//!
//! A transaction is checked completely before anything changes, and applying it cannot fail, so it is atomic without
//! copying data. The lock is held only briefly.

mod apply;
mod check;
mod recall;
mod scopes;
mod sessions;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use meerkat_core::{BlobId, SessionId};

use self::scopes::Scopes;
use self::sessions::{Session, Sessions};
use crate::{
    Blob, CallRow, Committed, ConfigRow, Error, MemoryQuery, MemoryRow, MessageRow, Reply, SessionQuery,
    SessionRow, StateChanges, StateQuery, StateRow, Store, Transaction, UsageRow,
};

/// A store that keeps everything in memory and is its own only owner.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: Sessions,
    config: Option<ConfigRow>,
    blobs: HashMap<BlobId, Blob>,
    scopes: Scopes,
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

    /// Returns nothing for an unknown session.
    fn read_session<'a, T: Default + Send + 'a>(
        &'a self,
        id: SessionId,
        read: impl FnOnce(&Session) -> T + Send + 'a,
    ) -> Reply<'a, T> {
        self.read(move |state| state.sessions.get(id).map(read).unwrap_or_default())
    }
}

impl Store for MemoryStore {
    fn commit(&self, transaction: Transaction) -> Reply<'_, Committed> {
        Box::pin(async move { self.state().commit(transaction) })
    }

    fn session(&self, id: SessionId) -> Reply<'_, Option<SessionRow>> {
        self.read_session(id, |session| Some(session.row.clone()))
    }

    fn sessions(&self, query: SessionQuery) -> Reply<'_, Vec<SessionRow>> {
        self.read(move |state| state.sessions.list(&query))
    }

    fn messages(&self, id: SessionId, from: u64, limit: u64) -> Reply<'_, Vec<MessageRow>> {
        self.read_session(id, move |session| session.page(from, limit))
    }

    fn calls(&self, id: SessionId) -> Reply<'_, Vec<CallRow>> {
        self.read_session(id, |session| session.calls.clone())
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
        self.read(move |state| state.sessions.recall(&query))
    }

    fn tasks(&self, id: SessionId) -> Reply<'_, Vec<Vec<u8>>> {
        self.read_session(id, |session| session.tasks.iter().map(|(_, task)| task.clone()).collect())
    }

    fn usage(&self) -> Reply<'_, Vec<UsageRow>> {
        self.read(|state| state.sessions.usage())
    }

    fn interrupts(&self) -> Reply<'_, Vec<SessionId>> {
        self.read(|state| state.sessions.interrupts())
    }

    fn state(&self, query: StateQuery) -> Reply<'_, Vec<StateRow>> {
        self.read(move |state| state.scopes.list(&query))
    }

    fn scopes(&self) -> Reply<'_, Vec<String>> {
        self.read(|state| state.scopes.names())
    }

    fn revision(&self, scope: String) -> Reply<'_, u64> {
        self.read(move |state| state.scopes.revision(&scope))
    }

    fn state_changes(&self, scope: String, since: u64) -> Reply<'_, StateChanges> {
        self.read(move |state| state.scopes.changes(&scope, since))
    }

    fn examine(&self) -> Reply<'_, Option<PathBuf>> {
        Box::pin(async { Ok(None) })
    }
}

impl State {
    fn commit(&mut self, transaction: Transaction) -> Result<Committed, Error> {
        check::check(self, &transaction)?;
        Ok(self.apply(transaction.changes))
    }

    fn generation(&self) -> u64 {
        self.config.as_ref().map_or(0, |config| config.generation)
    }
}

// A number that does not fit is as good as no limit.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
