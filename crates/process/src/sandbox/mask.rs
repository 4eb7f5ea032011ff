//! Masks secrets: an empty file or directory is mounted over each one, in a mount namespace of the program. A directory
//! that holds a secret stays fully usable.
//!
//! Not every system allows such a namespace. Where it does not, Landlock rules provide as much protection as they can.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount,
};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

/// Directory for the empty mounts; it is restored once they are in place.
const WORKSHOP: &str = "/dev";

/// Moves this process into a new mount namespace. It must have one thread.
pub(super) fn enter_mount_namespace() -> io::Result<()> {
    if unshare(UnshareFlags::NEWNS).is_err() {
        let (user, group) = (getuid().as_raw(), getgid().as_raw());
        // Root without this permission gains nothing from a user namespace.
        if user == 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    // Mounts made here must not be visible elsewhere.
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

#[expect(deprecated, reason = "its successor is about tables of open files, which stay shared here")]
fn unshare(what: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(what)
}

/// Masks files and directories, and returns those that could not be masked.
pub(super) fn cover(places: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let targets: Vec<_> = places.iter().map(|place| (place, Target::open(place))).collect();
    let workshop = EmptyMounts::open()?;
    let mut bare = Vec::new();
    for (place, target) in targets {
        if target.is_none_or(|target| target.cover().is_err()) {
            bare.push(place.clone());
        }
    }
    workshop.close()?;
    Ok(bare)
}

/// A path to mask, held open so that later mounts do not change what it refers to.
struct Target {
    held: OwnedFd,
    cover: &'static str,
}

impl Target {
    fn open(place: &Path) -> Option<Self> {
        // These files belong to the kernel, and some of them cannot be masked.
        if place.starts_with("/proc") || place.starts_with("/sys") {
            return None;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = openat(CWD, place, flags, Mode::empty()).ok()?;
        let cover = match FileType::from_raw_mode(fstat(&held).ok()?.st_mode) {
            FileType::Directory => "directory",
            FileType::Symlink => return None,
            _ => "file",
        };
        Some(Self { held, cover })
    }

    fn cover(&self) -> rustix::io::Result<()> {
        let place = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        mount_bind(Path::new(WORKSHOP).join(self.cover), place)
    }
}

/// An empty file and an empty directory without permissions.
struct EmptyMounts;

impl EmptyMounts {
    fn open() -> io::Result<Self> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("rkat", WORKSHOP, "tmpfs", flags, c"mode=755,size=4k,nr_inodes=8")?;
        let (file, dir) = (Path::new(WORKSHOP).join("file"), Path::new(WORKSHOP).join("directory"));
        File::create(&file)?;
        fs::create_dir(&dir)?;
        for path in [&file, &dir] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000))?;
        }
        mount_remount(WORKSHOP, flags | MountFlags::RDONLY, c"")?;
        Ok(Self)
    }

    fn close(self) -> io::Result<()> {
        Ok(unmount(WORKSHOP, UnmountFlags::DETACH)?)
    }
}
