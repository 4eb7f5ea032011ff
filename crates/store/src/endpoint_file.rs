//! Files with the connection details of a running process.
//!
//! As in [`crate::liveness`], the file is locked while the process runs, so that readers can check if it is alive.
//! The content may be secret, so the file is private.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::dirs::create_private;
use crate::liveness::is_locked;

/// Maximum length of the text, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// The published connection details of this process. Dropping it removes the file.
#[derive(Debug)]
pub struct EndpointFile {
    path: PathBuf,
    text: Vec<u8>,
    // Held only for its lock.
    _lock: File,
}

impl EndpointFile {
    /// Creates the file, replacing one of another process.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written or locked.
    pub fn publish(path: &Path, text: Vec<u8>) -> Result<Self, Error> {
        let to_error = |source| Error::io(path, source);
        // The file gets its name only once it is locked and complete, so that readers never see it unlocked or partial.
        let unnamed = path.with_extension(format!("{}.new", std::process::id()));
        let mut lock = create_private(&unnamed).map_err(to_error)?;
        lock.try_lock().map_err(io::Error::from).map_err(to_error)?;
        lock.write_all(&text).map_err(to_error)?;
        fs::rename(&unnamed, path).map_err(to_error)?;
        Ok(Self { path: path.to_owned(), text, _lock: lock })
    }

    /// Reads the text of a running process, or returns `None` if there is none.
    #[must_use]
    pub fn read(path: &Path) -> Option<Vec<u8>> {
        if !is_locked(path) {
            return None;
        }
        let mut text = Vec::new();
        File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        Some(text)
    }
}

impl Drop for EndpointFile {
    fn drop(&mut self) {
        // Another process may have replaced the file meanwhile.
        if Self::read(&self.path).as_ref() == Some(&self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beacon_is_readable_while_its_process_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hub.json");
        assert_eq!(EndpointFile::read(&path), None);
        let beacon = EndpointFile::publish(&path, b"one".to_vec()).unwrap();
        assert_eq!(EndpointFile::read(&path), Some(b"one".to_vec()));
        drop(beacon);
        assert_eq!(EndpointFile::read(&path), None);

        // A killed process leaves its file behind, unlocked.
        fs::write(&path, "dead").unwrap();
        assert_eq!(EndpointFile::read(&path), None);

        let first = EndpointFile::publish(&path, b"first".to_vec()).unwrap();
        let second = EndpointFile::publish(&path, b"second".to_vec()).unwrap();
        drop(first);
        assert_eq!(EndpointFile::read(&path), Some(b"second".to_vec()));
        drop(second);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
