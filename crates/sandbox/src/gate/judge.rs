//! Decisions about objects and names, and the list of what was denied.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, FileType, Mode, OFlags, Statx, StatxFlags, openat};
use rustix::io::Errno;

use super::resolve::{Object, Origin, describe, own_path, path_of};
use crate::guard::Access;
use crate::names::{Names, Verdict, below};
use crate::report::Denial;

const MAX_DENIALS: usize = 20;

/// Identity of a file, which no other file has at any time if the time of creation is known.
pub(super) type Identity = (u32, u32, u64, i64, u32);

/// Decides about objects and names.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) names: Names,
    /// The roots of the names, held open: a root that is renamed stays one.
    pub(super) held: Vec<OwnedFd>,
    /// The user, whose files may be secret by their names.
    pub(super) user: u32,
    /// Directories in which metadata may change.
    pub(super) writable: Vec<PathBuf>,
    /// Character devices that may be opened.
    pub(super) devices: Vec<(u32, u32)>,
    /// A directory that all programs of the user share: only files that this program created may be opened.
    pub(super) shared: Option<PathBuf>,
    pub(super) network_files: NetworkFiles,
    /// Files that the program created, which are no secret to it.
    pub(super) created: Mutex<HashMap<Identity, Option<OwnedFd>>>,
    pub(super) denials: Mutex<Vec<Denial>>,
}

/// The kernel's lists of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NetworkFiles {
    #[default]
    Denied,
    Granted,
}

impl Judge {
    /// Returns the names with the paths that the roots have now.
    pub(super) fn names(&self, access: Access) -> Cow<'_, Names> {
        if access == Access::Read && !self.names.patterns.iter().any(|pattern| pattern.contains('/')) {
            return Cow::Borrowed(&self.names);
        }
        let mut names = Cow::Borrowed(&self.names);
        for (root, held) in self.names.roots.iter().zip(&self.held) {
            let Ok(now) = path_of(held.as_fd()) else { continue };
            if now != *root {
                let names = names.to_mut();
                for paths in [&mut names.roots, &mut names.git_dirs, &mut names.guarded, &mut names.places] {
                    for path in paths.iter_mut().filter(|path| path.starts_with(root)) {
                        if let Ok(inside) = path.strip_prefix(root) {
                            *path = now.join(inside);
                        }
                    }
                }
            }
        }
        names
    }

    /// Judges an object before it is opened, changed, or linked.
    pub(super) fn object(
        &self,
        operation: &str,
        object: &Object,
        path: &Path,
        access: Access,
    ) -> Result<(), Errno> {
        let file = &object.file;
        let deny = |reason| Err(self.deny(operation, path.as_os_str().as_bytes(), reason));
        match (object.origin, FileType::from_raw_mode(file.stx_mode.into())) {
            (Origin::Kernel, _) if access != Access::Read => return deny("read-only"),
            (Origin::Kernel | Origin::OwnProcess, _) => {
                let is_network = path.iter().any(|name| name == "net");
                return if is_network && self.network_files == NetworkFiles::Denied {
                    deny("describes the network of the host")
                } else {
                    Ok(())
                };
            }
            (Origin::Disk, FileType::BlockDevice) => return deny("a disk"),
            (Origin::Disk, FileType::CharacterDevice) => {
                let device = (file.stx_rdev_major, file.stx_rdev_minor);
                return if self.devices.contains(&device) { Ok(()) } else { deny("device not granted") };
            }
            // Pipes and memory have no path.
            (Origin::Disk, _) if !path.is_absolute() || path.starts_with("/memfd:") => return Ok(()),
            (Origin::Disk, _) => {}
        }
        let is_created = || self.is_created(identity(file));
        let is_pipe = FileType::from_raw_mode(file.stx_mode.into()) == FileType::Fifo;
        if is_pipe && !self.is_writable(path) && !is_created() {
            // A mount that is read-only, and permission to read, do not protect who is at the other end.
            return deny("belongs to another program");
        }
        if self.is_shared(path) && !is_created() {
            return deny("belongs to another program");
        }
        let names = self.names(access);
        let is_users = || file.stx_uid == self.user || names.roots.iter().any(|root| path.starts_with(root));
        match names.judge(path, access) {
            Verdict::Allowed => Ok(()),
            Verdict::Guarded => deny("runs or is obeyed by itself"),
            Verdict::Secret if self.is_place(path) || (is_users() && !is_created()) => deny("secret"),
            Verdict::Secret => Ok(()),
        }
    }

    /// Judges a name that is about to be added, changed, or removed.
    pub(super) fn name(&self, operation: &str, path: &Path, access: Access) -> Result<(), Errno> {
        let reason = match self.names(access).judge(path, access) {
            Verdict::Allowed => return Ok(()),
            Verdict::Guarded => "runs or is obeyed by itself",
            Verdict::Secret => "secret",
        };
        Err(self.deny(operation, path.as_os_str().as_bytes(), reason))
    }

    /// Checks that an object lies where metadata may change.
    pub(super) fn writable(&self, operation: &str, path: &Path) -> Result<(), Errno> {
        let is_nameless = !path.is_absolute() || path.starts_with("/memfd:");
        if is_nameless || self.is_writable(path) {
            return Ok(());
        }
        self.deny(operation, path.as_os_str().as_bytes(), "outside the writable directories");
        Err(Errno::ROFS)
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|root| path.starts_with(root))
    }

    /// Returns `true` if a path is in the directory that all programs of the user share.
    pub(super) fn is_shared(&self, path: &Path) -> bool {
        self.shared.as_ref().is_some_and(|shared| path.starts_with(shared) && path != shared)
    }

    fn is_place(&self, path: &Path) -> bool {
        self.names.places.iter().any(|place| below(path, place).is_some())
    }

    pub(super) fn is_created(&self, identity: Identity) -> bool {
        self.created.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&identity)
    }

    /// Remembers a file that the program created. One that is not remembered is treated as another's.
    pub(super) fn add_created(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        const MAX_CREATED: usize = 1 << 18;
        const MAX_HELD: usize = 256;
        let file = describe(fd)?;
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        if created.len() >= MAX_CREATED {
            return Ok(());
        }
        let held = if StatxFlags::from_bits_retain(file.stx_mask).contains(StatxFlags::BTIME) {
            None
        } else if created.values().flatten().count() < MAX_HELD {
            // Without the time of creation, another file could get the same number once this one is removed.
            Some(openat(CWD, own_path(fd), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
        } else {
            return Ok(());
        };
        created.insert(identity(&file), held);
        Ok(())
    }

    /// Forgets a file that lost its last name.
    pub(super) fn forget(&self, file: &Statx) {
        if file.stx_nlink <= 1 {
            self.created.lock().unwrap_or_else(PoisonError::into_inner).remove(&identity(file));
        }
    }

    /// Records a denial, and returns the error for the caller.
    pub(super) fn deny(&self, operation: &str, subject: &[u8], reason: &str) -> Errno {
        let denial = Denial {
            operation: operation.to_owned(),
            subject: OsStr::from_bytes(subject).to_string_lossy().into_owned(),
            reason: reason.to_owned(),
        };
        let mut denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        if denials.len() < MAX_DENIALS && !denials.contains(&denial) {
            denials.push(denial);
        }
        Errno::ACCESS
    }

    pub(super) fn take_denials(&self) -> Vec<Denial> {
        std::mem::take(&mut self.denials.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) fn identity(file: &Statx) -> Identity {
    let (major, minor) = (file.stx_dev_major, file.stx_dev_minor);
    (major, minor, file.stx_ino, file.stx_btime.tv_sec, file.stx_btime.tv_nsec)
}
