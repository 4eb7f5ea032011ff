//! Opens files that may be crafted by an attacker, and writes files and directories atomically.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::Error;

/// Opens a file for reading. Rejects pipes and devices without waiting for their other end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    let file = {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        File::from(rustix::fs::open(path, flags, Mode::empty())?)
    };
    #[cfg(not(unix))]
    let file = File::open(path)?;
    plain(file)
}

/// Opens a file to lock it, creating it if it does not exist. Symlinks are not followed, and the file's content is not
/// changed, because the directory's author may have chosen the target of a symlink.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    let file = {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?)
    };
    #[cfg(not(unix))]
    let file = {
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(io::Error::other("it is a symlink"));
        }
        fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?
    };
    plain(file)
}

fn plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let file = open(path).map_err(Error::file("read", path))?;
    let size = file.metadata().map_err(Error::file("read", path))?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(limit)).unwrap_or_default());
    file.take(limit + 1).read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    let read = bytes.len() as u64;
    if read > limit {
        return Err(Error::TooLarge { path: path.to_owned(), size: size.max(read), limit });
    }
    Ok(bytes)
}

/// Returns an error if a path that is about to be read or written is a symlink.
pub(crate) fn refuse_link(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => Err(Error::Symlink(path.to_owned())),
        _ => Ok(()),
    }
}

/// Checks that no symlink leads a directory for skills out of the project, because skills are not loaded from there.
///
/// # Errors
/// Returns an error with the directory if it is outside the project.
pub fn ensure_within(project: &Path, root: &Path) -> Result<(), Error> {
    let existing = root.ancestors().find_map(|above| above.canonicalize().ok());
    match (project.canonicalize(), existing) {
        (Ok(project), Some(path)) if !path.starts_with(&project) => Err(Error::Outside(root.to_owned())),
        _ => Ok(()),
    }
}

/// Writes a temporary file next to `path`, then renames it.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(Error::file("write", path))
}

/// Moves a finished directory into place. An existing one is moved away first, and restored if that fails.
pub(crate) fn put_dir(fresh: &Path, place: &Path) -> Result<(), Error> {
    let old = place.with_extension(format!("old-{}", std::process::id()));
    let existed = place.symlink_metadata().is_ok();
    if existed {
        fs::rename(place, &old).map_err(Error::file("replace", place))?;
    }
    if let Err(error) = fs::rename(fresh, place) {
        if existed {
            fs::rename(&old, place).map_err(Error::file("restore", place))?;
        }
        return Err(Error::File { doing: "write", path: place.to_owned(), source: error });
    }
    if existed { remove(&old) } else { Ok(()) }
}

/// Removes a directory or file; removes a symlink without its target.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let metadata = path.symlink_metadata().map_err(Error::file("remove", path))?;
    let removed = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(Error::file("remove", path))
}
