//! Copies of a database. A backup is a copy with one more table, which holds the realm's manifest.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::failure::storage;
use super::open::{self, Schema, connect, read_schema};
use super::unwritable::{is_empty, open_unchanged, with_connection};
use crate::dirs::create_private;
use crate::{Error, StoreMark};

/// Copies a database into a new private file, with everything committed so far. It reads one snapshot, so it never
/// waits for writers nor delays them, and it ends however much they write.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if is_empty(from) {
        return Err(Error::StoreLost { path: from.to_owned() });
    }
    let (connection, schema) = open_unchanged(from, read_schema).map_err(|error| storage(from, error))?;
    match schema {
        Schema::Foreign => return Err(Error::ForeignSchema { path: from.to_owned() }),
        Schema::Version(0) => return Err(Error::StoreLost { path: from.to_owned() }),
        Schema::Version(_) => {}
    }
    // SQLite accepts an existing file if it is empty, and keeps its mode.
    create_private(to).map_err(|error| Error::io(to, error))?;
    let name = to.to_str().ok_or_else(|| Error::io(to, std::io::ErrorKind::InvalidFilename.into()))?;
    let copied = connection.execute("VACUUM INTO ?1", [name]);
    copied.map_err(|error| match storage(from, error) {
        Error::DiskFull { source, .. } => Error::DiskFull { path: to.to_owned(), source },
        error => error,
    })?;
    Ok(())
}

/// Adds the manifest of a realm to a copy of its database.
pub(crate) fn seal(copy: &Path, manifest: &str) -> Result<(), Error> {
    let add = |connection: &Connection| {
        connection.execute_batch(
            "BEGIN; DROP TABLE IF EXISTS backup; CREATE TABLE backup (manifest TEXT NOT NULL)",
        )?;
        connection.execute("INSERT INTO backup (manifest) VALUES (?1)", [manifest])?;
        connection.execute_batch("COMMIT")
    };
    let added = connect(copy, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(|connection| add(&connection));
    added.map_err(|error| storage(copy, error))
}

/// Returns the manifest in a backup, or `None` if the database is not a backup. Changes nothing.
pub(crate) fn manifest_of_backup(path: &Path) -> Result<Option<String>, Error> {
    let found = with_connection(path, |connection| {
        let tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'backup'";
        match connection.query_row(tables, [], |row| row.get::<_, i64>(0))? {
            0 => Ok(None),
            _ => connection.query_row("SELECT manifest FROM backup", [], |row| row.get(0)).map(Some),
        }
    });
    found.map_err(|error| storage(path, error))
}

/// Turns a copy of a backup into the database of a realm: upgrades its schema, and removes the manifest and the leases
/// of the processes that used the original.
pub(crate) fn unseal(copy: &Path) -> Result<(), Error> {
    let connection = open::writer(copy, StoreMark::Created)?;
    let removed = connection.execute_batch(
        "BEGIN IMMEDIATE; DROP TABLE IF EXISTS backup;
         UPDATE sessions SET owner = NULL, interrupt = 0 WHERE owner IS NOT NULL; COMMIT",
    );
    removed.map_err(|error| storage(copy, error))
}
