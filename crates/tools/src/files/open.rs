//! Opens files so that no component of their path leaves a directory.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Flags to inspect a path without the side effects that opening a device or a pipe may have.
#[cfg(target_os = "linux")]
pub(super) const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(super) const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a file beneath a directory. If the kernel resolves the path, symlinks that stay inside are followed;
/// otherwise, none are.
pub(super) fn open_beneath(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // Some containers block this call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            // A concurrent rename disturbed the check.
            Err(Errno::AGAIN) => {
                return openat2(&dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
            }
            opened => return opened,
        }
    }
    step_by_step(dir, path, flags)
}

/// Returns the real path of an open file, symlinks resolved, where the system supports it.
pub(super) fn real_path(file: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Returns `true` if a file belongs to procfs, which exposes the environment and the memory of this process.
#[cfg(target_os = "linux")]
pub(super) fn is_procfs_file(file: &OwnedFd) -> bool {
    use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
    fstatfs(file).is_ok_and(|stat| stat.f_type == PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_procfs_file(_: &OwnedFd) -> bool {
    false
}

/// Opens one directory after the other without following symlinks.
fn step_by_step(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let names: Vec<&OsStr> = path.iter().filter(|name| *name != ".").collect();
    let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some((last, dirs)) = names.split_last() else {
        return openat(dir, ".", flags | OFlags::CLOEXEC, Mode::empty());
    };
    if names.iter().any(|name| *name == "..") {
        return Err(Errno::XDEV);
    }
    let mut current = openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for name in dirs {
        current = openat(&current, *name, through, Mode::empty())?;
    }
    openat(&current, *last, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallback_follows_no_symlinks() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("in")).unwrap();
        std::fs::write(scratch.path().join("in/file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", scratch.path().join("out")).unwrap();
        std::os::unix::fs::symlink("in/file", scratch.path().join("link")).unwrap();
        let dir = std::fs::File::open(scratch.path()).unwrap();
        let open = |path: &str| step_by_step(&dir, Path::new(path), OFlags::RDONLY).map(drop);
        assert_eq!(open("in/file"), Ok(()));
        assert_eq!(open("."), Ok(()));
        assert_eq!(open("out/passwd"), Err(Errno::NOTDIR));
        assert_eq!(open("link"), Err(Errno::LOOP));
        assert_eq!(open("in/../../etc"), Err(Errno::XDEV));
    }
}
