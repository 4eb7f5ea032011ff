//! What can go wrong in a store, each with its kind and what to do about it.
//!
//! Two families: a guard or a change that does not fit the data (nothing is wrong with the disk), and a
//! fault of the storage itself, which always names the file.

use std::io;
use std::path::PathBuf;

use meerkat_core::{ErrorKind, RealmId, SessionId};

use crate::Backend;

/// The fault underneath, whichever library it came from.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a store or a realm could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No session has this id.
    #[error("session `{0}` not found")]
    SessionNotFound(SessionId),
    /// The session is archived and a live one is needed.
    #[error("session `{0}` is archived")]
    Archived(SessionId),
    /// A session was to be created with an id that is taken.
    #[error("session `{0}` exists already")]
    SessionExists(SessionId),
    /// Somebody holds the session's lease.
    #[error("session `{0}` has a run in flight")]
    Busy(SessionId),
    /// Nobody holds the session's lease.
    #[error("session `{0}` has no run in flight")]
    NotRunning(SessionId),
    /// The lease was taken over or given back.
    #[error("the lease on session `{0}` is lost")]
    LeaseLost(SessionId),
    /// The session was run in between.
    #[error("session `{0}` was run by somebody else in between")]
    Changed(SessionId),
    /// A call was to be opened with an id that is taken among the open calls of the session.
    #[error("call `{call}` of session `{session}` is open already")]
    CallExists {
        /// The session.
        session: SessionId,
        /// The call's id.
        call: String,
    },
    /// The session has no such open call.
    #[error("session `{session}` has no open call `{call}`")]
    CallNotFound {
        /// The session.
        session: SessionId,
        /// The call's id.
        call: String,
    },
    /// The session has as many tasks as it may have.
    #[error("session `{session}` has {limit} tasks, which is the limit")]
    TooManyTasks {
        /// The session.
        session: SessionId,
        /// The number of tasks it may have.
        limit: usize,
    },
    /// The config was changed by somebody else in between.
    #[error("config generation is `{current}`, not `{expected}`")]
    Generation {
        /// What the caller had read.
        expected: u64,
        /// What it is.
        current: u64,
    },
    /// A value of the state was changed by somebody else in between.
    #[error("`{key}` in scope `{scope}` was changed by somebody else in between")]
    StateChanged {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
    },
    /// A newer program wrote the database.
    #[error("database `{}` has schema version {found}; this build reads up to {supported}", path.display())]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// The version it has.
        found: u64,
        /// The newest version this build knows.
        supported: u64,
    },
    /// An older program wrote the database, and it cannot be written to bring it up to date.
    #[error(
        "database `{}` has schema version {found} and must be upgraded to {supported}, but the disk is full or read-only",
        path.display()
    )]
    OlderSchema {
        /// The database file.
        path: PathBuf,
        /// The version it has.
        found: u64,
        /// The version this build needs.
        supported: u64,
    },
    /// The manifest says that the realm has a database, and there is none, or nothing is in it.
    #[error("database `{}` is missing or empty, although its realm has stored data", path.display())]
    StoreLost {
        /// The database file.
        path: PathBuf,
    },
    /// The file is a database, but not one of ours.
    #[error("database `{}` was not written by this program", path.display())]
    ForeignSchema {
        /// The database file.
        path: PathBuf,
    },
    /// The file is damaged, or is no database at all.
    #[error("database `{}` is damaged", path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What was found.
        #[source]
        source: Source,
    },
    /// There is no room left on the device.
    #[error("no space left to write `{}`", path.display())]
    DiskFull {
        /// The file or directory that could not be written.
        path: PathBuf,
        /// The fault underneath.
        #[source]
        source: Source,
    },
    /// The file or its directory may not be written.
    #[error("`{}` cannot be written: permission denied or read-only", path.display())]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// The fault underneath.
        #[source]
        source: Source,
    },
    /// Another process kept the database locked for minutes.
    #[error("database `{}` stayed locked", path.display())]
    Locked {
        /// The database file.
        path: PathBuf,
        /// The fault underneath.
        #[source]
        source: Source,
    },
    /// The file system failed.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The fault underneath.
        #[source]
        source: io::Error,
    },
    /// The database refused a statement.
    #[error("database `{}` failed", path.display())]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// The fault underneath.
        #[source]
        source: Source,
    },
    /// The thread that owned the database is gone.
    #[error("the store is closed")]
    Closed,
    /// A field of a realm's manifest is missing or wrong.
    #[error("realm manifest `{}` has no good `{field}`", path.display())]
    Manifest {
        /// The manifest file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A realm's manifest is not a JSON object.
    #[error("realm manifest `{}` is not a JSON object", path.display())]
    ManifestSyntax {
        /// The manifest file.
        path: PathBuf,
        /// Where reading stopped.
        #[source]
        source: serde_json::Error,
    },
    /// The realm needs a backend this build does not have.
    #[error("realm `{realm}` needs the `{backend}` backend; this build has no `{backend}` backend")]
    BackendMissing {
        /// The realm.
        realm: RealmId,
        /// The backend it needs.
        backend: Backend,
    },
    /// The state root has no such realm.
    #[error("realm `{0}` not found")]
    RealmNotFound(RealmId),
    /// A living process has the realm open.
    #[error("realm `{0}` is in use")]
    RealmInUse(RealmId),
    /// What stands where the realm's directory or file should be leads elsewhere.
    #[error("`{}` is not a plain directory or file of a realm", path.display())]
    RealmPath {
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// Returns what policy looks at.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::SessionNotFound(_) | Self::Archived(_) => ErrorKind::SessionNotFound,
            Self::Busy(_) | Self::Changed(_) => ErrorKind::SessionBusy,
            Self::NotRunning(_) => ErrorKind::SessionNotRunning,
            Self::Generation { .. }
            | Self::StateChanged { .. }
            | Self::CallNotFound { .. }
            | Self::TooManyTasks { .. }
            | Self::RealmNotFound(_) => ErrorKind::InvalidParams,
            Self::SessionExists(_) | Self::CallExists { .. } => ErrorKind::Internal,
            Self::BackendMissing { .. } => ErrorKind::PersistenceDisabled,
            _ => ErrorKind::StoreError,
        }
    }

    /// Says what to do next, where there is something to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Busy(_) | Self::Changed(_) => {
                "nothing is queued: try again when the run has ended".to_owned()
            }
            Self::StateChanged { .. } => "read the value again and apply the change to that".to_owned(),
            Self::Generation { .. } => "read the config again and apply the change to that".to_owned(),
            Self::NewerSchema { .. } => "use a build at least as new as the one that wrote it".to_owned(),
            Self::ForeignSchema { .. } => "choose another realm or another state root".to_owned(),
            Self::OlderSchema { .. } => "open the realm once where its files can be written".to_owned(),
            Self::StoreLost { path } | Self::Corrupt { path, .. } => {
                let (path, root) = (path.display(), path.parent().unwrap_or(path).display());
                format!(
                    "nothing was changed: restore `{path}` from a backup, or move `{root}` aside to start over; \
                     `rkat doctor` checks it"
                )
            }
            Self::DiskFull { .. } => "free some space and try again; what was committed is safe".to_owned(),
            Self::ReadOnly { .. } => {
                "check who owns it and its permissions, or choose another state root".to_owned()
            }
            Self::Io { .. } => "check that the path is there and may be read and written".to_owned(),
            Self::Locked { .. } => "find the process that holds it and end it".to_owned(),
            Self::Manifest { path, .. } | Self::ManifestSyntax { path, .. } => {
                format!("correct `{}` or restore it from a backup", path.display())
            }
            Self::BackendMissing { .. } => "use a build with that backend, or another realm".to_owned(),
            Self::RealmNotFound(_) => "list the realms of the state root to see what there is".to_owned(),
            Self::RealmInUse(_) => "end the processes that use it, or force the deletion".to_owned(),
            Self::RealmPath { .. } => {
                "links are not followed out of the state root: remove it by hand".to_owned()
            }
            _ => return None,
        })
    }

    /// Returns true if the disk is full or may not be written, so that reading may still be possible.
    #[must_use]
    pub const fn is_unwritable(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::ReadOnly { .. })
    }

    /// Sorts a fault of the file system.
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, source: source.into() }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path, source: source.into() }
            }
            _ => Self::Io { path, source },
        }
    }
}
