//! The gate: threads of the helper that answer system calls of the program.
//!
//! For each call that names a file or an address, the gate copies the name once, finds the object itself, judges the
//! object, and then acts on it or hands over a descriptor. The program cannot change any of these between judgment and
//! use. No descriptor leaves without a judgment, and a call is continued only if its registers say all.

mod files;
mod judge;
mod meta;
mod processes;
mod resolve;
mod serve;
mod sockets;
mod tree;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::Pid;

use self::judge::{Judge, NetworkFiles};
use self::resolve::Resolver;
pub(crate) use self::serve::start;
use self::sockets::Sockets;
use crate::filter::Processes;
use crate::policy::{Network, SandboxPolicy};
use crate::report::{Denial, Limit};
use crate::sys;

/// State of the gate.
#[derive(Debug)]
pub(crate) struct Gate {
    listener: OnceLock<OwnedFd>,
    resolver: Resolver,
    judge: Judge,
    sockets: Sockets,
    /// Held while a name is judged and changed, so that the program cannot change it meanwhile.
    names: Mutex<()>,
    /// Calls that block in a thread of their own.
    blocked: Mutex<Vec<(Option<Pid>, u64)>>,
    reached: Mutex<Option<Limit>>,
}

impl Gate {
    /// Creates a gate. The working directory must be `proc`, the process file system of the helper.
    pub(crate) fn new(
        policy: &SandboxPolicy,
        proc: OwnedFd,
        visible: Processes,
        view: View,
    ) -> Result<Arc<Self>, Errno> {
        let is_full = policy.network == Network::Full;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let hold = |root: &PathBuf| openat(CWD, root, flags, Mode::empty());
        let judge = Judge {
            names: policy.names.clone(),
            held: policy.names.roots.iter().map(hold).collect::<Result<_, _>>()?,
            user: rustix::process::getuid().as_raw(),
            writable: view.writable,
            devices: view.devices,
            shared: view.shared,
            network_files: if is_full { NetworkFiles::Granted } else { NetworkFiles::Denied },
            ..Judge::default()
        };
        Ok(Arc::new(Self {
            listener: OnceLock::new(),
            resolver: Resolver { proc, visible },
            judge,
            sockets: Sockets::new(policy, view.isolation),
            names: Mutex::new(()),
            blocked: Mutex::default(),
            reached: Mutex::default(),
        }))
    }

    /// Interrupts blocked calls whose caller is gone, and returns `true` if others are left.
    pub(crate) fn release_blocked(&self) -> bool {
        let Some(listener) = self.listener.get() else { return false };
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        for (thread, id) in blocked.iter() {
            if let Some(thread) = thread
                && !sys::is_waiting(listener.as_fd(), *id)
            {
                sys::interrupt(*thread);
            }
        }
        !blocked.is_empty()
    }

    /// Returns the denied accesses so far, and forgets them.
    pub(crate) fn take_denials(&self) -> Vec<Denial> {
        self.judge.take_denials()
    }

    /// Returns the limit that the program reached last.
    pub(crate) fn reached(&self) -> Option<Limit> {
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_reached(&self, limit: Limit) {
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit);
    }

    fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.get().map(OwnedFd::as_fd)
    }
}

/// The program's view of files and the network.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Directories in which metadata may change.
    pub(crate) writable: Vec<PathBuf>,
    /// Numbers of the devices that may be opened.
    pub(crate) devices: Vec<(u32, u32)>,
    /// A directory that all programs of the user share.
    pub(crate) shared: Option<PathBuf>,
    /// Whether the gate can isolate the network.
    pub(crate) isolation: Isolation,
}

/// Isolation of internet sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// They are created in a network namespace.
    Namespace,
    /// They share the network of the host, so they may only connect to granted ports.
    #[default]
    Shared,
}
