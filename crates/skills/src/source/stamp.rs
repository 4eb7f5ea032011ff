//! Detects that a file or directory is unchanged without opening it.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
#[cfg(not(target_os = "linux"))]
use std::path::PathBuf;

/// Metadata that identifies an unchanged file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: i128,
    changed: i128,
    size: u64,
    inode: u64,
}

impl Stamp {
    #[cfg(unix)]
    pub(super) fn from_metadata(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
            inode: metadata.ino(),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn from_metadata(metadata: &Metadata) -> Self {
        let since = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.and_then(|since| i128::try_from(since.as_nanos()).ok()).unwrap_or_default();
        Self { modified, changed: 0, size: metadata.len(), inode: 0 }
    }

    #[cfg(target_os = "linux")]
    fn from_stat(stat: &rustix::fs::Stat) -> Self {
        let nanos = |seconds: i64, nanos: u64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            modified: nanos(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanos(stat.st_ctime, stat.st_ctime_nsec),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            inode: stat.st_ino,
        }
    }

    /// Returns the stamp of a path, or `None` if it does not exist.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::from_metadata(&metadata))
    }
}

/// A path relative to a base, as a C string for system calls.
#[cfg(target_os = "linux")]
pub(super) type Way = std::ffi::CString;

/// A path relative to a base.
#[cfg(not(target_os = "linux"))]
pub(super) type Way = PathBuf;

/// Returns the path relative to a base, or the path itself if it is outside the base. Returns `None` if it is not a
/// valid path.
pub(super) fn way(base: &Path, path: &Path) -> Option<Way> {
    let way = match path.strip_prefix(base) {
        Ok(way) if way.as_os_str().is_empty() => Path::new("."),
        Ok(way) => way,
        // A symlink led out of the base.
        Err(_) => path,
    };
    #[cfg(target_os = "linux")]
    return Way::new(way.as_os_str().as_encoded_bytes()).ok();
    #[cfg(not(target_os = "linux"))]
    return Some(way.to_owned());
}

/// An open directory that relative paths start from, which avoids resolving its own path again.
#[cfg(target_os = "linux")]
pub(super) struct Base(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Base {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Returns the stamp of a relative path, or `None` if it does not exist.
    pub(super) fn stamp(&self, way: &Way) -> Option<Stamp> {
        let stat = rustix::fs::statat(&self.0, way.as_c_str(), rustix::fs::AtFlags::empty());
        stat.ok().map(|stat| Stamp::from_stat(&stat))
    }
}

/// A directory that relative paths start from.
#[cfg(not(target_os = "linux"))]
pub(super) struct Base(PathBuf);

#[cfg(not(target_os = "linux"))]
impl Base {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        path.canonicalize().map(Self)
    }

    /// Returns the stamp of a relative path, or `None` if it does not exist.
    pub(super) fn stamp(&self, way: &Way) -> Option<Stamp> {
        Stamp::at(&self.0.join(way))
    }
}
