//! The process between a host and a server.
//!
//! It starts the server with its own standard streams, so no byte passes through it. When the host closes the
//! server's input, or is gone, it gives the server time to end, then asks, then kills; and with the server
//! goes every process that descends from it, whatever group or session that process moved to.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, wait};

/// The argument that makes an executable of ours a supervisor.
pub(super) const FLAG: &str = "__supervise";

/// How long a server may take to end by itself, and again after it was asked to.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// The same for a server whose host is gone.
const SHORT_GRACE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(20);
/// What a shell answers when a program cannot be started.
const NOT_STARTED: u8 = 127;

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
///     if let Some(code) = meerkat_mcp::supervise(std::env::args_os()) {
///         return code;
///     }
///     ExitCode::SUCCESS
/// }
/// ```
pub fn supervise(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != FLAG || arguments.next()? != "--" {
        return None;
    }
    let program = arguments.next()?;
    Some(ExitCode::from(watch(Command::new(program).args(arguments))))
}

fn watch(command: &mut Command) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
    let host = getppid();
    let server = match command.spawn() {
        Ok(child) => i32::try_from(child.id()).ok().and_then(Pid::from_raw),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cannot start {:?}: {error}", command.get_program());
            return NOT_STARTED;
        }
    };
    let Some(server) = server else { return NOT_STARTED };
    let_go_of_output();
    let (events, inbox) = mpsc::channel();
    let exits = events.clone();
    std::thread::spawn(move || reap(server, &exits));
    std::thread::spawn(move || await_hangup(&events));
    let code = match inbox.recv() {
        Ok(Event::Exited(code)) => code,
        Ok(Event::HungUp) | Err(_) => wind_down(&inbox, host),
    };
    end_descendants();
    code
}

/// A server that closes its output must be seen to have closed it.
fn let_go_of_output() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn reap(server: Pid, events: &Sender<Event>) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::empty()) {
        if pid == server {
            let code =
                status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
            let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            let _ = events.send(Event::Exited(code));
        }
    }
}

/// Waits until nobody can write to the server's input any more. Nothing is read: the bytes are the server's.
fn await_hangup(events: &Sender<Event>) {
    let stdin = std::io::stdin();
    loop {
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let _ = events.send(Event::HungUp);
}

fn wind_down(inbox: &Receiver<Event>, host: Option<Pid>) -> u8 {
    if let Some(code) = await_exit(inbox, host) {
        return code;
    }
    signal_all(Signal::TERM);
    if let Some(code) = await_exit(inbox, host) {
        return code;
    }
    signal_all(Signal::KILL);
    128 + 9
}

/// Waits for the server to end; less long when the host is gone and nobody waits for it.
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

/// Ends what the server left behind: asks first, then kills until nothing is left.
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

/// Finds the process of the server that a supervisor watches: the first that it started and that lives.
pub(super) fn server_of(supervisor: u32) -> Option<u32> {
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
