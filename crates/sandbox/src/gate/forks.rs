//! New processes, and calls about processes, for a program that shares its process ids with others.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::getpid;

use super::serve::{Answer, Caller, int};
use crate::filter::ABOUT_PROCESS;
use crate::processes::descendants;
use crate::report::Limit;

/// Number of processes.
#[derive(Debug)]
pub(super) struct Forks {
    limit: u64,
    is_closed: AtomicBool,
    /// At least the number of running processes: those that ended are subtracted when the limit is near.
    count: AtomicU64,
}

impl Forks {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, is_closed: AtomicBool::new(false), count: AtomicU64::new(1) }
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }
}

/// Allows a new process below the limit.
pub(super) fn fork(caller: &Caller) -> Result<Answer, Errno> {
    let gate = &caller.gate;
    let forks = &gate.forks;
    if forks.is_closed.load(Ordering::SeqCst) {
        return Err(Errno::AGAIN);
    }
    if forks.count.load(Ordering::SeqCst) >= forks.limit {
        let running = descendants(gate.resolver.proc.as_fd(), getpid().as_raw_nonzero().get()).len();
        forks.count.store(running as u64, Ordering::SeqCst);
        if running as u64 >= forks.limit {
            gate.set_reached(Limit::Processes);
            return Err(Errno::AGAIN);
        }
    }
    forks.count.fetch_add(1, Ordering::SeqCst);
    Ok(Answer::Continue)
}

/// Allows a call about a process of the program. The registers say all, so the kernel performs it.
pub(super) fn about_process(caller: &Caller, call: i64) -> Result<Answer, Errno> {
    let Some((_, argument)) = ABOUT_PROCESS.iter().find(|(about, _)| *about == call) else {
        return Err(Errno::PERM);
    };
    let resolver = &caller.gate.resolver;
    let pid = int(caller.arguments[usize::from(*argument)]);
    let is_own = match pid {
        1.. => resolver.is_own(pid),
        // A group, by a negative number.
        ..-1 if call == libc::SYS_kill => {
            let own = descendants(resolver.proc.as_fd(), getpid().as_raw_nonzero().get());
            own.iter().any(|process| process.group == -pid)
        }
        _ => false,
    };
    if is_own {
        return Ok(Answer::Continue);
    }
    caller.gate.judge.deny("signal or change", pid.to_string().as_bytes(), "not a process of the program");
    Err(Errno::PERM)
}
