//! Liveness of owners.
//!
//! Every opened realm has an owner id and keeps `<realm>/leases/<owner>.json` locked while it is open. The operating
//! system releases the lock when the process ends for any reason, so an owner is dead exactly if its file is missing or
//! can be locked. Ids are never reused, so a dead owner stays dead and any process may remove its file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Returns `true` if any owner in the directory `leases` is alive. Removes nothing.
pub(crate) fn any_alive(leases: &Path) -> io::Result<bool> {
    Ok(!live_owners(leases)?.is_empty())
}

/// Returns the files of the owners in the directory `leases` that are alive. Removes nothing.
pub(crate) fn live_owners(leases: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(leases) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut alive = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") && is_locked(&path) {
            alive.push(path);
        }
    }
    Ok(alive)
}

/// Returns `true` if a running process holds a lock on the file.
///
/// If that cannot be determined, the owner counts as alive: a lease held too long expires, but one taken too early does
/// harm.
pub(crate) fn is_locked(path: &Path) -> bool {
    match File::open(path) {
        // A shared lock, so that two concurrent probes do not mistake each other for the owner.
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}
