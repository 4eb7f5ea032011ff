//! Hidden files and directories of operations in progress: backups being written, and realms being restored or deleted.
//!
//! Each has a lock next to it that its process holds, so that what a killed process left behind is found and removed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::dirs::create_private;
use crate::liveness::any_alive;

/// Prefixes of the names; with the leading dot, they are not realm ids.
pub(super) const BACKUP: &str = ".backup-";
pub(super) const RESTORED: &str = ".restored-";
pub(super) const DELETED: &str = ".deleted-";

/// Path of an operation in progress. Removed when dropped, unless it was renamed.
pub(super) struct Unfinished {
    pub(super) path: PathBuf,
    _lock: File,
}

impl Unfinished {
    /// Returns a new path in a directory, after removing what killed processes left there.
    pub(super) fn new(directory: &Path, prefix: &str, name: &str) -> io::Result<Self> {
        sweep(directory);
        let path = directory.join(format!("{prefix}{name}-{}", Uuid::now_v7()));
        let lock = create_private(&lock_path(&path))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a file or a directory, and then its lock. What cannot be removed now is removed by a later sweep.
fn remove(path: &Path) {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    if removed.is_ok() || fs::symlink_metadata(path).is_err() {
        let _ = fs::remove_file(lock_path(path));
    }
}

/// Removes what killed processes left in a directory.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_unfinished) {
            let path = entry.path();
            let lock = lock_path(&path);
            // A process takes the lock before it creates the file.
            let is_held = match File::open(&lock) {
                Ok(file) => file.try_lock().is_err(),
                Err(error) => error.kind() != io::ErrorKind::NotFound,
            };
            // A realm may be renamed before it turns out to be in use.
            let is_used = path.is_dir() && any_alive(&path.join("leases")).unwrap_or(true);
            if !is_held && !is_used {
                remove(&path);
            }
        }
    }
}

fn is_unfinished(name: &str) -> bool {
    let has_prefix = [BACKUP, RESTORED, DELETED].iter().any(|prefix| name.starts_with(prefix));
    let id = name.len().checked_sub(36).and_then(|start| name.get(start..));
    has_prefix && id.is_some_and(|id| Uuid::try_parse(id).is_ok())
}

fn lock_path(path: &Path) -> PathBuf {
    let mut lock = OsString::from(path);
    lock.push(".lock");
    lock.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_killed_processes_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let id = Uuid::now_v7();
        let path = |name: &str| directory.path().join(name);
        let stale = [format!(".backup-a-{id}"), format!(".restored-a-{id}"), format!(".deleted-a-{id}")];
        fs::write(path(&stale[0]), "left").unwrap();
        fs::write(lock_path(&path(&stale[0])), "").unwrap();
        stale[1..].iter().for_each(|name| fs::create_dir_all(path(name).join("leases")).unwrap());
        let other = [".backup-notes".to_owned(), format!("a-{id}"), format!(".kept-a-{id}")];
        other.iter().for_each(|name| fs::write(path(name), "").unwrap());
        let running = Unfinished::new(directory.path(), BACKUP, "a").unwrap();
        fs::write(&running.path, "half").unwrap();
        let second = Unfinished::new(directory.path(), RESTORED, "a").unwrap();
        assert!(stale.iter().all(|name| !path(name).exists() && !lock_path(&path(name)).exists()));
        assert!(other.iter().all(|name| path(name).exists()));
        assert!(running.path.exists());
        drop((running, second));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), other.len());
    }
}
