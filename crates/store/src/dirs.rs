//! Files and directories that only their owner can access.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Name of the manifest in a realm's directory.
pub(crate) const MANIFEST: &str = "realm_manifest.json";

/// Creates a directory and its missing parents. The new ones have mode 0700, regardless of the umask.
///
/// # Errors
/// Returns an error if one of them cannot be created.
pub fn create_private_dirs(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_private_dirs(parent)?;
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // The umask may have removed permissions that the owner needs.
        #[cfg(unix)]
        Ok(()) => std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)),
        // Another process may have been faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        done => done,
    }
}

/// Opens a private file for writing; an existing one is truncated.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
