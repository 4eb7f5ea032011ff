//! Durable storage of realms.
//!
//! A realm is a directory with a manifest that pins its backend. All changes go through one method,
//! [`Store::commit`], which applies a [`Transaction`] of guards and changes atomically. The store holds keys,
//! counters, and bytes; callers encode the records. No SQL leaves this crate.
//!
//! A lease with a monotonic fencing number grants the right to run a session. A process that lost its lease can no
//! longer commit, however late it resumes.

mod backend;
mod dirs;
#[cfg(feature = "sqlite")]
mod endpoint_file;
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

pub use backend::{Backend, StoreMark, UnknownBackend};
pub use dirs::create_private_dirs;
#[cfg(feature = "sqlite")]
pub use endpoint_file::EndpointFile;
pub use error::Error;
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub(crate) use owner::{Owner, OwnerRecord};
#[cfg(feature = "sqlite")]
pub use realm::{Backup, Kinship, adopt_realm};
pub use realm::{
    Force, Realm, RealmInfo, RealmList, RealmManifest, RealmOptions, RealmOrigin, RealmPaths, RealmUser,
    TOKEN_FILE, Warning,
};
pub use rows::{
    ArchivedFilter, Blob, CallRow, ConfigRow, LeaseRow, MemoryQuery, MemoryRow, MessageRow, SessionQuery,
    SessionRow, StateChanges, StateQuery, StateRow, UsageRow,
};
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::SqliteStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{check, try_write};
pub use transaction::{Change, Committed, Guard, NewCall, NewMemory, NewSession, Transaction};

/// Future returned by every store call.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Data of a realm.
///
/// Reads never wait for a run or a writer. When a commit returns, it is on disk.
pub trait Store: Send + Sync {
    /// Applies a transaction atomically.
    ///
    /// Guards are checked first, against the state that the changes will be applied to; the first that does not
    /// hold is the error. Once the future has been polled, dropping it does not undo the commit.
    fn commit(&self, transaction: Transaction) -> Reply<'_, Committed>;

    /// Reads a session, even if it is archived.
    fn session(&self, id: SessionId) -> Reply<'_, Option<SessionRow>>;

    /// Lists sessions, most recently changed first.
    fn sessions(&self, query: SessionQuery) -> Reply<'_, Vec<SessionRow>>;

    /// Reads up to `limit` messages of a session in order, starting at sequence number `from` (the first message is 0).
    fn messages(&self, id: SessionId, from: u64, limit: u64) -> Reply<'_, Vec<MessageRow>>;

    /// Reads the open tool calls of a session, in call order.
    fn calls(&self, id: SessionId) -> Reply<'_, Vec<CallRow>>;

    /// Reads the config document, or `None` before the first change.
    fn config(&self) -> Reply<'_, Option<ConfigRow>>;

    /// Returns `true` if the blob exists, without reading its bytes.
    fn has_blob(&self, id: BlobId) -> Reply<'_, bool>;

    /// Reads a blob.
    fn blob(&self, id: BlobId) -> Reply<'_, Option<Blob>>;

    /// Searches memories, best matches first.
    fn search_memories(&self, query: MemoryQuery) -> Reply<'_, Vec<MemoryRow>>;

    /// Reads the tasks of a session, in creation order.
    fn tasks(&self, id: SessionId) -> Reply<'_, Vec<Vec<u8>>>;

    /// Lists the usage of all sessions by day.
    fn usage(&self) -> Reply<'_, Vec<UsageRow>>;

    /// Lists the sessions leased by this store whose run should be interrupted.
    fn interrupts(&self) -> Reply<'_, Vec<SessionId>>;

    /// Reads values of the state, in the order in which their keys were added.
    fn state(&self, query: StateQuery) -> Reply<'_, Vec<StateRow>>;

    /// Lists the scopes that have values, by name.
    fn scopes(&self) -> Reply<'_, Vec<String>>;

    /// Returns the number of changes to a scope, so that watchers can detect changes without reading its values.
    fn revision(&self, scope: String) -> Reply<'_, u64>;

    /// Reads the changes in a scope after a revision; after revision 0, all values.
    fn state_changes(&self, scope: String, since: u64) -> Reply<'_, StateChanges>;

    /// Runs a quick check, and returns the path of the database, if there is one. Returns an error if it is damaged.
    /// The file is checked only once; later calls return the same result.
    fn examine(&self) -> Reply<'_, Option<PathBuf>>;
}
