//! Atomic writes of workspace files: to a temporary file in the same directory first, then renamed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use uuid::Uuid;

use super::open::real_path;
use super::root::{Root, WorkspacePath};
use crate::Error;

/// Handling of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replaced,
    Refused,
}

/// A written file that is not in its final location yet. It is removed on drop unless it is put there.
#[derive(Debug)]
pub(crate) struct Staged {
    dir: OwnedFd,
    written: OsString,
    name: OsString,
    place: WorkspacePath,
}

impl Root {
    /// Opens the parent directory of a path.
    fn parent(&self, place: &WorkspacePath) -> Result<(OwnedFd, OsString), Error> {
        let parent = WorkspacePath::beneath(place.path().parent().map(ToOwned::to_owned).unwrap_or_default());
        let name = place.path().file_name().unwrap_or(OsStr::new(".")).to_owned();
        Ok((self.open_at(&parent, OFlags::RDONLY | OFlags::DIRECTORY)?, name))
    }

    /// Returns the real path of a name in an open directory.
    fn real_place(&self, dir: &OwnedFd, name: &OsStr) -> PathBuf {
        real_path(dir).unwrap_or_else(|| self.path().to_owned()).join(name)
    }

    /// Creates the missing parent directories of a path, and returns them.
    pub(crate) fn make_parents(&self, place: &WorkspacePath) -> Result<Vec<WorkspacePath>, Error> {
        let mut made = Vec::new();
        let mut dirs: Vec<_> = place.path().ancestors().skip(1).map(ToOwned::to_owned).collect();
        dirs.reverse();
        for dir in dirs.into_iter().filter(|path| !path.as_os_str().is_empty()).map(WorkspacePath::beneath) {
            let (parent, name) = self.parent(&dir)?;
            if self.secrets().is_secret_path(&self.real_place(&parent, &name)) {
                return Err(Error::Secret(place.display_path()));
            }
            match mkdirat(&parent, &name, Mode::from_raw_mode(0o777)) {
                Ok(()) => made.push(dir),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(dir.failed("cannot create its directory", error)),
            }
        }
        Ok(made)
    }

    /// Writes a temporary file next to a path. The directory must exist.
    pub(crate) fn stage(
        &self,
        place: &WorkspacePath,
        data: &[u8],
        mode: Option<u32>,
    ) -> Result<Staged, Error> {
        let (dir, name) = self.parent(place)?;
        self.reject_secrets(&self.real_place(&dir, &name), place)?;
        let written: OsString = format!(".rkat-{}", Uuid::new_v4().simple()).into();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&dir, &written, flags, Mode::from_raw_mode(0o666))
            .map_err(|error| place.failed("cannot write it", error))?;
        let staged = Staged { dir, written, name, place: place.clone() };
        let mut file = File::from(file);
        file.write_all(data).map_err(|error| place.failed("cannot write it", error))?;
        if let Some(mode) = mode {
            let result = rustix::fs::fchmod(&file, Mode::from_raw_mode(mode));
            result.map_err(|error| place.failed("cannot preserve its permissions", error))?;
        }
        file.sync_all().map_err(|error| place.failed("cannot write it", error))?;
        Ok(staged)
    }

    /// Returns the permissions of a file; `None` if it does not exist. Rejects symlinks, whose target is the file.
    pub(crate) fn permissions(&self, place: &WorkspacePath) -> Result<Option<u32>, Error> {
        let (dir, name) = match self.parent(place) {
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            found => found?,
        };
        match statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(place.open_error(error)),
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Ok(Some(stat.st_mode & 0o7777)),
                FileType::Symlink => Err(place.unusable("is a symlink; use the path of its target")),
                _ => Err(place.unusable("is not a file")),
            },
        }
    }

    /// Removes a file.
    pub(crate) fn remove(&self, place: &WorkspacePath) -> Result<(), Error> {
        let (dir, name) = self.parent(place)?;
        unlinkat(&dir, &name, AtFlags::empty()).map_err(|error| place.failed("cannot remove it", error))
    }

    /// Removes a directory if it is empty.
    pub(crate) fn remove_dir(&self, place: &WorkspacePath) {
        if let Ok((dir, name)) = self.parent(place) {
            let _ = unlinkat(&dir, &name, AtFlags::REMOVEDIR);
        }
    }
}

impl Staged {
    /// Moves the file to its final location.
    pub(crate) fn put(self, existing: Existing) -> Result<(), Error> {
        let moved = match existing {
            Existing::Replaced => renameat(&self.dir, &self.written, &self.dir, &self.name),
            Existing::Refused => self.rename_no_replace(),
        };
        moved.map_err(|error| match error {
            Errno::EXIST => self.place.unusable("already exists"),
            error => self.place.failed("cannot write it", error),
        })
    }

    fn rename_no_replace(&self) -> Result<(), Errno> {
        let (dir, from, to) = (&self.dir, &self.written, &self.name);
        match renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            // Some file systems do not support this; create a hard link instead, and dropping this value removes the
            // first name.
            Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::linkat(dir, from, dir, to, AtFlags::empty()),
            done => done,
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = unlinkat(&self.dir, &self.written, AtFlags::empty());
    }
}
