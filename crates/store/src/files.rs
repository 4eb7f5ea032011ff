//! Files that only their owner may read, and that are on disk when they are said to be.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Opens a private file for writing; an existing one is emptied.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes a file so that anybody sees it whole or not at all, also after a power cut.
pub(crate) fn write_atomic(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private(temporary)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        // The fault to report is the first one.
        let _ = fs::remove_file(temporary);
    }
    written?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Puts the names in a directory on disk.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    // Elsewhere a directory cannot be opened as a file, and the file system sees to its names itself.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Makes a file private without opening it.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600));
    #[cfg(not(unix))]
    return fs::metadata(path).map(drop);
}
