//! Realms that are deleted with the test.

use std::path::{Path, PathBuf};

use meerkat_store::{Realm, RealmOptions, RealmOrigin};
use tempfile::TempDir;
use uuid::Uuid;

/// Moves what an exited process may have left in a database's write-ahead log into the database file. A process
/// closes its database under a time limit, so a test that changes the file must not rely on that.
pub fn checkpoint(database: &Path) {
    let dir = database.parent().expect("the realm's directory");
    let name = dir.file_name().and_then(|name| name.to_str()).expect("the realm's id");
    let options = RealmOptions {
        state_root: dir.parent().expect("the state root").to_owned(),
        realm: name.parse().expect("a realm id"),
        ..Scratch::new().options()
    };
    drop(Realm::open(options).expect("the realm opens"));
    let log = database.with_extension("sqlite3-wal");
    assert!(!log.exists(), "{} is in use", log.display());
}

/// A temporary state root.
pub struct Scratch {
    dir: TempDir,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Creates an empty state root.
    #[must_use]
    pub fn new() -> Self {
        Self { dir: TempDir::new().expect("a temporary directory") }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of an entry in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns options that open the realm `test` in it.
    #[must_use]
    pub fn options(&self) -> RealmOptions {
        RealmOptions {
            state_root: self.path().to_owned(),
            realm: "test".parse().expect("a realm id"),
            origin: RealmOrigin::Explicit,
            workspace: None,
            backend_hint: None,
            instance: None,
            surface: "test".to_owned(),
            now: jiff::Timestamp::now(),
            owner: Uuid::now_v7(),
        }
    }

    /// Opens the realm `test` in it.
    #[must_use]
    pub fn realm(&self) -> Realm {
        Realm::open(self.options()).expect("the realm opens")
    }
}
