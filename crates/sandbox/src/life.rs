//! The end of a program: when, and with all that it started.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::param::page_size;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal, wait,
};

use crate::child::{LEAST_PROCESS_IDS, exit_code};
use crate::gate::Gate;
use crate::policy::Limits;
use crate::processes::{Process, descendants, process, proportional};
use crate::report::{Limit, Report};
use crate::sys;

/// Time for a program to exit after it was signaled.
const GRACE: Duration = Duration::from_millis(500);
/// Interval of checks of memory and disk.
const CHECK: Duration = Duration::from_millis(250);
/// Interval of checks of blocked calls, and between attempts to end processes.
const SHORT: Duration = Duration::from_millis(20);
/// Threads of the helper and the first process, which count too, and some that exit.
const OWN_THREADS: u64 = 16;
const TOO_LARGE: u8 = 128 + 25;

/// The means of ending all that a program started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The end of its first process.
    Namespace,
    /// One signal to all, because the kernel confines signals of this thread to them.
    Domain,
    /// A signal to each descendant that is found.
    Descendants,
}

/// A program to watch.
pub(crate) struct Watched {
    /// The process whose exit ends the program.
    pub(crate) child: Pid,
    pub(crate) reach: Reach,
    pub(crate) proc: OwnedFd,
    pub(crate) limits: Limits,
    pub(crate) roots: Vec<PathBuf>,
}

/// A running program.
pub(crate) struct Life {
    gate: Arc<Gate>,
    watched: Watched,
    /// Disks that had enough space at the start.
    disks: Vec<PathBuf>,
    status: Option<WaitStatus>,
}

impl Life {
    pub(crate) fn new(gate: Arc<Gate>, watched: Watched) -> Self {
        let disks = watched.roots.iter().filter(|root| !is_full(root, &watched.limits)).cloned().collect();
        Self { gate, watched, disks, status: None }
    }

    /// Waits until the program exits, the host hangs up, or a limit is reached; ends all that it started, and returns
    /// the exit code with the report.
    pub(crate) fn watch(&mut self, host: BorrowedFd<'_>) -> (u8, Report) {
        let mut limit = None;
        let mut checked = Instant::now();
        let child = pidfd_open(self.watched.child, PidfdFlags::empty());
        while self.status.is_none() {
            let timeout = if self.gate.release_blocked() { SHORT } else { CHECK };
            let is_gone = match &child {
                Ok(child) => wait_for(host, child.as_fd(), timeout),
                Err(_) => false,
            };
            self.reap();
            if is_gone {
                break;
            }
            if checked.elapsed() >= CHECK {
                limit = self.exceeded();
                checked = Instant::now();
            }
            if limit.is_some() {
                break;
            }
        }
        self.end();
        let code = self.status.map_or(128 + 9, |status| u8::try_from(exit_code(status)).unwrap_or(1));
        let limit =
            limit.or_else(|| (code == TOO_LARGE).then_some(Limit::FileSize)).or_else(|| self.gate.reached());
        (code, Report::Ended { code, limit, denials: self.gate.take_denials() })
    }

    /// Returns the limit that the program exceeds now.
    fn exceeded(&self) -> Option<Limit> {
        let processes = self.processes();
        if self.watched.reach != Reach::Namespace && processes.len() as u64 > self.watched.limits.processes {
            return Some(Limit::Processes);
        }
        if self.watched.reach == Reach::Namespace {
            // The kernel refuses more; that it did is not reported, but what is left shows it.
            let threads = processes.iter().map(|process| process.threads).sum::<u64>();
            if threads + OWN_THREADS >= process_limit(&self.watched.limits) {
                self.gate.set_reached(Limit::Processes);
            }
        }
        let resident = |process: &Process| process.resident.saturating_mul(page_size() as u64);
        let limit = self.watched.limits.memory;
        // Shared memory counts once, which is slow to find out.
        let is_suspect = processes.iter().map(resident).sum::<u64>() > limit;
        let own = |process: &Process| proportional(self.watched.proc.as_fd(), process.pid);
        if is_suspect
            && processes.iter().map(|process| own(process).unwrap_or(resident(process))).sum::<u64>() > limit
        {
            return Some(Limit::Memory);
        }
        self.disks.iter().any(|disk| is_full(disk, &self.watched.limits)).then_some(Limit::Disk)
    }

    fn processes(&self) -> Vec<Process> {
        descendants(self.watched.proc.as_fd(), own_pid())
    }

    /// Ends everything: a process that still runs is signaled first, then all are killed until none is left.
    fn end(&mut self) {
        if self.status.is_none() {
            self.signal_all(Signal::TERM);
            let started = Instant::now();
            while self.status.is_none() && started.elapsed() < GRACE {
                std::thread::sleep(SHORT);
                self.reap();
            }
        }
        // A state of a process proves nothing; only the kernel's answer that no child is left does.
        while self.reap() {
            match self.watched.reach {
                Reach::Namespace => {
                    let _ = rustix::process::kill_process(self.watched.child, Signal::KILL);
                }
                Reach::Domain => sys::kill_all_reachable(),
                Reach::Descendants => self.signal_all(Signal::KILL),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal_all(&self, signal: Signal) {
        for target in self.processes() {
            let Some(pid) = Pid::from_raw(target.pid) else { continue };
            let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // The number may be another's by now; what is held is then not the descendant that was listed.
            let is_same = process(self.watched.proc.as_fd(), target.pid)
                .is_some_and(|now| now.parent == target.parent || now.parent == own_pid());
            if is_same {
                let _ = pidfd_send_signal(&held, signal);
            }
        }
    }

    /// Waits for children that exited, and returns `true` if others are left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == self.watched.child {
                        self.status = Some(status);
                    }
                }
                Ok(None) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Returns the number of processes at which the kernel refuses more.
fn process_limit(limits: &Limits) -> u64 {
    if rustix::process::getuid().is_root() {
        limits.processes.max(LEAST_PROCESS_IDS)
    } else {
        limits.processes
    }
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn is_full(path: &std::path::Path, limits: &Limits) -> bool {
    statvfs(path).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < limits.free_disk)
}

/// Waits for the exit of the child, and returns `true` if the host hung up.
fn wait_for(host: BorrowedFd<'_>, child: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut watched =
        [PollFd::from_borrowed_fd(host, PollFlags::IN), PollFd::from_borrowed_fd(child, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
    poll(&mut watched, Some(&timeout)).is_ok() && !watched[0].revents().is_empty()
}
