//! Opening a realm that is on disk, and creating it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::manifest::{Backend, Manifest, StoreMark};
use super::{Realm, RealmOptions, RealmPaths};
use crate::owner::Peers;
use crate::sqlite::OpenWriter;
use crate::{Error, Owner, OwnerRecord, SqliteStore, create_private_dirs, files};

impl Realm {
    pub(super) fn open_sqlite(
        options: RealmOptions,
        paths: RealmPaths,
        mark: Option<StoreMark>,
    ) -> Result<Self, Error> {
        let (realm, hint) = (options.realm.clone(), options.backend_hint);
        let peers = Peers::new(options.owner, &paths.leases);
        let (database, mark) = (paths.database.clone(), mark.unwrap_or_default());
        let on_disk = OnDisk { options, paths: paths.clone() };
        let store = match on_disk.open() {
            Ok(writer) => SqliteStore::open(database, peers, writer)?,
            Err(error) if error.is_unwritable() => {
                tracing::debug!(%realm, %error, "a realm is opened for reading");
                SqliteStore::open_unwritable(database, peers, mark, move || on_disk.open())?
            }
            Err(error) => return Err(error),
        };
        let store = Arc::new(store);
        let mut realm =
            Self { id: realm, backend: Backend::Sqlite, paths: Some(paths), warnings: Vec::new(), store };
        realm.warn_of_hint(hint);
        Ok(realm)
    }
}

/// What is needed to open a realm for writing, now or later.
struct OnDisk {
    options: RealmOptions,
    paths: RealmPaths,
}

impl OnDisk {
    /// The owner is announced before anything else is looked at, so that a realm being opened cannot be
    /// deleted underneath: deletion looks for owners after it has taken the directory away.
    fn open(&self) -> Result<OpenWriter, Error> {
        let Self { options, paths } = self;
        paths.create()?;
        let owner = Owner::claim(&paths.leases, options.owner, &options.owner_record())?;
        let manifest = options.manifest().publish(paths)?;
        if manifest.backend != Backend::Sqlite {
            // Somebody else created it at the same moment, with another idea.
            return Err(Error::BackendMissing { realm: options.realm.clone(), backend: manifest.backend });
        }
        let writer = OpenWriter::new(&paths.database, manifest.store, owner)?;
        if manifest.store == StoreMark::Absent {
            // The database is complete without the mark; the next opening tries again.
            let _ = manifest.mark_created(paths);
        }
        paths.sync()?;
        Ok(writer)
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
        Manifest {
            realm_id: self.realm.clone(),
            backend: self.backend_hint.unwrap_or(Backend::Sqlite),
            origin: self.origin,
            created_at: self.now,
            workspace: self.workspace.as_ref().map(|path| path.to_string_lossy().into_owned()),
            store: StoreMark::Absent,
        }
    }
}

impl RealmPaths {
    /// Creates the directories. Links that would lead out of the realm are refused.
    fn create(&self) -> Result<(), Error> {
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if let Some(path) = [&self.root, &self.leases, &self.database].into_iter().find(|path| is_link(path))
        {
            return Err(Error::RealmPath { path: path.clone() });
        }
        create_private_dirs(&self.leases).map_err(|error| Error::io(&self.leases, error))
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
        self.write(paths)?;
        let _ = fs::remove_file(&lock_path);
        Ok(self.clone())
    }

    /// Notes in the manifest that the database exists. Processes that do so at once write the same.
    fn mark_created(self, paths: &RealmPaths) -> Result<(), Error> {
        Self { store: StoreMark::Created, ..self }.write(paths)
    }

    fn write(&self, paths: &RealmPaths) -> Result<(), Error> {
        let temporary = paths.root.join(format!(".realm_manifest.{}.new", Uuid::now_v7()));
        let written = serde_json::to_vec(self)
            .map_err(io::Error::from)
            .and_then(|bytes| files::write_atomic(&paths.manifest, &temporary, &bytes));
        written.map_err(|error| Error::io(&paths.manifest, error))
    }
}
