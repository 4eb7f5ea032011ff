//! Durable writes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::dirs::create_private;

/// Writes a file atomically, also with respect to power loss.
pub(crate) fn write_atomic(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private(temporary)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        // Report the first error.
        let _ = fs::remove_file(temporary);
    }
    written?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Syncs the entries of a directory to disk.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    // On other systems a directory cannot be opened as a file, and the file system syncs its entries itself.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Restricts a file to its owner without opening it.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600));
    #[cfg(not(unix))]
    return fs::metadata(path).map(drop);
}

/// Returns the inode of a file or directory, which it keeps when it is renamed.
pub(crate) fn inode(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    return fs::metadata(path).ok().map(|metadata| std::os::unix::fs::MetadataExt::ino(&metadata));
    #[cfg(not(unix))]
    return fs::metadata(path).ok().and(None);
}
