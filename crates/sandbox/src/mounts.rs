//! The program's view of the files: everything is read-only except the roots, and secrets are covered.
//!
//! A path is opened once; what is mounted, or covered, is the object behind the descriptor.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_remount, move_mount, open_tree};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use crate::policy::SandboxPolicy;
use crate::report::{Refusal, Stage};
use crate::sys;

/// Directories that show the temporary directory of the program.
pub(crate) const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

fn refuse(stage: Stage, path: Option<&Path>, error: impl Into<std::io::Error>) -> Refusal {
    let error = error.into().raw_os_error().unwrap_or(libc::EIO);
    Refusal { stage, path: path.map(Path::to_owned), error }
}

/// Enters namespaces in which this process may mount. It must have one thread.
pub(crate) fn enter_namespaces() -> Result<(), Refusal> {
    let refused = |error: std::io::Error| refuse(Stage::Namespaces, None, error);
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWIPC)
        .map_err(|error| refused(error.into()))?;
    fs::write("/proc/self/setgroups", "deny").map_err(refused)?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(refused)?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(refused)
}

/// Mounts the view. Afterwards the working directory is invalid.
pub(crate) fn mount_view(
    policy: &SandboxPolicy,
    roots: &[PathBuf],
    devices: &[PathBuf],
) -> Result<(), Refusal> {
    let copy = |path: &Path| {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        open_tree(CWD, path, flags).map_err(|error| refuse(Stage::Mounts, Some(path), error))
    };
    let copies = |paths: &[PathBuf]| paths.iter().map(|path| copy(path)).collect::<Result<Vec<_>, _>>();
    let (roots_held, devices_held) = (copies(roots)?, copies(devices)?);
    let temporary = TEMPORARY.map(|at| Path::new(at).is_dir().then(|| copy(&policy.temporary)));
    let sockets: Vec<_> = policy.sockets.iter().filter(|path| path.exists()).cloned().collect();
    let sockets_held = copies(&sockets)?;
    sys::make_read_only(c"/").map_err(|error| refuse(Stage::Mounts, None, error))?;
    let masks = Masks::create().map_err(|error| refuse(Stage::Secrets, None, error))?;
    mount_devices(devices, devices_held, (policy.limits.memory / 2).max(1))?;
    for (at, held) in TEMPORARY.iter().zip(temporary) {
        if let Some(held) = held.transpose()? {
            attach(&held, Path::new(at))?;
        }
    }
    for (path, held) in roots.iter().zip(&roots_held) {
        // Below the temporary directory, which is the program's own, the place is missing.
        fs::create_dir_all(path).map_err(|error| refuse(Stage::Mounts, Some(path), error))?;
        attach_exactly(held, path)?;
    }
    for (path, held) in sockets.iter().zip(sockets_held) {
        if !path.exists() {
            create_file(path).map_err(|error| refuse(Stage::Mounts, Some(path), error))?;
            attach_exactly(&held, path)?;
        }
    }
    policy.names.places.iter().try_for_each(|place| masks.cover(place))
}

fn attach(mount: &OwnedFd, path: &Path) -> Result<(), Refusal> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(mount, c"", CWD, path, flags).map_err(|error| refuse(Stage::Mounts, Some(path), error))
}

/// Attaches a mount to a real path, which earlier programs may have replaced in the temporary directory.
fn attach_exactly(mount: &OwnedFd, path: &Path) -> Result<(), Refusal> {
    attach(mount, path)?;
    let refused = |error: Errno| refuse(Stage::Mounts, Some(path), error);
    let at = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(refused)?;
    let link = format!("/proc/self/fd/{}", at.as_raw_fd());
    let real = fs::read_link(link).map_err(|error| refuse(Stage::Mounts, Some(path), error))?;
    if real == path { Ok(()) } else { Err(refused(Errno::LOOP)) }
}

fn create_file(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, "")
}

/// Mounts a directory of devices with nothing but those that are granted.
fn mount_devices(devices: &[PathBuf], held: Vec<OwnedFd>, memory: u64) -> Result<(), Refusal> {
    let refused = |error: std::io::Error| refuse(Stage::Mounts, Some(Path::new("/dev")), error);
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount(c"tmpfs", c"/dev", c"tmpfs", flags, c"mode=755").map_err(|error| refused(error.into()))?;
    for (path, held) in devices.iter().zip(held) {
        let is_dir = fstat(&held).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        if is_dir { fs::create_dir_all(path) } else { create_file(path) }.map_err(refused)?;
        attach(&held, path)?;
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        let link = Path::new("/dev").join(name);
        std::os::unix::fs::symlink(format!("/proc/self/fd{target}"), link).map_err(refused)?;
    }
    fs::create_dir("/dev/shm").map_err(refused)?;
    mount_remount(c"/dev", flags | MountFlags::RDONLY, c"").map_err(|error| refused(error.into()))?;
    let options = CString::new(format!("mode=1777,size={memory},nr_inodes=262144"));
    let options = options.map_err(|error| refused(error.into()))?;
    mount(c"tmpfs", c"/dev/shm", c"tmpfs", flags | MountFlags::NODEV, &*options)
        .map_err(|error| refused(error.into()))
}

/// An empty file and an empty directory without permissions.
struct Masks {
    workshop: OwnedFd,
}

impl Masks {
    fn create() -> std::io::Result<Self> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount(c"tmpfs", c"/dev", c"tmpfs", flags, c"mode=0755")?;
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let workshop = openat(CWD, c"/dev", directory, Mode::empty())?;
        rustix::fs::mkdirat(&workshop, c"directory", Mode::empty())?;
        openat(&workshop, c"file", OFlags::CREATE | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        mount_remount(c"/dev", flags | MountFlags::RDONLY, c"")?;
        Ok(Self { workshop })
    }

    /// Covers a secret, and what it links to. One that does not exist needs no cover; one that cannot be examined is an
    /// error.
    fn cover(&self, place: &Path) -> Result<(), Refusal> {
        let refused = |error: Errno| refuse(Stage::Secrets, Some(place), error);
        for follow in [OFlags::NOFOLLOW, OFlags::empty()] {
            let held = match openat(CWD, place, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
                held => held.map_err(refused)?,
            };
            let mask = match FileType::from_raw_mode(fstat(&held).map_err(refused)?.st_mode) {
                FileType::Symlink => continue,
                FileType::Directory => c"directory",
                _ => c"file",
            };
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let mask = open_tree(self.workshop.as_fd(), mask, flags).map_err(refused)?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&mask, c"", &held, c"", flags).map_err(refused)?;
            return Ok(());
        }
        Ok(())
    }
}

const PROCESSES: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Shows the processes of this process's namespace. Runs after a fork.
pub(crate) fn mount_processes() -> Result<(), Errno> {
    mount(c"proc", c"/proc", c"proc", PROCESSES, None)
}

/// Write-protects the kernel's settings, which belong to the machine. Runs after a fork.
pub(crate) fn protect_settings() -> Result<(), Errno> {
    mount_remount(c"/proc", PROCESSES | MountFlags::BIND | MountFlags::RDONLY, c"")
}
