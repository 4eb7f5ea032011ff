//! Opening files that somebody else may have prepared, and writing files and directories so that a reader finds them
//! whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::Error;

/// Opens a file to read it. Pipes and devices are refused without waiting for whoever is at their other end.
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

/// Opens a file to lock it, and makes it if it is not there. A link is not followed, and nothing in the file is
/// changed: whoever wrote the directory may have chosen where the link leads.
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
            return Err(io::Error::other("it is a link"));
        }
        fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?
    };
    plain(file)
}

fn plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
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

/// Refuses a link in a place that is about to be read or written.
pub(crate) fn refuse_link(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => Err(Error::Link(path.to_owned())),
        _ => Ok(()),
    }
}

/// Refuses a directory for skills that a link leads out of the project, as nothing is looked for there.
///
/// # Errors
/// Says which directory it is.
pub fn stays_within(project: &Path, root: &Path) -> Result<(), Error> {
    let there = root.ancestors().find_map(|above| above.canonicalize().ok());
    match (project.canonicalize(), there) {
        (Ok(project), Some(there)) if !there.starts_with(&project) => Err(Error::Outside(root.to_owned())),
        _ => Ok(()),
    }
}

/// Writes a file beside its place, then puts it there.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(Error::file("write", path))
}

/// Puts a finished directory in its place. What was there is out of the way only while the new one takes its place.
pub(crate) fn put_folder(fresh: &Path, place: &Path) -> Result<(), Error> {
    let old = place.with_extension(format!("old-{}", std::process::id()));
    let had = place.symlink_metadata().is_ok();
    if had {
        fs::rename(place, &old).map_err(Error::file("replace", place))?;
    }
    if let Err(error) = fs::rename(fresh, place) {
        if had {
            fs::rename(&old, place).map_err(Error::file("restore", place))?;
        }
        return Err(Error::File { doing: "write", path: place.to_owned(), source: error });
    }
    if had { remove(&old) } else { Ok(()) }
}

/// Removes a directory; of a link, only the link.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let metadata = path.symlink_metadata().map_err(Error::file("remove", path))?;
    let removed = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(Error::file("remove", path))
}
