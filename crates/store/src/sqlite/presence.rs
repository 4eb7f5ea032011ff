//! Detects that the files of an open realm were deleted or replaced. An open database file then has no name: commits to
//! it succeed, and are lost when it is closed.

use std::cell::Cell;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::dirs::MANIFEST;

/// Identity of an open database file.
#[derive(Debug)]
pub(super) struct Presence {
    opened: Option<(u64, u64)>,
    has_manifest: bool,
    is_reported: Cell<bool>,
}

impl Presence {
    /// Returns the identity of the file that was just opened at a path.
    pub(super) fn new(path: &Path) -> Self {
        Self { opened: current(path), has_manifest: manifest(path).exists(), is_reported: Cell::new(false) }
    }

    /// Opens the file at a path. Returns an error if the file was replaced meanwhile.
    pub(super) fn open<T>(path: &Path, open: impl FnOnce() -> Result<T, Error>) -> Result<(T, Self), Error> {
        let before = current(path);
        let (opened, presence) = (open()?, Self::new(path));
        if before.is_some() && before != presence.opened {
            return Err(Error::StoreReplaced { path: path.to_owned() });
        }
        Ok((opened, presence))
    }

    /// Returns an error if the path leads to another file now, or to none, or if the realm's manifest is gone. The
    /// first time, it is also logged.
    pub(super) fn check(&self, path: &Path) -> Result<(), Error> {
        // If a state is unknown because the file cannot be accessed, the commit fails.
        let is_same = fs::metadata(path)
            .map_or_else(|error| !is_missing(&error), |found| Some(identity(&found)) == self.opened);
        let lost_manifest =
            self.has_manifest && fs::metadata(manifest(path)).is_err_and(|error| is_missing(&error));
        if is_same && !lost_manifest {
            return Ok(());
        }
        let error = Error::StoreReplaced { path: path.to_owned() };
        if !self.is_reported.replace(true) {
            tracing::error!(%error, "the store is lost to this process; nothing is stored until it restarts");
        }
        Err(error)
    }
}

fn current(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| identity(&metadata))
}

fn manifest(database: &Path) -> PathBuf {
    database.with_file_name(MANIFEST)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// An open file cannot be deleted or replaced on other systems.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn file_replaced_while_it_is_opened_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["db", "other"].map(|name| directory.path().join(name));
        [&path, &other].into_iter().for_each(|path| fs::write(path, "").unwrap());
        Presence::open(&path, || Ok(())).unwrap();
        let replaced =
            Presence::open(&path, || fs::rename(&other, &path).map_err(|error| Error::io(&path, error)));
        assert!(matches!(replaced, Err(Error::StoreReplaced { .. })), "{replaced:?}");
    }
}
