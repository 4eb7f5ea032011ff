//! Lists and deletes the realms of a state root.
//!
//! Deletion first renames the directory and then checks for live owners, so that no process can start to use a realm
//! that is being deleted. Symlinks are never followed.

use std::fs;
use std::io;
use std::path::Path;

use meerkat_core::{RealmId, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use super::unfinished::{self, Unfinished};
use super::{Realm, RealmManifest, RealmPaths, TOKEN_FILE};
use crate::Error;
use crate::liveness::{any_alive, live_owners};

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
    /// Time when a process last opened it or wrote to it.
    pub last_used: Timestamp,
    /// Size of its files.
    pub bytes: u64,
}

/// A process that has a realm open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealmUser {
    /// The surface that it runs.
    pub surface: String,
    /// Its name.
    pub instance: String,
    /// Its process id, unless it runs in another container.
    pub pid: Option<u32>,
}

/// Handling of what an operation would destroy: a realm that is in use when it is deleted, or the file at the path of a
/// backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Keep it and return an error.
    No,
    /// Destroy it; processes that use a deleted realm fail from then on.
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

    /// Counts the sessions of a realm. Changes nothing.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist, or its database cannot be read.
    #[cfg(feature = "sqlite")]
    pub fn count_sessions(
        state_root: &Path,
        realm: &RealmId,
        archived: crate::ArchivedFilter,
    ) -> Result<u64, Error> {
        let paths = RealmPaths::new(state_root, realm);
        match RealmManifest::read(state_root, realm)?.backend {
            crate::Backend::Sqlite => crate::sqlite::count_sessions(&paths.database, archived),
            backend => Err(Error::BackendMissing { realm: realm.clone(), backend }),
        }
    }

    /// Returns the processes that have a realm open, as the files of its owners describe them.
    ///
    /// # Errors
    /// Returns an error if the files cannot be listed.
    pub fn users(state_root: &Path, realm: &RealmId) -> Result<Vec<RealmUser>, Error> {
        let leases = RealmPaths::new(state_root, realm).leases;
        let owners = live_owners(&leases).map_err(|error| Error::io(&leases, error))?;
        Ok(owners.iter().map(|file| user(file)).collect())
    }

    /// Deletes a realm and everything in it.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist, it is in use and the deletion is not forced, or a file system
    /// operation fails.
    pub fn delete(state_root: &Path, realm: &RealmId, force: Force) -> Result<(), Error> {
        let is_doomed = |root: &Path| refuse_in_use(realm, root, force).map(|()| true);
        delete_if(state_root, realm, is_doomed).map(drop)
    }

    /// Deletes a realm and everything in it, unless it was used after a time. Returns `true` if it was deleted.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist, it is in use, or a file system operation fails.
    pub fn delete_unused(state_root: &Path, realm: &RealmId, since: Timestamp) -> Result<bool, Error> {
        let created = RealmManifest::read(state_root, realm)?.created_at;
        delete_if(state_root, realm, |root| {
            refuse_in_use(realm, root, Force::No)?;
            let (last_used, _) = measure(root, created).map_err(|error| Error::io(root, error))?;
            Ok(last_used <= since)
        })
    }
}

/// Deletes a realm if a check of its directory, before and after that is renamed, returns `true`.
fn delete_if(
    state_root: &Path,
    realm: &RealmId,
    is_doomed: impl Fn(&Path) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let paths = RealmPaths::new(state_root, realm);
    if !paths.exists()? {
        return Err(Error::RealmNotFound(realm.clone()));
    }
    if !is_doomed(&paths.root)? {
        return Ok(false);
    }
    let state_root = paths.root.parent().unwrap_or(state_root);
    let doomed = Unfinished::new(state_root, unfinished::DELETED, realm.as_str());
    let doomed = doomed.map_err(|error| Error::io(state_root, error))?;
    fs::rename(&paths.root, &doomed.path).map_err(|error| Error::io(&paths.root, error))?;
    match is_doomed(&doomed.path) {
        Ok(true) => {}
        spared => {
            if let Err(error) = fs::rename(&doomed.path, &paths.root) {
                // Another realm is in its place; this one is kept, and never swept.
                let kept = state_root.join(format!(".kept-{realm}-{}", Uuid::now_v7()));
                fs::rename(&doomed.path, &kept).map_err(|error| Error::io(&kept, error))?;
                return Err(Error::io(&kept, error));
            }
            return spared;
        }
    }
    fs::remove_dir_all(&doomed.path).map_err(|error| Error::io(&doomed.path, error)).map(|()| true)
}

fn inspect(state_root: &Path, id: &RealmId) -> Result<RealmInfo, Error> {
    let manifest = RealmManifest::read(state_root, id)?;
    let paths = RealmPaths::new(state_root, id);
    let in_use = any_alive(&paths.leases).map_err(|error| Error::io(&paths.leases, error))?;
    let (last_used, bytes) =
        measure(&paths.root, manifest.created_at).map_err(|error| Error::io(&paths.root, error))?;
    Ok(RealmInfo { manifest, in_use, last_used, bytes })
}

/// Returns the time of the last change in a realm's directory, and the size of its files. Every process that opens the
/// realm adds a file to the directory of the owners.
fn measure(root: &Path, created: Timestamp) -> io::Result<(Timestamp, u64)> {
    let (mut last, mut bytes) = (created, 0);
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        // A log of commits may disappear at any time. Commands that only read leave an empty one and its index.
        let is_index = entry.file_name().as_encoded_bytes().ends_with(b"-shm");
        let Some(metadata) =
            entry.metadata().ok().filter(|data| (data.is_dir() || data.len() > 0) && !is_index)
        else {
            continue;
        };
        let changed = metadata.modified()?;
        last = last.max(Timestamp::try_from(changed).unwrap_or(created));
        if metadata.is_file() {
            bytes += metadata.len();
        }
    }
    Ok((last, bytes))
}

fn user(file: &Path) -> RealmUser {
    let record: Value =
        fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let text = |key: &str| record[key].as_str().unwrap_or("unknown").to_owned();
    let pid = record["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    RealmUser {
        surface: text("surface"),
        instance: text("instance_id"),
        pid: pid.filter(|pid| has_open(*pid, file)),
    }
}

/// Returns `true` if a process has a file open. The id in an owner's file may be that of a process in another container,
/// and a different process may have it here.
fn has_open(pid: u32, file: &Path) -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file))
}

pub(super) fn refuse_in_use(realm: &RealmId, root: &Path, force: Force) -> Result<(), Error> {
    let leases = root.join("leases");
    if force == Force::No && any_alive(&leases).map_err(|error| Error::io(&leases, error))? {
        return Err(Error::RealmInUse(realm.clone()));
    }
    Ok(())
}
