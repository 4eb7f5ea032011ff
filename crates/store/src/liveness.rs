//! Who is alive.
//!
//! Every opened realm has an owner id and keeps `<realm>/leases/<owner>.json` locked for as long as it
//! lives. The operating system drops the lock with the process, however it ends, so an owner is dead
//! exactly when its file is gone or can be locked. Ids are never used twice, so the dead stay dead and
//! their files may be removed by whoever finds them.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Whether any living owner has announced itself in the directory `leases`. Removes nothing.
pub(crate) fn any_alive(leases: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(leases) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") && is_locked(&path) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a living process keeps the file locked.
///
/// What cannot be judged counts as alive: a lease held for too long runs out, one taken too early does harm.
pub(crate) fn is_locked(path: &Path) -> bool {
    match File::open(path) {
        // A shared lock, so that two who probe at once do not take each other for the owner.
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}
