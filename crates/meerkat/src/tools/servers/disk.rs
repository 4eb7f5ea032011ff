//! Small private files, written atomically.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use meerkat_store::create_private_dirs;
use uuid::Uuid;

use super::ServerFilesError;

/// Returns a function that converts an I/O error of a file.
pub(super) fn failed(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> ServerFilesError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| ServerFilesError::Io { path: path.clone(), doing, source }
}

/// Reads a file; returns `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file atomically. A new file and its directory are accessible only to the user.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), create_private_dirs)?;
    // A symlink is preserved: its target is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = path.with_extension(format!("new-{}", Uuid::now_v7()));
    let written = create_private(&temporary).and_then(|mut file| {
        if let Ok(before) = std::fs::metadata(&path) {
            file.set_permissions(before.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&temporary, &path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    renamed
}

/// Creates the directory of a project's file, which other users may read.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Opens a file that only the user can read, creating it if necessary.
pub(super) fn create_private(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the absolute path of a file, with symlinks resolved if possible.
pub(super) fn real(path: &Path) -> String {
    let resolved = std::fs::canonicalize(path).or_else(|error| match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => std::fs::canonicalize(dir).map(|dir| dir.join(name)),
        _ => Err(error),
    });
    resolved.unwrap_or_else(|_| path.to_owned()).display().to_string()
}
