//! Common parts of the benchmarks: a directory, a realm in it, and bare SQLite for comparison.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use meerkat::Realm;
use meerkat_core::Timestamp;
use uuid::Uuid;

use crate::measure::Failure;

/// Creates a temporary directory on the build's disk, so that a commit has its real cost.
pub(crate) fn dir() -> Result<tempfile::TempDir, Failure> {
    let build_dir = std::env::current_exe()?.parent().map(Path::to_owned).ok_or("no directory")?;
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(build_dir)?)
}

pub(crate) fn realm(dir: &Path) -> Result<Realm, Failure> {
    Ok(Realm::open(meerkat::RealmOptions {
        state_root: dir.to_owned(),
        realm: "bench".parse()?,
        origin: meerkat::RealmOrigin::Explicit,
        workspace: None,
        backend_hint: None,
        instance: None,
        surface: "bench".to_owned(),
        now: Timestamp::now(),
        owner: Uuid::now_v7(),
    })?)
}

/// Bare SQLite with the same durability as the store.
pub(crate) struct Floor(Mutex<rusqlite::Connection>);

impl Floor {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let connection = rusqlite::Connection::open(path)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.execute_batch(
            "PRAGMA synchronous = FULL; CREATE TABLE messages (seq INTEGER PRIMARY KEY, message BLOB NOT NULL)",
        )?;
        Ok(Self(Mutex::new(connection)))
    }

    pub(crate) fn commit(&self) -> Result<(), Failure> {
        let message = [b'x'; 200];
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connection.execute("INSERT INTO messages (message) VALUES (?1)", [message.as_slice()])?;
        Ok(())
    }
}
