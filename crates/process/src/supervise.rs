//! The process between a host and a program.
//!
//! It starts the program with its own standard streams, so no byte passes through it. When the host closes its
//! input, or is gone, it gives the program time to end, then asks, then kills; and with the program
//! goes every process that descends from it, whatever group or session that process moved to.
//! Where the input is a payload that ends on its own, the host closes the output instead.

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

use crate::confine::{Confinement, TRY_COVER, confine, prepare, try_cover};

/// The argument that makes an executable of ours a supervisor.
const FLAG: &str = "__supervise";

/// How long a program may take to end by itself, and again after it was asked to.
pub const GRACE: Duration = Duration::from_secs(2);
/// The same for a program whose host is gone.
const SHORT_GRACE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(20);
/// What a shell answers when a program cannot be started.
const NOT_STARTED: u8 = 127;
/// The answer when a program cannot be confined, and so is not started.
const NOT_CONFINED: u8 = 125;

/// How a program is started and ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    /// What it reads.
    pub input: Input,
    /// How it is ended.
    pub ending: Ending,
    /// What it may do; anything the host may, if not given.
    pub confinement: Option<Confinement>,
}

/// What a program reads on its standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// What the host writes.
    #[default]
    Host,
    /// Nothing; the pipe from the host only says that it lives. The program has a session of its own, so that it
    /// has no terminal either.
    Nothing,
    /// What the host writes, which may end long before the program does. The host is gone when it no longer reads
    /// the program's stderr, which must be a pipe.
    Payload,
}

/// How a program is ended when the host closes the pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It is given time to end by itself, then asked, then killed.
    #[default]
    Patient,
    /// It is asked at once, then killed.
    Prompt,
}

impl Supervision {
    /// Returns the arguments with which a host starts itself as the supervisor of a program; the program's own
    /// arguments follow.
    #[must_use]
    pub fn arguments(&self, program: &Path) -> Vec<OsString> {
        // Paths that are not UTF-8 cannot be told; then nothing is, and the supervisor refuses.
        let options = serde_json::to_string(self).unwrap_or_default();
        vec![FLAG.into(), options.into(), "--".into(), program.into()]
    }
}

enum Event {
    Exited(u8),
    HungUp,
}

/// Does a supervisor's work if the arguments ask for it, and returns the exit code to end with.
///
/// A host calls this first thing in `main`, before it starts threads or a runtime:
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
        flag if flag == TRY_COVER => return Some(try_cover()),
        flag if flag == FLAG => {}
        _ => return None,
    }
    let options = arguments.next()?;
    let Some(supervision) = options.to_str().and_then(|text| serde_json::from_str(text).ok()) else {
        complain("it is not clear how to supervise: the options cannot be read");
        return Some(ExitCode::from(NOT_CONFINED));
    };
    if arguments.next()? != "--" {
        return None;
    }
    let mut command = Command::new(arguments.next()?);
    command.args(arguments);
    Some(ExitCode::from(watch(command, supervision)))
}

fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn watch(command: Command, supervision: Supervision) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
    let (host, ending) = (getppid(), supervision.ending);
    let lifeline = match lifeline(supervision.input) {
        Ok(lifeline) => lifeline,
        Err(error) => {
            complain(&format!("cannot watch the host: {error}"));
            return NOT_STARTED;
        }
    };
    let program = match start(command, supervision) {
        Ok(program) => program,
        Err(code) => return code,
    };
    let_go_of_output();
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

/// Starts the program from a thread that is confined first. What a thread gives up, the processes it starts have
/// given up; the other threads of this process have not, so the program cannot touch them.
fn start(mut command: Command, supervision: Supervision) -> Result<Pid, u8> {
    if supervision.input == Input::Nothing {
        command.stdin(Stdio::null());
        let _ = rustix::process::setsid();
    }
    let refused = |error| {
        complain(&format!("the sandbox cannot be set up, so nothing was run: {error}"));
        NOT_CONFINED
    };
    let found =
        supervision.confinement.as_ref().map(prepare).transpose().map_err(refused)?.unwrap_or_default();
    let starting = std::thread::spawn(move || {
        if let Some(confinement) = &supervision.confinement {
            confine(confinement, &found).map_err(refused)?;
        }
        let child = command.spawn().map_err(|error| {
            complain(&format!("cannot start {:?}: {error}", command.get_program()));
            NOT_STARTED
        })?;
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(NOT_STARTED)
    });
    starting.join().unwrap_or(Err(NOT_STARTED))
}

/// A program that closes its output must be seen to have closed it.
fn let_go_of_output() {
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

/// Waits until the host has closed its end of the pipe. Nothing is read: the bytes are the program's.
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

fn wind_down(inbox: &Receiver<Event>, host: Option<Pid>, ending: Ending) -> u8 {
    if ending == Ending::Patient
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

/// Waits for the program to end; less long when the host is gone and nobody waits for it.
fn await_exit(inbox: &Receiver<Event>, host: Option<Pid>) -> Option<u8> {
    let started = Instant::now();
    loop {
        match inbox.recv_timeout(TICK) {
            Ok(Event::Exited(code)) => return Some(code),
            Ok(Event::HungUp) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        let grace = if getppid() == host { GRACE } else { SHORT_GRACE };
        if started.elapsed() >= grace {
            return None;
        }
    }
}

/// Ends what the program left behind: asks first, then kills until nothing is left.
fn end_descendants() {
    if descendants().is_empty() {
        return;
    }
    signal_all(Signal::TERM);
    let started = Instant::now();
    while started.elapsed() < GRACE * 2 {
        std::thread::sleep(TICK);
        if descendants().is_empty() {
            return;
        }
        if started.elapsed() >= SHORT_GRACE {
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
        // Nobody adopts for us here, so the group is all there is; this process is in it and goes with it.
        let _ = rustix::process::kill_current_process_group(signal);
    }
}

/// Everything that descends from this process and is not already dead.
///
/// An orphan's new parent is this process, so nothing can escape by losing its parent.
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

/// Finds the process of the program that a supervisor watches: the first that it started and that lives.
#[must_use]
pub fn program_of(supervisor: u32) -> Option<u32> {
    let supervisor = i32::try_from(supervisor).ok()?;
    let children = living_processes().filter(|process| process.parent == supervisor);
    children.min_by_key(|process| process.started).and_then(|process| u32::try_from(process.pid).ok())
}

/// A process that is not already dead.
struct Living {
    pid: i32,
    parent: i32,
    /// When it was started, in ticks since the machine was.
    started: u64,
}

fn living_processes() -> impl Iterator<Item = Living> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name of a process is in parentheses and may hold anything; what follows it is numbers.
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        (state != "Z" && state != "X").then_some(Living { pid, parent, started })
    })
}
