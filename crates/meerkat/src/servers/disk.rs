//! Small files that are written whole or not at all, for the user's eyes only.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use meerkat_store::create_private_dirs;
use uuid::Uuid;

use super::ServerFilesError;

/// Makes an error of what happened to a file.
pub(super) fn failed(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> ServerFilesError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| ServerFilesError::Io { path: path.clone(), doing, source }
}

/// Reads a file that need not be there.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file, readable by the user alone if it is new, as is its directory.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), create_private_dirs)?;
    // A link stays one: what it leads to is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = path.with_extension(format!("new-{}", Uuid::now_v7()));
    let written = create_private(&beside).and_then(|mut file| {
        if let Ok(before) = std::fs::metadata(&path) {
            file.set_permissions(before.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&beside, &path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    renamed
}

/// Creates the directory of a project's file, which others may read.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Opens a file that only the user can read, making it if need be.
pub(super) fn create_private(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns a file's whole path, free of links where that can be told.
pub(super) fn real(path: &Path) -> String {
    let whole = std::fs::canonicalize(path).or_else(|error| match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => std::fs::canonicalize(folder).map(|folder| folder.join(name)),
        _ => Err(error),
    });
    whole.unwrap_or_else(|_| path.to_owned()).display().to_string()
}
