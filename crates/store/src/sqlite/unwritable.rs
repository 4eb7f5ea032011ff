//! Reads a database on a full or read-only disk.
//!
//! SQLite keeps two files next to a database, a log of commits and an index of the log, and reading creates them if
//! they are missing. If they are missing and cannot be created, no process has the database open, and it is read
//! without locks: the file alone, or together with its log. It is reopened for each query, because a process may start
//! to write it.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::busy::retry_while_busy;
use super::failure::storage;
use super::failure_log::FailureLog;
use super::open::{Schema, connect, migrate, newer, older, read_schema};
use super::reader::Reader;
use super::value::get_u64;
use crate::owner::Peers;
use crate::{ArchivedFilter, Error, StoreMark};

/// A database that can only be read.
pub(super) struct Unwritable {
    pub(super) path: PathBuf,
    pub(super) peers: Peers,
    /// Whether the database must exist.
    pub(super) mark: StoreMark,
    pub(super) failures: FailureLog,
}

impl Unwritable {
    /// Opens the database for one query. A realm that was never stored is empty.
    pub(super) fn reader(&self) -> Result<Reader, Error> {
        let path = &self.path;
        let to_error = |error| storage(path, error);
        let opened = match is_empty(path) {
            true => None,
            false => Some(open_unchanged(path, read_schema).map_err(to_error)?),
        };
        let connection = match (opened, self.mark) {
            (Some((_, Schema::Foreign)), _) => return Err(Error::ForeignSchema { path: path.clone() }),
            (Some((_, Schema::Version(found @ 1..))), _) if found < Schema::LATEST => {
                return Err(older(path, found));
            }
            (Some((_, Schema::Version(found))), _) if found > Schema::LATEST => {
                return Err(newer(path, found));
            }
            (Some((connection, Schema::Version(1..))), _) => connection,
            (_, StoreMark::Created) => return Err(Error::StoreLost { path: path.clone() }),
            (_, StoreMark::Absent) => empty().map_err(to_error)?,
        };
        let failures = self.failures.clone();
        Ok(Reader { connection, peers: self.peers.clone(), path: path.clone(), failures })
    }
}

/// Runs a query on a database without changing it.
pub(super) fn with_connection<T>(
    path: &Path,
    query: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    open_unchanged(path, query).map(|(_, result)| result)
}

/// Counts the sessions.
pub(crate) fn count_sessions(path: &Path, archived: ArchivedFilter) -> Result<u64, Error> {
    let count = match archived {
        ArchivedFilter::Hidden => "SELECT count(*) FROM sessions WHERE archived_at IS NULL",
        ArchivedFilter::Included => "SELECT count(*) FROM sessions",
    };
    let count = with_connection(path, |connection| connection.query_row(count, [], |row| get_u64(row, 0)));
    count.map_err(|error| storage(path, error))
}

/// Returns `true` if a database contains no sessions, config, or values.
pub(crate) fn is_unused(path: &Path) -> Result<bool, Error> {
    if is_empty(path) {
        return Ok(true);
    }
    let count = "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM config) + (SELECT count(*) FROM state)";
    let count = with_connection(path, |connection| connection.query_row(count, [], |row| get_u64(row, 0)));
    count.map(|count| count == 0).map_err(|error| storage(path, error))
}

/// Returns `true` if the database file is missing or empty.
pub(super) fn is_empty(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(metadata) => metadata.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

pub(super) fn open_unchanged<T>(
    path: &Path,
    query: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<(Connection, T)> {
    let shared = retry_while_busy(|| {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let result = query(&connection)?;
        Ok((connection, result))
    });
    match shared {
        Err(error) if needs_files(&error) => {
            let connection = if is_empty(&log(path)) { open_alone(path)? } else { open_with_log(path)? };
            let result = query(&connection)?;
            Ok((connection, result))
        }
        opened => opened,
    }
}

/// Returns `true` if reading failed because the files next to the database could not be created.
fn needs_files(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure | ErrorCode::DiskFull)
    )
}

