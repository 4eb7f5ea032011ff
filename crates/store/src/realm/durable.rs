//! Opens and creates realms on disk.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::{Realm, RealmManifest, RealmOptions, RealmPaths};
use crate::dirs::create_private;
use crate::owner::Peers;
use crate::sqlite::OpenWriter;
use crate::{Backend, Error, Owner, OwnerRecord, SqliteStore, StoreMark, create_private_dirs, files};

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
                tracing::debug!(%realm, %error, "opening realm read-only");
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

/// Everything needed to open a realm for writing, now or later.
struct OnDisk {
    options: RealmOptions,
    paths: RealmPaths,
}

impl OnDisk {
    /// Opens the realm. The owner is registered first, so that a realm being opened cannot be deleted: deletion checks
    /// for owners after moving the directory.
    fn open(&self) -> Result<OpenWriter, Error> {
        let Self { options, paths } = self;
        paths.create()?;
        let owner = Owner::claim(&paths.leases, options.owner, &options.owner_record())?;
        let manifest = options.manifest().publish(paths)?;
        if manifest.backend != Backend::Sqlite {
            // Another process created it concurrently with a different backend.
            return Err(Error::BackendMissing { realm: options.realm.clone(), backend: manifest.backend });
        }
        let writer = OpenWriter::new(&paths.database, manifest.store, owner)?;
        if manifest.store == StoreMark::Absent {
            // The database is complete without the mark; the next open tries again.
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

    fn manifest(&self) -> RealmManifest {
        RealmManifest {
            realm_id: self.realm.clone(),
            backend: self.backend_hint.unwrap_or(Backend::Sqlite),
            origin: self.origin,
            created_at: self.now,
            workspace: self.workspace.as_ref().map(|path| path.to_string_lossy().into_owned()),
            workspace_inode: self.workspace.as_deref().and_then(files::inode),
            store: StoreMark::Absent,
        }
    }
}

impl RealmPaths {
    /// Creates the directories. Returns an error for symlinks that would lead out of the realm.
    fn create(&self) -> Result<(), Error> {
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if let Some(path) = [&self.root, &self.leases, &self.database].into_iter().find(|path| is_link(path))
        {
            return Err(Error::RealmPath { path: path.clone() });
        }
        create_private_dirs(&self.leases).map_err(|error| Error::io(&self.leases, error))
    }

    /// Syncs the directory entries of the realm to disk, including its own.
    fn sync(&self) -> Result<(), Error> {
        [Some(self.root.as_path()), self.root.parent()]
            .into_iter()
            .flatten()
            .try_for_each(|directory| files::sync_dir(directory).map_err(|error| Error::io(directory, error)))
    }
}

impl RealmManifest {
    /// Writes the manifest unless one exists, and returns the current one.
    ///
    /// The lock is needed only until a manifest exists, and its holder checks for one again, so the process that wrote
    /// the manifest can remove the lock file.
    fn publish(&self, paths: &RealmPaths) -> Result<Self, Error> {
        if let Some(found) = Self::find(paths, &self.realm_id)? {
            return Ok(found);
        }
        let lock_path = paths.root.join(".realm_manifest.lock");
        let lock = create_private(&lock_path).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(|error| Error::io(&lock_path, error))?;
        if let Some(found) = Self::find(paths, &self.realm_id)? {
            return Ok(found);
        }
        self.write(paths)?;
        let _ = fs::remove_file(&lock_path);
        Ok(self.clone())
    }

    /// Records in the manifest that the database exists. Concurrent processes write the same content.
    fn mark_created(self, paths: &RealmPaths) -> Result<(), Error> {
        Self { store: StoreMark::Created, ..self }.write(paths)
    }

    pub(super) fn write(&self, paths: &RealmPaths) -> Result<(), Error> {
        let temporary = paths.root.join(format!(".realm_manifest.{}.new", Uuid::now_v7()));
        let written = serde_json::to_vec(self)
            .map_err(io::Error::from)
            .and_then(|bytes| files::write_atomic(&paths.manifest, &temporary, &bytes));
        written.map_err(|error| Error::io(&paths.manifest, error))
    }
}
