//! The process between a host and a program.
//!
//! It starts the program with its own standard streams, so no byte passes through it. When the host closes its input or
//! exits, it gives the program time to exit, then sends a signal, then kills it. All descendants of the program end
//! with it, whatever group or session they moved to. If the input is a payload that ends on its own, the host closes
//! the output instead.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, wait};
use serde::{Deserialize, Serialize};

use crate::sandbox::{SandboxSpec, TEST_MASKING, confine, prepare, test_masking};

/// The argument that runs the host's executable as a supervisor.
const FLAG: &str = "__supervise";

/// Time for a program to exit by itself, and again after it was signaled.
pub const GRACE: Duration = Duration::from_secs(2);
/// Grace period for a program whose host is gone.
const ORPHAN_GRACE: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Exit code of a shell if a program cannot be started.
const NOT_STARTED: u8 = 127;
/// Exit code if a program cannot be sandboxed, and so is not started.
const NOT_CONFINED: u8 = 125;

/// Options for starting and ending a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    /// Source of the program's standard input.
    pub input: Input,
    /// Shutdown sequence of the program.
    pub ending: ShutdownMode,
    /// Sandbox of the program; if `None`, it may do anything that the host may.
    pub confinement: Option<SandboxSpec>,
}

/// Source of a program's standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// The input that the host writes.
    #[default]
    Host,
    /// Nothing; the pipe from the host only signals that the host is alive. The program has its own session, and so no
    /// terminal either.
    Nothing,
    /// The input that the host writes, which may end long before the program does. The host counts as gone when it no
    /// longer reads the program's stderr, which must be a pipe.
    Payload,
}

/// Shutdown sequence of a program after the host closes the pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShutdownMode {
    /// Give it time to exit by itself, then signal it, then kill it.
    #[default]
    Patient,
    /// Signal it at once, then kill it.
    Prompt,
}

impl Supervision {
    /// Returns the arguments with which a host starts its own executable as the supervisor of a program; the program's
    /// own arguments follow.
    #[must_use]
    pub fn arguments(&self, program: &Path) -> Vec<OsString> {
        // Paths that are not UTF-8 cannot be encoded; then the options are empty, and the supervisor fails.
        let options = serde_json::to_string(self).unwrap_or_default();
        vec![FLAG.into(), options.into(), "--".into(), program.into()]
    }
}

enum Event {
    Exited(u8),
    HungUp,
}

/// Runs as a supervisor if the arguments request it, and returns the exit code.
///
/// A host calls this first in `main`, before it starts threads or a runtime:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = meerkat_process::supervise(std::env::args_os()) {
///         return code;
///     }
///     ExitCode::SUCCESS
/// }
/// ```
pub fn supervise(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    match arguments.next()? {
        flag if flag == TEST_MASKING => return Some(test_masking()),
        flag if flag == FLAG => {}
        _ => return None,
    }
    let options = arguments.next()?;
    let Some(supervision) = options.to_str().and_then(|text| serde_json::from_str(text).ok()) else {
        print_error("cannot supervise: invalid options");
        return Some(ExitCode::from(NOT_CONFINED));
    };
    if arguments.next()? != "--" {
        return None;
    }
    let mut command = Command::new(arguments.next()?);
    command.args(arguments);
    Some(ExitCode::from(watch(command, supervision)))
}

fn print_error(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn watch(command: Command, supervision: Supervision) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
    let (host, ending) = (getppid(), supervision.ending);
    let lifeline = match lifeline(supervision.input) {
        Ok(lifeline) => lifeline,
        Err(error) => {
            print_error(&format!("cannot watch the host: {error}"));
            return NOT_STARTED;
        }
    };
    let program = match start(command, supervision) {
        Ok(program) => program,
        Err(code) => return code,
    };
    release_output();
    let (events, inbox) = mpsc::channel();
    let exits = events.clone();
    std::thread::spawn(move || reap(program, &exits));
    std::thread::spawn(move || await_hangup(&lifeline, &events));
    let code = match inbox.recv() {
        Ok(Event::Exited(code)) => code,
        Ok(Event::HungUp) | Err(_) => wind_down(&inbox, host, ending),
    };
    end_descendants();
    code
}

