//! Converts SQLite errors to errors that callers can act on.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::Error;

/// Error of an operation in the database.
#[derive(Debug)]
pub(super) enum Failure {
    /// A guard or a change does not fit the data.
    Refused(Error),
    /// The storage failed.
    Storage(rusqlite::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error)
    }
}

impl Failure {
    /// Converts it to an error that names the file.
    pub(super) fn at(self, path: &Path) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Storage(error) => storage(path, error),
        }
    }
}

/// Converts a storage failure to an error that names the file.
pub(super) fn storage(path: &Path, error: rusqlite::Error) -> Error {
    let (path, code) = (path.to_owned(), error.sqlite_error_code());
    let (is_index_unallocated, is_bad_value) = (is_index_unallocated(&error), is_bad_value(&error));
    let source = error.into();
    match code {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::Corrupt { path, source },
        Some(ErrorCode::DiskFull) => Error::DiskFull { path, source },
        Some(_) if is_index_unallocated => Error::DiskFull { path, source },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { path, source },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { path, source },
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
            Error::Io { path, source: io::Error::other(source) }
        }
        None if is_bad_value => Error::Corrupt { path, source },
        _ => Error::Sqlite { path, source },
    }
}

/// Returns `true` if the index of the log could not be allocated, which is how SQLite reports a full disk there.
fn is_index_unallocated(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// Returns `true` if a value was read that Meerkat cannot have written.
const fn is_bad_value(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
    )
}

/// Clones a storage failure for another caller of the same batch.
pub(super) fn clone_error(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error.sqlite_error().copied();
    let code = code.unwrap_or_else(|| rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}