/// Returns the path of the log of commits that are not in the database file yet.
fn log(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Opens the database file alone.
fn open_alone(path: &Path) -> rusqlite::Result<Connection> {
    connect_uri(&uri(path, "immutable=1"))
}

/// Opens a database together with its log. The index of the log is built in memory, because exclusive access does not
/// need a file for it. Nothing is locked, because a read-only file cannot be locked for exclusive access.
fn open_with_log(path: &Path) -> rusqlite::Result<Connection> {
    let options = if cfg!(windows) { "vfs=win32-none" } else { "vfs=unix-none" };
    let connection = connect_uri(&uri(path, options))?;
    connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    Ok(connection)
}

fn connect_uri(uri: &str) -> rusqlite::Result<Connection> {
    connect(Path::new(uri), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

/// Returns a path as a URI with options for SQLite.
fn uri(path: &Path, options: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if plain(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02x}"));
        }
    }
    format!("{uri}?{options}")
}

/// Opens an empty database in memory.
fn empty() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    while migrate(&connection)? != Schema::Version(Schema::LATEST) {}
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use meerkat_core::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::{OpenWriter, open};
    use crate::{Change, Owner, OwnerRecord, SessionQuery, SqliteStore, Store as _, Transaction};

    fn unwritable(path: &Path, mark: StoreMark) -> Unwritable {
        Unwritable {
            path: path.to_owned(),
            peers: Peers::new(Uuid::nil(), path),
            mark,
            failures: FailureLog::default(),
        }
    }

    #[test]
    fn missing_database_is_empty_unless_it_was_created() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        for _ in 0..2 {
            let reader = unwritable(&path, StoreMark::Absent).reader().unwrap();
            assert!(reader.sessions(&SessionQuery::default()).unwrap().is_empty());
            let error = unwritable(&path, StoreMark::Created).reader().err();
            assert!(matches!(error, Some(Error::StoreLost { .. })), "{error:?}");
            // An empty file is treated like a missing one.
            std::fs::write(&path, "").unwrap();
        }
    }

    #[test]
    fn older_schema_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let connection = open::writer(&path, StoreMark::Absent).unwrap();
        connection.execute_batch("UPDATE schema_version SET version = 5").unwrap();
        let error = unwritable(&path, StoreMark::Created).reader().err().unwrap();
        assert!(matches!(error, Error::OlderSchema { found: 5, supported: 7, .. }), "{error:?}");
    }

    #[test]
    fn database_without_log_is_read_at_any_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b?c#d%41é");
        drop(open::writer(&path, StoreMark::Absent).unwrap());
        let connection = open_alone(&path).unwrap();
        assert_eq!(read_schema(&connection).unwrap(), Schema::Version(Schema::LATEST));
        assert!(is_empty(&log(&path)));
    }

    #[test]
    fn log_is_read_without_its_index() {
        let directory = tempfile::tempdir().unwrap();
        let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
        let writer = open::writer(&path, StoreMark::Absent).unwrap();
        writer.execute_batch("PRAGMA user_version = 7").unwrap();
        // The files that a killed process leaves behind, without the index.
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(log(&path), log(&copy)).unwrap();
        let connection = open_with_log(&copy).unwrap();
        let version = connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        assert_eq!(
            (version.unwrap(), read_schema(&connection).unwrap()),
            (7, Schema::Version(Schema::LATEST))
        );
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| name != "copy-shm"));
    }

    #[tokio::test]
    async fn commit_opens_the_database_once_it_can() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("db");
        let (leases, is_full) = (scratch.path().to_owned(), Arc::new(AtomicBool::new(true)));
        let open = {
            let (path, is_full) = (path.clone(), Arc::clone(&is_full));
            move || {
                if is_full.load(Ordering::SeqCst) {
                    return Err(Error::io(&path, std::io::ErrorKind::StorageFull.into()));
                }
                let record = OwnerRecord {
                    realm: "test".parse().unwrap(),
                    instance: None,
                    surface: "test".to_owned(),
                    started_at: Timestamp::UNIX_EPOCH,
                };
                OpenWriter::new(&path, StoreMark::Absent, Owner::claim(&leases, Uuid::nil(), &record)?)
            }
        };
        let peers = Peers::new(Uuid::nil(), scratch.path());
        let store = SqliteStore::open_unwritable(path, peers, StoreMark::Absent, open).unwrap();
        let config = || Transaction { guards: Vec::new(), changes: vec![Change::PutConfig(b"{}".to_vec())] };
        let refused = store.commit(config()).await;
        assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
        assert_eq!(store.config().await.unwrap(), None);
        is_full.store(false, Ordering::SeqCst);
        store.commit(config()).await.unwrap();
        assert_eq!(store.config().await.unwrap().unwrap().generation, 1);
    }
}
