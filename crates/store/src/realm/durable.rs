//! Opening a realm that is on disk, and creating it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Backend, Manifest, Realm, RealmOptions, RealmPaths};
use crate::{Error, Owner, OwnerRecord, SqliteOptions, SqliteStore, files};

impl Realm {
    /// The owner is announced before anything else is looked at, so that a realm being opened cannot be
    /// deleted underneath: deletion looks for owners after it has taken the directory away.
    pub(super) fn open_sqlite(options: RealmOptions, paths: RealmPaths) -> Result<Self, Error> {
        paths.create()?;
        let owner = Owner::claim(&paths.leases, options.owner, &options.owner_record())?;
        let backend = options.manifest().publish(&paths)?.backend;
        if backend != Backend::Sqlite {
            // Somebody else created it at the same moment, with another idea.
            return Err(Error::BackendMissing { realm: options.realm, backend });
        }
        let store = SqliteStore::open(SqliteOptions { path: paths.database.clone(), owner })?;
        paths.sync()?;
        let store = Arc::new(store);
        let mut realm = Self { id: options.realm, backend, paths: Some(paths), warnings: Vec::new(), store };
        realm.warn_of_hint(options.backend_hint);
        Ok(realm)
    }
}

impl RealmOptions {
    fn owner_record(&self) -> OwnerRecord {
        OwnerRecord {
            realm: self.realm.clone(),
            instance: self.instance.clone(),
            surface: self.surface.clone(),
            started_at: self.now,
        }
    }

    fn manifest(&self) -> Manifest {
        let (realm_id, origin) = (self.realm.clone(), self.origin);
        Manifest {
            realm_id,
            backend: self.backend_hint.unwrap_or(Backend::Sqlite),
            origin,
            created_at: self.now,
        }
    }
}

impl RealmPaths {
    /// Creates the directories. Links that would lead out of the realm are refused.
    fn create(&self) -> Result<(), Error> {
        files::create_dirs(&self.leases).map_err(|error| Error::io(&self.leases, error))?;
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        match [&self.root, &self.leases, &self.database].into_iter().find(|path| is_link(path)) {
            Some(path) => Err(Error::RealmPath { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Puts the realm's names on disk, its own included.
    fn sync(&self) -> Result<(), Error> {
        [Some(self.root.as_path()), self.root.parent()]
            .into_iter()
            .flatten()
            .try_for_each(|directory| files::sync_dir(directory).map_err(|error| Error::io(directory, error)))
    }
}

impl Manifest {
    /// Writes the manifest unless there is one, and returns the one there is.
    ///
    /// The lock is needed only while there is no manifest, and whoever gets it looks again, so its file can
    /// be removed by the one who wrote the manifest.
    fn publish(&self, paths: &RealmPaths) -> Result<Self, Error> {
        if let Some(found) = Self::find(paths, &self.realm_id)? {
            return Ok(found);
        }
        let lock_path = paths.root.join(".realm_manifest.lock");
        let lock = files::create_private(&lock_path).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(|error| Error::io(&lock_path, error))?;
        if let Some(found) = Self::find(paths, &self.realm_id)? {
            return Ok(found);
        }
        let temporary = paths.root.join(".realm_manifest.new");
        let written = serde_json::to_vec(self)
            .map_err(io::Error::from)
            .and_then(|bytes| files::write_atomic(&paths.manifest, &temporary, &bytes));
        written.map_err(|error| Error::io(&paths.manifest, error))?;
        let _ = fs::remove_file(&lock_path);
        Ok(self.clone())
    }
}
