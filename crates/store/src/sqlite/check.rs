//! Checks whether a database is intact and writable.

use std::path::Path;
use std::sync::OnceLock;

use rusqlite::OpenFlags;
use uuid::Uuid;

use super::busy::retry_while_busy;
use super::failure::storage;
use super::{open, unwritable};
use crate::Error;
use crate::dirs::create_private;

/// Size of the file that [`try_write`] writes, about as much as a run of a few steps needs.
const TRIAL_BYTES: usize = 256 * 1024;

/// Checks an entire database file. Changes nothing.
///
/// # Errors
/// Returns an error with the first damage found, or if the file does not exist.
pub fn check(path: &Path) -> Result<(), Error> {
    examine(path, "PRAGMA integrity_check(1)")
}

/// Checks a database file without comparing its indexes with its tables, which is faster. The result is cached in
/// `damage`, and the file is read only if it is not set yet.
pub(super) fn quick_check_once(path: &Path, damage: &OnceLock<Option<String>>) -> Result<(), Error> {
    if let Some(known) = damage.get() {
        let corrupt = |found: &String| Error::Corrupt { path: path.to_owned(), source: found.clone().into() };
        return known.as_ref().map_or(Ok(()), |found| Err(corrupt(found)));
    }
    let checked = examine(path, "PRAGMA quick_check(1)");
    match &checked {
        Ok(()) => drop(damage.set(None)),
        Err(Error::Corrupt { source, .. }) => drop(damage.set(Some(source.to_string()))),
        // The file could not be read this time, which does not mean that it is damaged.
        Err(_) => {}
    }
    checked
}

fn examine(path: &Path, pragma: &str) -> Result<(), Error> {
    let query =
        |connection: &rusqlite::Connection| connection.query_row(pragma, [], |row| row.get::<_, String>(0));
    let found = unwritable::with_connection(path, query).map_err(|error| storage(path, error))?;
    if found == "ok" {
        return Ok(());
    }
    Err(Error::Corrupt { path: path.to_owned(), source: found.into() })
}

/// Writes to a database and next to it, and reverts both, to find out whether a run could be stored.
///
/// # Errors
/// Returns an error if the disk is full or the files are not writable.
pub fn try_write(path: &Path) -> Result<(), Error> {
    let write = || {
        let connection = open::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // The number is unused. Setting it writes a page, even if it is unchanged.
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        connection.execute_batch(&format!("BEGIN IMMEDIATE; PRAGMA user_version = {version}; COMMIT"))
    };
    let trial = path.with_extension(format!("{}.trial", Uuid::now_v7()));
    let filled = create_private(&trial).and_then(|mut file| {
        std::io::Write::write_all(&mut file, &vec![0x5a; TRIAL_BYTES])?;
        file.sync_all()
    });
    let _ = std::fs::remove_file(&trial);
    filled.map_err(|error| Error::io(path, error))?;
    retry_while_busy(write).map_err(|error| storage(path, error))
}
