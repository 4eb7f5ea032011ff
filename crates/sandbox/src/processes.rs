//! Processes of a program: the descendants of the helper, which adopts orphans.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

/// A process, or one that exited but was not waited for: its first thread may exit before others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) threads: u64,
    /// Pages in RAM.
    pub(crate) resident: u64,
}

/// Reads a small file of the process file system.
pub(crate) fn read(dir: impl AsFd, path: &str) -> Result<Vec<u8>, Errno> {
    let file = openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match rustix::io::read(&file, &mut buffer[..])? {
            0 => return Ok(text),
            count => text.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Reads a process; `None` if it does not exist.
pub(crate) fn process(proc: BorrowedFd<'_>, pid: i32) -> Option<Process> {
    let stat = String::from_utf8_lossy(&read(proc, &format!("{pid}/stat")).ok()?).into_owned();
    // The name is in parentheses and may hold any characters; the fields after it are numbers.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let threads = fields.nth(14)?.parse().ok()?;
    let resident = fields.nth(3)?.parse().ok()?;
    Some(Process { pid, parent, group, threads, resident })
}

/// Reads the bytes of RAM that a process uses; those that it shares count in parts.
pub(crate) fn proportional(proc: BorrowedFd<'_>, pid: i32) -> Option<u64> {
    let text = String::from_utf8_lossy(&read(proc, &format!("{pid}/smaps_rollup")).ok()?).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// Lists the descendants of a process.
pub(crate) fn descendants(proc: BorrowedFd<'_>, root: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    let entries = openat(proc, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let entries = entries.and_then(Dir::new).into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()) {
        if let Some(process) = process(proc, pid) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(parent) = open.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            open.push(process.pid);
            found.push(process);
        }
    }
    found
}

/// Returns `true` if a process or thread belongs to a descendant of `root`.
pub(crate) fn is_descendant(proc: BorrowedFd<'_>, pid: i32, root: i32) -> bool {
    const MAX_DEPTH: usize = 10_000;
    let mut next = pid;
    for _ in 0..MAX_DEPTH {
        let Some(process) = process(proc, next).filter(|process| process.pid != root) else { return false };
        if process.parent == root {
            return true;
        }
        next = process.parent;
    }
    false
}

/// The kernel's description of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Status {
    /// Its process.
    pub(crate) process: i32,
    /// Its process, as its own process namespace numbers it.
    pub(crate) own_process: i32,
    /// The thread, as its own process namespace numbers it.
    pub(crate) own_thread: i32,
    pub(crate) umask: u32,
}

/// Reads the status of a thread.
pub(crate) fn status(proc: BorrowedFd<'_>, thread: i32) -> Result<Status, Errno> {
    let text = read(proc, &format!("{thread}/status"))?;
    let text = String::from_utf8_lossy(&text);
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next_back()
    };
    let number = |name: &str| field(name).and_then(|text| text.parse().ok());
    let process = number("Tgid").ok_or(Errno::SRCH)?;
    Ok(Status {
        process,
        own_process: number("NStgid").unwrap_or(process),
        own_thread: number("NSpid").unwrap_or(thread),
        umask: field("Umask").and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(0o077),
    })
}
