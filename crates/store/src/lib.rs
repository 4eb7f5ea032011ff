//! The durable truth of a realm.
//!
//! A realm is a directory with a manifest that pins its backend. Everything that changes goes through one
//! method, [`Store::commit`]: a [`Transaction`] of guards and changes that happens whole or not at all. What
//! is stored are keys, counters and bytes; the owners of the records encode them. No SQL leaves this crate.
//!
//! Who may run a session is a lease row with a fencing number that only ever grows. A process that lost
//! its lease can no longer commit, however late it wakes up.

#[cfg(feature = "sqlite")]
mod beacon;
mod dirs;
mod error;
#[cfg(feature = "sqlite")]
mod files;
mod liveness;
mod memory;
#[cfg(feature = "sqlite")]
mod owner;
mod realm;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
mod transaction;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use meerkat_core::{BlobId, SessionId};

#[cfg(feature = "sqlite")]
pub use beacon::Beacon;
pub use dirs::create_private_dirs;
pub use error::Error;
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub(crate) use owner::{Owner, OwnerRecord};
pub use realm::{
    Backend, Force, Manifest, Origin, Realm, RealmInfo, RealmList, RealmOptions, RealmPaths, StoreMark,
    TOKEN_FILE, UnknownBackend, Warning,
};
pub use rows::{
    Archived, Blob, CallRow, ConfigRow, LeaseRow, MemoryQuery, MemoryRow, MessageRow, SessionQuery,
    SessionRow, StateChanges, StateQuery, StateRow,
};
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::SqliteStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{check, try_write};
pub use transaction::{Change, Committed, Guard, NewCall, NewMemory, NewSession, Transaction};

/// What every store call returns.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// One realm's data.
///
/// Reads never wait for a run or for a writer. A commit that returned is on disk.
pub trait Store: Send + Sync {
    /// Applies a transaction whole, or not at all.
    ///
    /// Guards are checked first, against the state the changes will be applied to; the first that does not
    /// hold is the error. Once the future was polled, dropping it undoes nothing.
    fn commit(&self, transaction: Transaction) -> Reply<'_, Committed>;

    /// Reads one session, archived ones included.
    fn session(&self, id: SessionId) -> Reply<'_, Option<SessionRow>>;

    /// Lists sessions, the most recently changed first.
    fn sessions(&self, query: SessionQuery) -> Reply<'_, Vec<SessionRow>>;

    /// Reads the messages of a session in order, from sequence number `from` (the first message is 0), at
    /// most `limit` of them.
    fn messages(&self, id: SessionId, from: u64, limit: u64) -> Reply<'_, Vec<MessageRow>>;

    /// Reads the open tool calls of a session, in call order.
    fn calls(&self, id: SessionId) -> Reply<'_, Vec<CallRow>>;

    /// Reads the config document; `None` before the first change.
    fn config(&self) -> Reply<'_, Option<ConfigRow>>;

    /// Returns true if there is such a blob. Its bytes are not read.
    fn has_blob(&self, id: BlobId) -> Reply<'_, bool>;

    /// Reads a blob.
    fn blob(&self, id: BlobId) -> Reply<'_, Option<Blob>>;

    /// Finds what was remembered, the best first.
    fn recall(&self, query: MemoryQuery) -> Reply<'_, Vec<MemoryRow>>;

    /// Reads the tasks of a session, in the order in which they were made.
    fn tasks(&self, id: SessionId) -> Reply<'_, Vec<Vec<u8>>>;

    /// Lists the sessions that this store leases and that somebody asked to interrupt.
    fn interrupts(&self) -> Reply<'_, Vec<SessionId>>;

    /// Reads values of the state, in the order in which their keys were new.
    fn state(&self, query: StateQuery) -> Reply<'_, Vec<StateRow>>;

    /// Lists the scopes that have values, in the order of their names.
    fn scopes(&self) -> Reply<'_, Vec<String>>;

    /// Says how often values of a scope were put or removed, so that who watches it need not read it.
    fn revision(&self, scope: String) -> Reply<'_, u64>;

    /// Reads what changed in a scope after a revision; all of it after revision 0.
    fn state_changes(&self, scope: String, since: u64) -> Reply<'_, StateChanges>;

    /// Runs a quick check and returns the file that everything is in, if there is one. Damage is an error. The file is
    /// checked once; later calls return the same verdict.
    fn examine(&self) -> Reply<'_, Option<PathBuf>>;
}
