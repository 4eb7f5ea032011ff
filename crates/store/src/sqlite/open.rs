//! Opens a database: checks its origin and schema version, and upgrades it.
//!
//! A file that is damaged, foreign, or too new is rejected before anything is written to it. The file is opened only
//! through SQLite, because closing any other handle would release the locks of every connection of this process.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};

use super::busy::{retry_while_busy, set_busy_handler};
use super::failure::storage;
use super::unwritable::is_empty;
use crate::{Error, StoreMark, files};

/// Scripts that upgrade the schema from each version to the next.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
];

/// Schema of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Schema {
    /// A Meerkat schema of this version; an empty database has version 0.
    Version(usize),
    /// A schema of another application.
    Foreign,
}

impl Schema {
    /// Version that this build writes.
    pub(super) const LATEST: usize = MIGRATIONS.len();
}

/// Opens the write connection, and prepares the database for use. A lost database is not created again.
pub(super) fn writer(path: &Path, mark: StoreMark) -> Result<Connection, Error> {
    let lost = || Error::StoreLost { path: path.to_owned() };
    if mark == StoreMark::Created && is_empty(path) {
        return Err(lost());
    }
    let schema = |schema| match schema {
        Schema::Foreign => Err(Error::ForeignSchema { path: path.to_owned() }),
        Schema::Version(0) if mark == StoreMark::Created => Err(lost()),
        Schema::Version(found) if found > MIGRATIONS.len() => Err(newer(path, found)),
        Schema::Version(version) => Ok(version),
    };
    let to_error = |error| storage(path, error);
    let (connection, found) = retry_while_busy(|| {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let found = read_schema(&connection)?;
        Ok((connection, found))
    })
    .map_err(to_error)?;
    schema(found)?;
    retry_while_busy(|| make_durable(&connection)).map_err(to_error)?;
    while schema(retry_while_busy(|| migrate(&connection)).map_err(to_error)?)? < MIGRATIONS.len() {}
    Ok(connection)
}

/// Opens the read connection, after the write connection is open.
pub(super) fn reader(path: &Path) -> Result<Connection, Error> {
    let open = || {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute_batch("PRAGMA query_only = ON")?;
        Ok(connection)
    };
    retry_while_busy(open).map_err(|error| storage(path, error))
}

pub(super) fn newer(path: &Path, found: usize) -> Error {
    let (found, supported) = (number(found), number(MIGRATIONS.len()));
    Error::NewerSchema { path: path.to_owned(), found, supported }
}

pub(super) fn older(path: &Path, found: usize) -> Error {
    let (found, supported) = (number(found), number(MIGRATIONS.len()));
    Error::OlderSchema { path: path.to_owned(), found, supported }
}

fn number(version: usize) -> u64 {
    u64::try_from(version).unwrap_or(u64::MAX)
}

pub(super) fn connect(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    set_busy_handler(&connection)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Make a new file private while it is empty; SQLite creates the log with the same mode. The directory is already
    // private, so ignore errors.
    if access.contains(OpenFlags::SQLITE_OPEN_CREATE)
        && fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0)
    {
        let _ = files::make_private(path);
    }
    Ok(connection)
}

fn make_durable(connection: &Connection) -> rusqlite::Result<()> {
    // Returns the actual mode; if it cannot be changed, commits are slower but equally safe.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
}

pub(super) fn read_schema(connection: &Connection) -> rusqlite::Result<Schema> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(Schema::Version(0));
    }
    let count = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'";
    if connection.query_row(count, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Schema::Foreign);
    }
    let version = connection.query_row("SELECT version FROM schema_version", [], |row| row.get::<_, i64>(0));
    Ok(version
        .optional()?
        .and_then(|version| usize::try_from(version).ok())
        .map_or(Schema::Foreign, Schema::Version))
}

/// Upgrades the schema by one version, if possible, and returns the resulting schema.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<Schema> {
    // Almost always nothing is to be done, so avoid waiting for a writer.
    match read_schema(connection)? {
        Schema::Version(version) if version < MIGRATIONS.len() => {}
        schema => return Ok(schema),
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let schema = migrate_locked(&transaction)?;
    transaction.commit()?;
    Ok(schema)
}

fn migrate_locked(connection: &Connection) -> rusqlite::Result<Schema> {
    // Another process may have upgraded it already.
    let found = read_schema(connection)?;
    let Schema::Version(version) = found else {
        return Ok(found);
    };
    let Some(migration) = MIGRATIONS.get(version) else {
        return Ok(found);
    };
    connection.execute_batch(migration)?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")?;
    connection.execute_batch("DELETE FROM schema_version")?;
    let next = version + 1;
    connection
        .execute("INSERT INTO schema_version (version) VALUES (?1)", [i64::try_from(next).unwrap_or(0)])?;
    Ok(Schema::Version(next))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn concurrent_first_opens_are_never_busy() {
        for _ in 0..10 {
            let directory = tempfile::tempdir().unwrap();
            let (path, start) = (directory.path().join("db"), Barrier::new(16));
            let open = || {
                start.wait();
                writer(&path, StoreMark::Absent).and_then(|_writer| reader(&path).map(drop))
            };
            thread::scope(|scope| {
                let threads: Vec<_> = (0..16).map(|_| scope.spawn(open)).collect();
                for thread in threads {
                    thread.join().unwrap().unwrap();
                }
            });
            crate::check(&path).unwrap();
        }
    }
}
