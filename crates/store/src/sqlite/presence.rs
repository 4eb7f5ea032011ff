//! Detects that the files of an open realm were deleted or replaced. An open database file then has no name: commits to
//! it succeed, and are lost when it is closed.

use std::cell::Cell;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use crate::Error;

/// Identity of an open database file.
#[derive(Debug)]
pub(super) struct Presence {
    opened: Option<(u64, u64)>,
    is_reported: Cell<bool>,
}

impl Presence {
    /// Returns the identity of the file that was just opened at a path.
    pub(super) fn new(path: &Path) -> Self {
        let opened = fs::metadata(path).ok().map(|metadata| identity(&metadata));
        Self { opened, is_reported: Cell::new(false) }
    }

    /// Returns an error if the path leads to another file now, or to none. The first time, it is also logged.
    pub(super) fn check(&self, path: &Path) -> Result<(), Error> {
        let current = match fs::metadata(path) {
            Ok(metadata) => Some(identity(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // The state of the file is unknown; if it cannot be accessed, the commit fails.
            Err(_) => return Ok(()),
        };
        if current == self.opened {
            return Ok(());
        }
        let error = Error::StoreReplaced { path: path.to_owned() };
        if !self.is_reported.replace(true) {
            tracing::error!(%error, "the store is lost to this process; nothing is stored until it restarts");
        }
        Err(error)
    }
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