/// Starts the program from a thread that is sandboxed first. The restrictions of a thread apply to the processes that
/// it starts, but not to the other threads of this process, so the program cannot affect them.
fn start(mut command: Command, supervision: Supervision) -> Result<Pid, u8> {
    if supervision.input == Input::Nothing {
        command.stdin(Stdio::null());
        let _ = rustix::process::setsid();
    }
    let refused = |error| {
        print_error(&format!("cannot set up the sandbox, so the program was not started: {error}"));
        NOT_CONFINED
    };
    let found =
        supervision.confinement.as_ref().map(prepare).transpose().map_err(refused)?.unwrap_or_default();
    let starting = std::thread::spawn(move || {
        if let Some(confinement) = &supervision.confinement {
            confine(confinement, &found).map_err(refused)?;
        }
        let child = command.spawn().map_err(|error| {
            print_error(&format!("cannot start {:?}: {error}", command.get_program()));
            NOT_STARTED
        })?;
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(NOT_STARTED)
    });
    starting.join().unwrap_or(Err(NOT_STARTED))
}

/// Closes this process's copies of the output, so that readers see when the program closes its own.
fn release_output() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn reap(program: Pid, events: &Sender<Event>) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::empty()) {
        if pid == program {
            let code =
                status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
            let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            let _ = events.send(Event::Exited(code));
        }
    }
}

/// Returns the pipe whose other end only the host holds; the program does not inherit it.
fn lifeline(input: Input) -> rustix::io::Result<OwnedFd> {
    const FIRST_FREE: i32 = 3;
    match input {
        Input::Host | Input::Nothing => fcntl_dupfd_cloexec(std::io::stdin(), FIRST_FREE),
        Input::Payload => fcntl_dupfd_cloexec(std::io::stderr(), FIRST_FREE),
    }
}

/// Waits until the host has closed its end of the pipe, without reading: the bytes belong to the program.
fn await_hangup(lifeline: &OwnedFd, events: &Sender<Event>) {
    loop {
        let mut watched = [PollFd::new(lifeline, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let _ = events.send(Event::HungUp);
}

fn wind_down(inbox: &Receiver<Event>, host: Option<Pid>, ending: ShutdownMode) -> u8 {
    if ending == ShutdownMode::Patient
        && let Some(code) = await_exit(inbox, host)
    {
        return code;
    }
    signal_all(Signal::TERM);
    if let Some(code) = await_exit(inbox, host) {
        return code;
    }
    signal_all(Signal::KILL);
    128 + 9
}

/// Waits for the program to exit; the wait is shorter if the host is gone.
fn await_exit(inbox: &Receiver<Event>, host: Option<Pid>) -> Option<u8> {
    let started = Instant::now();
    loop {
        match inbox.recv_timeout(POLL_INTERVAL) {
            Ok(Event::Exited(code)) => return Some(code),
            Ok(Event::HungUp) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL_INTERVAL),
        }
        let grace = if getppid() == host { GRACE } else { ORPHAN_GRACE };
        if started.elapsed() >= grace {
            return None;
        }
    }
}

/// Ends the processes that the program left behind: signals them first, then kills until none is left.
fn end_descendants() {
    if descendants().is_empty() {
        return;
    }
    signal_all(Signal::TERM);
    let started = Instant::now();
    while started.elapsed() < GRACE * 2 {
        std::thread::sleep(POLL_INTERVAL);
        if descendants().is_empty() {
            return;
        }
        if started.elapsed() >= ORPHAN_GRACE {
            signal_all(Signal::KILL);
        }
    }
}

fn signal_all(signal: Signal) {
    for pid in descendants() {
        let _ = kill_process(pid, signal);
    }
    #[cfg(not(target_os = "linux"))]
    if signal == Signal::KILL {
        // Orphans are not adopted on this system, so only the group is known; this process is in it and ends with it.
        let _ = rustix::process::kill_current_process_group(signal);
    }
}

/// Returns the descendants of this process that have not exited.
///
/// An orphan's new parent is this process, so no process can escape by losing its parent.
fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for Living { pid, parent, .. } in living_processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(pid));
            open.push(pid);
        }
    }
    found
}

/// Returns the program's process id under a supervisor: the first running process that it started.
#[must_use]
pub fn supervised_pid(supervisor: u32) -> Option<u32> {
    let supervisor = i32::try_from(supervisor).ok()?;
    let children = living_processes().filter(|process| process.parent == supervisor);
    children.min_by_key(|process| process.started).and_then(|process| u32::try_from(process.pid).ok())
}

/// A process that has not exited.
struct Living {
    pid: i32,
    parent: i32,
    /// Start time in clock ticks since boot.
    started: u64,
}

fn living_processes() -> impl Iterator<Item = Living> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The process name is in parentheses and may hold any characters; the fields after it are numbers.
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        (state != "Z" && state != "X").then_some(Living { pid, parent, started })
    })
}
