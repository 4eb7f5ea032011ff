//! Backups: a realm in one file, without what belongs to its processes and clients (owners, leases, and tokens).
//!
//! A file or directory gets its name only when it is complete and was checked.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use meerkat_core::RealmId;

use super::unfinished::{self, Unfinished};
use super::{Force, RealmManifest, RealmOrigin, RealmPaths};
use crate::{ArchivedFilter, Backend, Error, StoreMark, check, create_private_dirs, files, sqlite};

/// A backup that was written or restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The realm, in a restored backup under its new name.
    pub manifest: RealmManifest,
    /// Number of sessions, including archived ones.
    pub sessions: u64,
    /// Size of the database.
    pub bytes: u64,
}

impl Backup {
    /// Writes everything that is committed in a realm to a file, also while processes use the realm. The file is
    /// private, because the config may contain secrets.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist or is damaged, the file exists and overwriting is not forced, or a
    /// file system operation fails. An existing file is unchanged then.
    pub fn write(state_root: &Path, realm: &RealmId, file: &Path, force: Force) -> Result<Self, Error> {
        let manifest = RealmManifest::read(state_root, realm)?;
        if manifest.backend != Backend::Sqlite {
            return Err(Error::BackendMissing { realm: realm.clone(), backend: manifest.backend });
        }
        let exists = || Error::BackupExists { path: file.to_owned() };
        if force == Force::No && fs::symlink_metadata(file).is_ok() {
            return Err(exists());
        }
        let unnamed = Unfinished::new(parent(file), unfinished::BACKUP, realm.as_str());
        let unnamed = unnamed.map_err(|error| Error::io(file, error))?;
        let database = RealmPaths::new(state_root, realm).database;
        let backup = write_unnamed(&database, manifest, &unnamed.path)?;
        let published = match force {
            Force::Yes => fs::rename(&unnamed.path, file),
            Force::No => rename_new(&unnamed.path, file),
        };
        published.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => Error::io(file, error),
        })?;
        sync_parent(file)?;
        Ok(backup)
    }

    /// Creates a realm from a backup, under the same id or another one.
    ///
    /// # Errors
    /// Returns an error if the file is not an intact backup, a realm with the id exists, or a file system operation
    /// fails. No realm is created then.
    pub fn restore(state_root: &Path, file: &Path, name: Option<RealmId>) -> Result<Self, Error> {
        fs::metadata(file).map_err(|error| Error::io(file, error))?;
        let not_a_backup = |source| Error::NotABackup { path: file.to_owned(), source };
        let verified = check(file).and_then(|()| sqlite::manifest_of_backup(file));
        let manifest = verified.map_err(|error| match error {
            Error::Corrupt { source, .. } => not_a_backup(source),
            error => error,
        })?;
        let manifest = manifest.ok_or_else(|| not_a_backup("it has no realm manifest".into()))?;
        let mut manifest = RealmManifest::parse(manifest.as_bytes(), file)?;
        manifest.store = StoreMark::Created;
        if let Some(name) = name.filter(|name| *name != manifest.realm_id) {
            manifest.realm_id = name;
            manifest.origin = RealmOrigin::Explicit;
            (manifest.workspace, manifest.workspace_inode) = (None, None);
        }
        let paths = RealmPaths::new(state_root, &manifest.realm_id);
        if paths.exists()? {
            return Err(Error::RealmExists(manifest.realm_id));
        }
        let state_root = parent(&paths.root);
        create_private_dirs(state_root).map_err(|error| Error::io(state_root, error))?;
        let unnamed = Unfinished::new(state_root, unfinished::RESTORED, manifest.realm_id.as_str());
        let unnamed = unnamed.map_err(|error| Error::io(state_root, error))?;
        let backup = rebuild(file, manifest, &RealmPaths::at(unnamed.path.clone()))?;
        // This fails if another process created the realm meanwhile.
        fs::rename(&unnamed.path, &paths.root).map_err(|error| Error::io(&paths.root, error))?;
        sync_parent(&paths.root)?;
        Ok(backup)
    }
}

/// Writes a backup, checks it, and syncs it to disk.
fn write_unnamed(database: &Path, manifest: RealmManifest, to: &Path) -> Result<Backup, Error> {
    let to_error = |error| Error::io(to, error);
    sqlite::copy(database, to)?;
    sqlite::seal(to, &serde_json::to_string(&manifest).map_err(|error| to_error(error.into()))?)?;
    check(to)?;
    let sessions = sqlite::count_sessions(to, ArchivedFilter::Included)?;
    let file = File::open(to).map_err(to_error)?;
    file.sync_all().map_err(to_error)?;
    Ok(Backup { manifest, sessions, bytes: file.metadata().map_err(to_error)?.len() })
}

/// Creates a realm's directory from a backup, checks the database, and syncs everything to disk.
fn rebuild(file: &Path, manifest: RealmManifest, paths: &RealmPaths) -> Result<Backup, Error> {
    let database = &paths.database;
    create_private_dirs(&paths.leases).map_err(|error| Error::io(&paths.leases, error))?;
    sqlite::copy(file, database)?;
    check(database)?;
    let sessions = sqlite::count_sessions(database, ArchivedFilter::Included)?;
    sqlite::unseal(database)?;
    let synced = File::open(database).and_then(|file| file.sync_all().and_then(|()| file.metadata()));
    let bytes = synced.map_err(|error| Error::io(database, error))?.len();
    manifest.write(paths)?;
    Ok(Backup { manifest, sessions, bytes })
}

/// Renames a file, unless the new name exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // The file system may have no hard links, which is common on removable disks.
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = parent(path);
    files::sync_dir(parent).map_err(|error| Error::io(parent, error))
}
