//! Files that say how a living process is reached.
//!
//! As in [`crate::liveness`], the file is locked for as long as the process lives, so that nobody takes a dead one for
//! living. What it says may be secret, so it is private.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::liveness::is_locked;
use crate::{Error, files};

/// The longest text that is read, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Says how this process is reached; dropping it takes the file away.
#[derive(Debug)]
pub struct Beacon {
    path: PathBuf,
    text: Vec<u8>,
    // Held for its lock alone.
    _lock: File,
}

impl Beacon {
    /// Puts the file in place; one of another process is replaced.
    ///
    /// # Errors
    /// Fails when the file cannot be written or locked.
    pub fn raise(path: &Path, text: Vec<u8>) -> Result<Self, Error> {
        let fault = |source| Error::io(path, source);
        // The file gets its name only once it is locked and whole, so that nobody finds it dead or half written.
        let unnamed = path.with_extension(format!("{}.new", std::process::id()));
        let mut lock = files::create_private(&unnamed).map_err(fault)?;
        lock.try_lock().map_err(io::Error::from).map_err(fault)?;
        lock.write_all(&text).map_err(fault)?;
        fs::rename(&unnamed, path).map_err(fault)?;
        Ok(Self { path: path.to_owned(), text, _lock: lock })
    }

    /// Reads what a living process says; `None` if there is none.
    #[must_use]
    pub fn read(path: &Path) -> Option<Vec<u8>> {
        if !is_locked(path) {
            return None;
        }
        let mut text = Vec::new();
        File::open(path).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
        Some(text)
    }
}

impl Drop for Beacon {
    fn drop(&mut self) {
        // Another process may have put its own in place meanwhile.
        if Self::read(&self.path).as_ref() == Some(&self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beacon_is_seen_as_long_as_its_process_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.json");
        assert_eq!(Beacon::read(&path), None);
        let beacon = Beacon::raise(&path, b"one".to_vec()).unwrap();
        assert_eq!(Beacon::read(&path), Some(b"one".to_vec()));
        drop(beacon);
        assert_eq!(Beacon::read(&path), None);

        // A killed process leaves its file behind, unlocked.
        fs::write(&path, "dead").unwrap();
        assert_eq!(Beacon::read(&path), None);

        let first = Beacon::raise(&path, b"first".to_vec()).unwrap();
        let second = Beacon::raise(&path, b"second".to_vec()).unwrap();
        drop(first);
        assert_eq!(Beacon::read(&path), Some(b"second".to_vec()));
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
