//! Errors of a store, each with its kind and a hint.
//!
//! An error is either a guard or a change that does not fit the data, which is not a storage problem, or a failure of
//! the storage itself, which always names the file.

use std::io;
use std::path::PathBuf;

use meerkat_core::{ErrorKind, RealmId, SessionId};

use crate::Backend;

/// Underlying error of any library.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

/// Error of an operation on a store or realm.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No session has this id.
    #[error("session `{0}` not found")]
    SessionNotFound(SessionId),
    /// The session is archived, but the operation requires an active one.
    #[error("session `{0}` is archived")]
    Archived(SessionId),
    /// A session with this id already exists.
    #[error("session `{0}` already exists")]
    SessionExists(SessionId),
    /// The session's lease is held.
    #[error("session `{0}` has an active run")]
    Busy(SessionId),
    /// The session's lease is not held.
    #[error("session `{0}` has no active run")]
    NotRunning(SessionId),
    /// The lease was taken over or released.
    #[error("the lease on session `{0}` is lost")]
    LeaseLost(SessionId),
    /// The session was run since it was read.
    #[error("session `{0}` was run by another process in the meantime")]
    Changed(SessionId),
    /// The session already has an open call with this id.
    #[error("call `{call}` of session `{session}` is already open")]
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
    /// The session has reached its maximum number of tasks.
    #[error("session `{session}` has {limit} tasks, which is the limit")]
    TooManyTasks {
        /// The session.
        session: SessionId,
        /// Maximum number of tasks.
        limit: usize,
    },
    /// The config changed concurrently.
    #[error("config generation is `{current}`, not `{expected}`")]
    Generation {
        /// The generation that the caller read.
        expected: u64,
        /// The current generation.
        current: u64,
    },
    /// A value of the state changed concurrently.
    #[error("`{key}` in scope `{scope}` changed concurrently")]
    StateChanged {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
    },
    /// A newer version of Meerkat wrote the database.
    #[error("database `{}` has schema version {found}; this build reads up to {supported}", path.display())]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// The version of the database.
        found: u64,
        /// The newest supported version.
        supported: u64,
    },
    /// An older version of Meerkat wrote the database, and it cannot be upgraded because it is not writable.
    #[error(
        "database `{}` has schema version {found} and must be upgraded to {supported}, but the disk is full or read-only",
        path.display()
    )]
    OlderSchema {
        /// The database file.
        path: PathBuf,
        /// The version of the database.
        found: u64,
        /// The required version.
        supported: u64,
    },
    /// According to the manifest, the realm has a database, but it is missing or empty.
    #[error("database `{}` is missing or empty, although its realm has stored data", path.display())]
    StoreLost {
        /// The database file.
        path: PathBuf,
    },
    /// The realm's files were deleted or replaced while this process had them open.
    #[error("database `{}` or its realm was deleted or replaced while this process was using it", path.display())]
    StoreReplaced {
        /// The database file.
        path: PathBuf,
    },
    /// The file is a database, but not a Meerkat database.
    #[error("`{}` is not a Meerkat database", path.display())]
    ForeignSchema {
        /// The database file.
        path: PathBuf,
    },
    /// The file is damaged, or is not a database.
    #[error("database `{}` is damaged", path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// The damage found.
        #[source]
        source: Source,
    },
    /// The disk is full.
    #[error("no space left to write `{}`", path.display())]
    DiskFull {
        /// The file or directory that could not be written.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: Source,
    },
    /// The file or its directory is not writable.
    #[error("cannot write `{}`: permission denied or read-only", path.display())]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: Source,
    },
    /// Another process held a lock on the database for minutes.
    #[error("timed out waiting for a lock on database `{}`", path.display())]
    Locked {
        /// The database file.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: Source,
    },
    /// A file system operation failed.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: io::Error,
    },
    /// A database statement failed.
    #[error("database `{}` failed", path.display())]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: Source,
    },
    /// The thread that owned the database has ended.
    #[error("the store is closed")]
    Closed,
    /// A field of a realm's manifest is missing or invalid.
    #[error("invalid `{field}` in realm manifest `{}`", path.display())]
    Manifest {
        /// The manifest file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// A realm's manifest is not a JSON object.
    #[error("realm manifest `{}` is not a JSON object", path.display())]
    ManifestSyntax {
        /// The manifest file.
        path: PathBuf,
        /// The syntax error.
        #[source]
        source: serde_json::Error,
    },
    /// The realm needs a backend that this build does not include.
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
    /// A running process has the realm open.
    #[error("realm `{0}` is in use")]
    RealmInUse(RealmId),
    /// A realm with this id exists.
    #[error("realm `{0}` already exists")]
    RealmExists(RealmId),
    /// A file exists at the path of a new backup.
    #[error("`{}` already exists", path.display())]
    BackupExists {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a complete backup of a realm.
    #[error("`{}` is not a complete backup of a realm", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Source,
    },
    /// The path of the realm's directory or file is a symlink or another kind of file.
    #[error("`{}` is not a regular file or directory of a realm", path.display())]
    RealmPath {
        /// The path.
        path: PathBuf,
    },
}

