//! A store that can be made to fail.

use std::sync::atomic::{AtomicBool, Ordering};

use meerkat_core::{BlobId, SessionId};
use meerkat_store::{
    Blob, CallRow, Committed, ConfigRow, Error, MemoryQuery, MemoryRow, MemoryStore, MessageRow, Reply,
    SessionQuery, SessionRow, StateChanges, StateQuery, StateRow, Store, Transaction,
};

/// An in-memory store that rejects commits while it is broken.
#[derive(Default)]
pub(crate) struct Breakable {
    inner: MemoryStore,
    pub(crate) is_broken: AtomicBool,
}

impl Store for Breakable {
    fn commit(&self, transaction: Transaction) -> Reply<'_, Committed> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Box::pin(async { Err(Error::Closed) });
        }
        self.inner.commit(transaction)
    }

    fn session(&self, id: SessionId) -> Reply<'_, Option<SessionRow>> {
        self.inner.session(id)
    }

    fn sessions(&self, query: SessionQuery) -> Reply<'_, Vec<SessionRow>> {
        self.inner.sessions(query)
    }

    fn messages(&self, id: SessionId, from: u64, limit: u64) -> Reply<'_, Vec<MessageRow>> {
        self.inner.messages(id, from, limit)
    }

    fn calls(&self, id: SessionId) -> Reply<'_, Vec<CallRow>> {
        self.inner.calls(id)
    }

    fn config(&self) -> Reply<'_, Option<ConfigRow>> {
        self.inner.config()
    }

    fn has_blob(&self, id: BlobId) -> Reply<'_, bool> {
        self.inner.has_blob(id)
    }

    fn blob(&self, id: BlobId) -> Reply<'_, Option<Blob>> {
        self.inner.blob(id)
    }

    fn search_memories(&self, query: MemoryQuery) -> Reply<'_, Vec<MemoryRow>> {
        self.inner.search_memories(query)
    }

    fn tasks(&self, id: SessionId) -> Reply<'_, Vec<Vec<u8>>> {
        self.inner.tasks(id)
    }

    fn interrupts(&self) -> Reply<'_, Vec<SessionId>> {
        self.inner.interrupts()
    }

    fn state(&self, query: StateQuery) -> Reply<'_, Vec<StateRow>> {
        self.inner.state(query)
    }

    fn scopes(&self) -> Reply<'_, Vec<String>> {
        self.inner.scopes()
    }

    fn revision(&self, scope: String) -> Reply<'_, u64> {
        self.inner.revision(scope)
    }

    fn state_changes(&self, scope: String, since: u64) -> Reply<'_, StateChanges> {
        self.inner.state_changes(scope, since)
    }

    fn examine(&self) -> Reply<'_, Option<std::path::PathBuf>> {
        self.inner.examine()
    }
}
