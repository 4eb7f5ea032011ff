//! Calls about processes, for a program that shares its process ids with others.

use std::os::fd::AsFd as _;

use rustix::io::Errno;
use rustix::process::getpid;

use super::serve::{Answer, Caller, int};
use crate::filter::ABOUT_PROCESS;
use crate::processes::descendants;

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
