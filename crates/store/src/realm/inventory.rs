//! Lists and deletes the realms of a state root.
//!
//! Deletion first renames the directory and then checks for live owners, so that no process can start to use a realm
//! that is being deleted. Symlinks are never followed.

use std::fs;
use std::io;
use std::path::Path;

use meerkat_core::RealmId;
use uuid::Uuid;

use super::{Realm, RealmManifest, RealmPaths, TOKEN_FILE};
use crate::Error;
use crate::liveness::any_alive;

/// The realms of a state root.
#[derive(Debug, Default)]
pub struct RealmList {
    /// The realms, by id.
    pub realms: Vec<RealmInfo>,
    /// Errors of realms that cannot be read.
    pub broken: Vec<Error>,
}

/// A realm in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealmInfo {
    /// The manifest.
    pub manifest: RealmManifest,
    /// Whether a running process has it open.
    pub in_use: bool,
}

/// Handling of a realm that is in use when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Keep it and return an error.
    No,
    /// Delete it; processes that use it fail from then on.
    Yes,
}

impl Realm {
    /// Lists the realms of a state root. If it does not exist, the list is empty.
    ///
    /// # Errors
    /// Returns an error if the state root cannot be read. A broken realm is reported in the list.
    pub fn list(state_root: &Path) -> Result<RealmList, Error> {
        let mut list = RealmList::default();
        let entries = match fs::read_dir(state_root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(list),
            Err(error) => return Err(Error::io(state_root, error)),
        };
        for entry in entries {
            let name = entry.map_err(|error| Error::io(state_root, error))?.file_name();
            // Ignore names that are not realm ids.
            let Some(id) = name.to_str().and_then(|name| name.parse::<RealmId>().ok()) else {
                continue;
            };
            match inspect(state_root, &id) {
                Ok(info) => list.realms.push(info),
                // A server stores its token here, and creates the realm when a client first needs it.
                Err(Error::RealmNotFound(_)) if state_root.join(&name).join(TOKEN_FILE).is_file() => {}
                Err(error) => list.broken.push(error),
            }
        }
        list.realms.sort_unstable_by(|a, b| a.manifest.realm_id.cmp(&b.manifest.realm_id));
        Ok(list)
    }

    /// Counts the sessions of a realm that are not archived. Changes nothing.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist, or its database cannot be read.
    #[cfg(feature = "sqlite")]
    pub fn count_sessions(state_root: &Path, realm: &RealmId) -> Result<u64, Error> {
        let paths = RealmPaths::new(state_root, realm);
        match RealmManifest::read(state_root, realm)?.backend {
            crate::Backend::Sqlite => crate::sqlite::count_sessions(&paths.database),
            backend => Err(Error::BackendMissing { realm: realm.clone(), backend }),
        }
    }

    /// Deletes a realm and everything in it.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist, it is in use and the deletion is not forced, or a file system
    /// operation fails.
    pub fn delete(state_root: &Path, realm: &RealmId, force: Force) -> Result<(), Error> {
        let paths = RealmPaths::new(state_root, realm);
        if !paths.exists()? {
            return Err(Error::RealmNotFound(realm.clone()));
        }
        let state_root = paths.root.parent().unwrap_or(state_root);
        // With the leading dot, the name is not a realm id.
        let doomed = state_root.join(format!(".deleted-{realm}-{}", Uuid::now_v7()));
        refuse_in_use(realm, &paths.root, force)?;
        fs::rename(&paths.root, &doomed).map_err(|error| Error::io(&paths.root, error))?;
        if let Err(error) = refuse_in_use(realm, &doomed, force) {
            fs::rename(&doomed, &paths.root).map_err(|error| Error::io(&doomed, error))?;
            return Err(error);
        }
        fs::remove_dir_all(&doomed).map_err(|error| Error::io(&doomed, error))
    }
}

fn inspect(state_root: &Path, id: &RealmId) -> Result<RealmInfo, Error> {
    let manifest = RealmManifest::read(state_root, id)?;
    let leases = RealmPaths::new(state_root, id).leases;
    let in_use = any_alive(&leases).map_err(|error| Error::io(leases, error))?;
    Ok(RealmInfo { manifest, in_use })
}

fn refuse_in_use(realm: &RealmId, root: &Path, force: Force) -> Result<(), Error> {
    let leases = root.join("leases");
    if force == Force::No && any_alive(&leases).map_err(|error| Error::io(&leases, error))? {
        return Err(Error::RealmInUse(realm.clone()));
    }
    Ok(())
}
