//! The workspace: the directory that tools can access.
//!
//! A path is first made relative to the directory, lexically. Then it is opened so that the kernel itself rejects every
//! step out of the directory, symlinks included; the checked file is the opened file.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat};

use super::open::{LOOK, is_procfs_file, open_beneath, real_path};
use crate::Error;
use crate::secrets::Secrets;

/// The workspace.
#[derive(Debug)]
pub(crate) struct Root {
    dir: OwnedFd,
    path: PathBuf,
    secrets: Secrets,
}

/// A path in the workspace, relative to it and without `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkspacePath(PathBuf);

impl Root {
    /// Opens the directory.
    pub(crate) fn open(path: &Path, secrets: Secrets) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self { dir, path, secrets })
    }

    /// Returns the files that tools must not read.
    pub(crate) const fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Parses a path from a model.
    pub(crate) fn parse_path(&self, text: &str) -> Result<WorkspacePath, Error> {
        if text.is_empty() || text.contains('\0') {
            return Err(Error::EmptyPath);
        }
        let outside = || Error::Outside(text.to_owned());
        let path = Path::new(text);
        let path =
            if path.is_absolute() { path.strip_prefix(&self.path).map_err(|_| outside())? } else { path };
        let mut place = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => place.push(name),
                Component::CurDir => {}
                Component::ParentDir if place.pop() => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        Ok(WorkspacePath(place))
    }

    /// Parses a path of a file; rejects the workspace itself.
    pub(crate) fn parse_file_path(&self, text: &str) -> Result<WorkspacePath, Error> {
        let place = self.parse_path(text)?;
        if place.0.as_os_str().is_empty() { Err(Error::WholeWorkspace(text.to_owned())) } else { Ok(place) }
    }

    /// Opens the file or directory at a path.
    pub(crate) fn open_at(&self, place: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Error> {
        let path = if place.0.as_os_str().is_empty() { Path::new(".") } else { &place.0 };
        open_beneath(&self.dir, path, flags).map_err(|error| place.open_error(error))
    }

    /// Returns the type of a file without opening it.
    pub(crate) fn kind(&self, place: &WorkspacePath) -> Result<FileType, Error> {
        let stat = fstat(self.open_at(place, LOOK)?).map_err(|error| place.open_error(error))?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Returns `true` if a path exists.
    pub(crate) fn exists(&self, place: &WorkspacePath) -> bool {
        self.open_at(place, LOOK).is_ok()
    }

    /// Opens a file for reading. Rejects pipes, devices, and files that hold secrets.
    pub(crate) fn open_file(&self, place: &WorkspacePath) -> Result<(File, u64), Error> {
        must_be_file(self.kind(place)?, place)?;
        // Meanwhile, the file may have become a pipe, which must not block the caller.
        let file = self.open_at(place, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let real = real_path(&file).unwrap_or_else(|| self.path.join(&place.0));
        self.reject_secrets(&real, place)?;
        if is_procfs_file(&file) {
            return Err(Error::Secret(place.display_path()));
        }
        let stat = fstat(&file).map_err(|error| place.open_error(error))?;
        must_be_file(FileType::from_raw_mode(stat.st_mode), place)?;
        Ok((File::from(file), u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// Reads a file completely if it is no longer than `limit`.
    pub(crate) fn read(
        &self,
        place: &WorkspacePath,
        limit: u64,
        too_long: &'static str,
    ) -> Result<Vec<u8>, Error> {
        let (file, size) = self.open_file(place)?;
        if size > limit {
            return Err(place.unusable(too_long));
        }
        let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // The file may have grown meanwhile.
        file.take(limit + 1).read_to_end(&mut data).map_err(|error| place.failed("cannot read it", error))?;
        if data.len() as u64 > limit { Err(place.unusable(too_long)) } else { Ok(data) }
    }

    /// Opens a directory, and returns its real path.
    pub(crate) fn dir(&self, place: &WorkspacePath) -> Result<PathBuf, Error> {
        self.open_at(place, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let path = self.path.join(&place.0);
        let real = path.canonicalize().map_err(|error| place.failed("cannot resolve it", error))?;
        if real.starts_with(&self.path) { Ok(real) } else { Err(Error::Outside(place.display_path())) }
    }

    /// Opens a directory, and returns its real path in the workspace.
    pub(crate) fn real_dir(&self, place: &WorkspacePath) -> Result<PathBuf, Error> {
        let real = self.dir(place)?;
        Ok(real.strip_prefix(&self.path).map(Path::to_owned).unwrap_or(real))
    }

    /// Returns the path of a file to write, lexically; rejects one that holds secrets.
    pub(crate) fn parse_write_path(&self, text: &str) -> Result<WorkspacePath, Error> {
        let place = self.parse_file_path(text)?;
        self.reject_secrets(&self.path.join(&place.0), &place)?;
        Ok(place)
    }

    /// Rejects a file that holds secrets, by its real path.
    pub(crate) fn reject_secrets(&self, real: &Path, place: &WorkspacePath) -> Result<(), Error> {
        if self.secrets.is_secret_file(real, &self.path) {
            Err(Error::Secret(place.display_path()))
        } else {
            Ok(())
        }
    }
}

fn must_be_file(kind: FileType, place: &WorkspacePath) -> Result<(), Error> {
    let why = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "is a directory; use list_files to see its contents",
        _ => "is not a file",
    };
    Err(place.unusable(why))
}

impl WorkspacePath {
    /// Wraps a path that is known to be beneath the workspace.
    pub(crate) fn beneath(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path for messages.
    pub(crate) fn display_path(&self) -> String {
        if self.0.as_os_str().is_empty() { ".".to_owned() } else { self.0.display().to_string() }
    }

    /// Converts a system error.
    pub(crate) fn open_error(&self, error: rustix::io::Errno) -> Error {
        if error == rustix::io::Errno::XDEV || error == rustix::io::Errno::LOOP {
            return Error::Outside(self.display_path());
        }
        self.failed("cannot open it", error)
    }

    /// Returns the error for a failed operation on the file.
    pub(crate) fn failed(&self, what: &'static str, error: impl Into<io::Error>) -> Error {
        Error::File { path: self.display_path(), what, source: error.into() }
    }

    /// Returns the error for content that a tool cannot use.
    pub(crate) fn unusable(&self, why: &'static str) -> Error {
        Error::Content { path: self.display_path(), why }
    }
}