/// Returns an error unless a condition holds.
pub(crate) fn ensure(holds: bool, error: impl FnOnce() -> Error) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(error()) }
}

impl Error {
    /// Returns the kind of error.
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
            | Self::RealmNotFound(_)
            | Self::RealmExists(_)
            | Self::BackupExists { .. }
            | Self::NotABackup { .. } => ErrorKind::InvalidParams,
            Self::SessionExists(_) | Self::CallExists { .. } => ErrorKind::Internal,
            Self::BackendMissing { .. } => ErrorKind::PersistenceDisabled,
            _ => ErrorKind::StoreError,
        }
    }

    /// Returns a hint about what to do next, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Busy(_) | Self::Changed(_) => {
                "requests are not queued: try again when the run has ended".to_owned()
            }
            Self::StateChanged { .. } => "read the value again, then reapply the change".to_owned(),
            Self::Generation { .. } => "read the config again, then reapply the change".to_owned(),
            Self::NewerSchema { .. } => "use the version of Meerkat that wrote it, or a newer one".to_owned(),
            Self::ForeignSchema { .. } => "use another realm or another state root".to_owned(),
            Self::OlderSchema { .. } => "open the realm once while its files are writable".to_owned(),
            Self::StoreLost { path } | Self::Corrupt { path, .. } => {
                let (path, root) = (path.display(), path.parent().unwrap_or(path).display());
                format!(
                    "nothing was changed: move `{root}` aside, then restore a backup with `rkat realm restore FILE`, \
                     or start over; `rkat doctor` checks `{path}`"
                )
            }
            Self::StoreReplaced { .. } => "nothing was stored: restart this process".to_owned(),
            Self::DiskFull { .. } => "free some space and try again; what was committed is safe".to_owned(),
            Self::ReadOnly { .. } => "check its owner and permissions, or use another state root".to_owned(),
            Self::Io { .. } => "check that the path exists and is readable and writable".to_owned(),
            Self::Locked { .. } => "find and stop the process that holds the lock".to_owned(),
            Self::Manifest { path, .. } | Self::ManifestSyntax { path, .. } => {
                format!("fix `{}` or restore it from a backup", path.display())
            }
            Self::BackendMissing { .. } => "use a build with that backend, or another realm".to_owned(),
            Self::RealmNotFound(_) => "list the realms of the state root to see which exist".to_owned(),
            Self::RealmExists(_) => {
                "choose another name with `--as NAME`, or delete the realm or move its directory aside first"
                    .to_owned()
            }
            Self::BackupExists { .. } => "choose another file, or overwrite it with `--force`".to_owned(),
            Self::NotABackup { .. } => "use a file that `rkat realm backup` wrote".to_owned(),
            Self::RealmInUse(_) => "stop the processes that use it, or force the deletion".to_owned(),
            Self::RealmPath { .. } => {
                "symlinks are not followed out of the state root: move what it leads to here, or use another state root"
                    .to_owned()
            }
            _ => return None,
        })
    }

    /// Returns `true` if the disk is full or not writable, so that reading may still be possible.
    #[must_use]
    pub const fn is_unwritable(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::ReadOnly { .. })
    }

    /// Converts a file system error.
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
