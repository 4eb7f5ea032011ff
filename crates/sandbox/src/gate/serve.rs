//! The loop of the gate's threads: receives calls, copies their arguments, and sends answers.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::thread::gettid;

use super::resolve::{At, Last};
use super::{Gate, files, meta, processes, sockets, tree};
use crate::sys::{self, Notification, Reply, Then};

/// Threads that answer calls. One may wait for a slow disk.
const THREADS: usize = 4;
/// Calls that may block at the same time.
const MAX_BLOCKED: usize = 64;
const MAX_PATH: usize = 4096;
const PAGE: u64 = 4096;

/// A call of the program.
pub(super) struct Caller {
    pub(super) gate: Arc<Gate>,
    pub(super) thread: i32,
    pub(super) id: u64,
    call: i64,
    pub(super) arguments: [u64; 6],
}

/// Answer to a call.
pub(super) enum Answer {
    Value(i64),
    /// The kernel performs the call. Only for calls whose registers say all.
    Continue,
    /// The caller gets a descriptor.
    Give(OwnedFd, Sharing),
    /// The caller's descriptor of this number is replaced, and the call succeeds.
    Replace(OwnedFd, u32),
    /// Another thread answers.
    Later,
}

/// A descriptor's flag, and whether others may mind that the gate has it open too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sharing {
    pub(super) close_on_exec: u32,
    pub(super) then: Then,
}

/// Starts the threads of the gate; they serve once the listener is sent. Call it before entering a process namespace.
pub(crate) fn start(gate: &Arc<Gate>) -> std::io::Result<Sender<OwnedFd>> {
    let (sender, receiver) = channel();
    let first = Arc::clone(gate);
    let maker = Arc::clone(gate);
    std::thread::Builder::new().spawn(move || maker.sockets.make_isolated())?;
    std::thread::Builder::new().spawn(move || begin(&first, &receiver))?;
    Ok(sender)
}

fn begin(gate: &Arc<Gate>, receiver: &Receiver<OwnedFd>) {
    let Ok(listener) = receiver.recv() else { return };
    if sys::drop_capabilities().is_err() || sys::allow_interrupts().is_err() {
        return;
    }
    sys::answer_on_same_processor(listener.as_fd());
    let _ = gate.listener.set(listener);
    for _ in 1..THREADS {
        let gate = Arc::clone(gate);
        // The gate also works with fewer threads.
        let _ = std::thread::Builder::new().spawn(move || serve(&gate));
    }
    serve(gate);
}

fn serve(gate: &Arc<Gate>) {
    let Some(listener) = gate.listener() else { return };
    loop {
        match sys::receive(listener) {
            Ok(notification) => answer(gate, listener, &notification),
            Err(Errno::INTR) => {}
            // The caller was interrupted, or none is left.
            Err(Errno::NOENT) if !is_abandoned(listener) => {}
            Err(_) => return,
        }
    }
}

/// Returns `true` if no process under the filter is left.
fn is_abandoned(listener: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(listener, PollFlags::empty())];
    poll(&mut watched, Some(&Timespec::default())).is_ok() && watched[0].revents().contains(PollFlags::HUP)
}

fn answer(gate: &Arc<Gate>, listener: BorrowedFd<'_>, notification: &Notification) {
    let caller = Caller {
        gate: Arc::clone(gate),
        thread: notification.pid.cast_signed(),
        id: notification.id,
        call: notification.data.nr.into(),
        arguments: notification.data.args,
    };
    let result = dispatch(&caller);
    caller.send(listener, result);
}

/// Performs a call. One that has no line here was asked by mistake, and fails.
fn dispatch(caller: &Caller) -> Result<Answer, Errno> {
    #[cfg(target_arch = "x86_64")]
    if let Some(result) = dispatch_legacy(caller) {
        return result;
    }
    let [a, b, c, d, e, _] = caller.arguments;
    let last = |flags: u64| if flags & 0x100 == 0 { Last::Followed } else { Last::Itself };
    match caller.call {
        libc::SYS_openat => files::open(caller, &caller.at(a, b)?, int(c), d as u32),
        libc::SYS_truncate => files::truncate(caller, &caller.at_cwd(a)?, b),
        libc::SYS_renameat => tree::rename(caller, &caller.at(a, b)?, &caller.at(c, d)?, 0),
        libc::SYS_renameat2 => tree::rename(caller, &caller.at(a, b)?, &caller.at(c, d)?, e as u32),
        libc::SYS_linkat => tree::link(caller, &caller.at(a, b)?, &caller.at(c, d)?, int(e)),
        libc::SYS_symlinkat => tree::symlink(caller, &caller.string(a)?, &caller.at(b, c)?),
        libc::SYS_mknodat => tree::make_node(caller, &caller.at(a, b)?, c as u32),
        libc::SYS_mkdirat => tree::make_dir(caller, &caller.at(a, b)?, c as u32),
        libc::SYS_unlinkat => tree::unlink(caller, &caller.at(a, b)?),
        libc::SYS_fchmod => meta::mode(caller, &caller.descriptor(a)?, b as u32),
        libc::SYS_fchmodat => meta::mode(caller, &caller.object(a, b, Last::Followed)?, c as u32),
        libc::SYS_fchmodat2 => meta::mode(caller, &caller.object_or_descriptor(a, b, d)?, c as u32),
        libc::SYS_fchown => meta::owner(caller, &caller.descriptor(a)?, b as u32, c as u32),
        libc::SYS_fchownat => meta::owner(caller, &caller.object_or_descriptor(a, b, e)?, c as u32, d as u32),
        libc::SYS_utimensat if b == 0 => meta::times(caller, &caller.descriptor(a)?, c),
        libc::SYS_utimensat => meta::times(caller, &caller.object_or_descriptor(a, b, d)?, c),
        libc::SYS_setxattr => meta::set_attribute(caller, &caller.object_at(a, last(0))?),
        libc::SYS_lsetxattr => meta::set_attribute(caller, &caller.object_at(a, Last::Itself)?),
        libc::SYS_fsetxattr => meta::set_attribute(caller, &caller.descriptor(a)?),
        libc::SYS_removexattr => meta::remove_attribute(caller, &caller.object_at(a, last(0))?),
        libc::SYS_lremovexattr => meta::remove_attribute(caller, &caller.object_at(a, Last::Itself)?),
        libc::SYS_fremovexattr => meta::remove_attribute(caller, &caller.descriptor(a)?),
        libc::SYS_socket => sockets::create(caller, int(a), int(b), int(c)),
        libc::SYS_connect => sockets::connect(caller, a, &caller.bytes(b, c, sockets::MAX_ADDRESS)?),
        libc::SYS_bind => sockets::bind(caller, a, &caller.bytes(b, c, sockets::MAX_ADDRESS)?),
        libc::SYS_listen => sockets::listen(caller, a, int(b)),
        call => processes::about_process(caller, call),
    }
}

#[cfg(target_arch = "x86_64")]
fn dispatch_legacy(caller: &Caller) -> Option<Result<Answer, Errno>> {
    const CREATE: i32 = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    let [a, b, c, ..] = caller.arguments;
    let one = |perform: &dyn Fn(&At) -> Result<Answer, Errno>| caller.at_cwd(a).and_then(|at| perform(&at));
    let two =
        |perform: &dyn Fn(&At, &At) -> Result<Answer, Errno>| perform(&caller.at_cwd(a)?, &caller.at_cwd(b)?);
    let object = |last| caller.object_at(a, last);
    let owner = |last| meta::owner(caller, &object(last)?, b as u32, c as u32);
    Some(match caller.call {
        libc::SYS_open => one(&|at| files::open(caller, at, int(b), c as u32)),
        libc::SYS_creat => one(&|at| files::open(caller, at, CREATE, b as u32)),
        libc::SYS_rename => two(&|from, to| tree::rename(caller, from, to, 0)),
        libc::SYS_link => two(&|from, to| tree::link(caller, from, to, 0)),
        libc::SYS_symlink => {
            caller.string(a).and_then(|text| tree::symlink(caller, &text, &caller.at_cwd(b)?))
        }
        libc::SYS_mknod => one(&|at| tree::make_node(caller, at, b as u32)),
        libc::SYS_mkdir => one(&|at| tree::make_dir(caller, at, b as u32)),
        libc::SYS_unlink => one(&|at| tree::unlink(caller, at)),
        libc::SYS_chmod => object(Last::Followed).and_then(|object| meta::mode(caller, &object, b as u32)),
        libc::SYS_chown => owner(Last::Followed),
        libc::SYS_lchown => owner(Last::Itself),
        libc::SYS_utime => object(Last::Followed).and_then(|object| meta::old_times(caller, &object, b, 0)),
        libc::SYS_utimes => {
            object(Last::Followed).and_then(|object| meta::old_times(caller, &object, b, 1000))
        }
        libc::SYS_futimesat if b == 0 => {
            caller.descriptor(a).and_then(|object| meta::old_times(caller, &object, c, 1000))
        }
        libc::SYS_futimesat => {
            caller.object(a, b, Last::Followed).and_then(|object| meta::old_times(caller, &object, c, 1000))
        }
        _ => return None,
    })
}

/// Reads a register as the C type `int`.
pub(super) fn int(register: u64) -> i32 {
    register as i32
}

impl Caller {
    /// Copies a string from the caller's memory.
    pub(super) fn string(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::with_capacity(256);
        while text.len() < MAX_PATH {
            let start = address.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            let mut part = [0; PAGE as usize];
            let len = usize::try_from(PAGE - start % PAGE).map_err(|_| Errno::FAULT)?;
            let count = self.read(start, &mut part[..len])?;
            let part = &part[..count];
            match part.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&part[..end]);
                    return self.check().map(|()| text);
                }
                None if count == 0 => return Err(Errno::FAULT),
                None => text.extend_from_slice(part),
            }
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Copies bytes from the caller's memory.
    pub(super) fn bytes(&self, address: u64, len: u64, max: usize) -> Result<Vec<u8>, Errno> {
        let len = usize::try_from(len & u64::from(u32::MAX)).map_err(|_| Errno::INVAL)?;
        if len > max {
            return Err(Errno::INVAL);
        }
        let mut bytes = vec![0; len];
        if len > 0 && self.read(address, &mut bytes)? != len {
            return Err(Errno::FAULT);
        }
        self.check().map(|()| bytes)
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        match sys::read_memory(self.thread, address, buffer) {
            Err(Errno::PERM | Errno::NOSYS) => {
                let path = format!("{}/mem", self.thread);
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let memory = openat(&self.gate.resolver.proc, path, flags, Mode::empty())?;
                rustix::io::pread(&memory, buffer, address).map_err(|_| Errno::FAULT)
            }
            result => result,
        }
    }

    /// Fails if the caller is gone, so that its thread id may be another's.
    pub(super) fn check(&self) -> Result<(), Errno> {
        let listener = self.gate.listener().ok_or(Errno::SRCH)?;
        if sys::is_waiting(listener, self.id) { Ok(()) } else { Err(Errno::SRCH) }
    }

    pub(super) fn at(&self, directory: u64, path: u64) -> Result<At, Errno> {
        Ok(At { directory: int(directory), path: self.string(path)? })
    }

    pub(super) fn at_cwd(&self, path: u64) -> Result<At, Errno> {
        Ok(At { directory: libc::AT_FDCWD, path: self.string(path)? })
    }

    fn object(&self, directory: u64, path: u64, last: Last) -> Result<super::resolve::Object, Errno> {
        self.gate.resolver.object(self.thread, &self.at(directory, path)?, last)
    }

    fn object_at(&self, path: u64, last: Last) -> Result<super::resolve::Object, Errno> {
        self.gate.resolver.object(self.thread, &self.at_cwd(path)?, last)
    }

    fn descriptor(&self, number: u64) -> Result<super::resolve::Object, Errno> {
        self.gate.resolver.descriptor(self.thread, int(number))
    }

    /// Resolves a path with flags; an empty one may mean the descriptor.
    fn object_or_descriptor(
        &self,
        directory: u64,
        path: u64,
        flags: u64,
    ) -> Result<super::resolve::Object, Errno> {
        let flags = int(flags);
        let at = self.at(directory, path)?;
        if at.path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            if at.directory == libc::AT_FDCWD {
                let at = At { path: b".".to_vec(), ..at };
                return self.gate.resolver.object(self.thread, &at, Last::Followed);
            }
            return self.gate.resolver.descriptor(self.thread, at.directory);
        }
        let last = if flags & libc::AT_SYMLINK_NOFOLLOW == 0 { Last::Followed } else { Last::Itself };
        self.gate.resolver.object(self.thread, &at, last)
    }

    /// Returns the permissions that a new file gets.
    pub(super) fn masked(&self, mode: u32) -> Result<Mode, Errno> {
        let umask = self.gate.resolver.status(self.thread)?.umask;
        Ok(Mode::from_raw_mode(mode & 0o1777 & !umask))
    }

    /// Performs a call that may block in a thread of its own.
    pub(super) fn later(
        &self,
        perform: impl FnMut(&Self) -> Result<Answer, Errno> + Send + 'static,
    ) -> Result<Answer, Errno> {
        let caller = Self { gate: Arc::clone(&self.gate), arguments: self.arguments, ..*self };
        let mut blocked = self.gate.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if blocked.len() >= MAX_BLOCKED {
            return Err(Errno::NFILE);
        }
        blocked.push((None, self.id));
        drop(blocked);
        let thread = std::thread::Builder::new().spawn(move || caller.perform_blocking(perform));
        thread.map(|_| Answer::Later).map_err(|_| {
            self.unblock();
            Errno::NOMEM
        })
    }

    fn unblock(&self) {
        let mut blocked = self.gate.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.retain(|(_, id)| *id != self.id);
    }

    fn perform_blocking(&self, mut perform: impl FnMut(&Self) -> Result<Answer, Errno>) {
        let Some(listener) = self.gate.listener() else { return };
        let mut blocked = self.gate.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        for (thread, _) in blocked.iter_mut().filter(|(_, id)| *id == self.id) {
            *thread = Some(gettid());
        }
        drop(blocked);
        let result = loop {
            match perform(self) {
                Err(Errno::INTR) if self.check().is_ok() => {}
                result => break result,
            }
        };
        self.unblock();
        self.send(listener, result);
    }

    fn send(&self, listener: BorrowedFd<'_>, result: Result<Answer, Errno>) {
        let reply = match result {
            Ok(Answer::Later) => return,
            Ok(Answer::Value(value)) => Reply::Value(value),
            Ok(Answer::Continue) => Reply::Continue,
            Ok(Answer::Give(fd, sharing)) => {
                let flags = sharing.close_on_exec;
                let number = sys::add_descriptor(listener, self.id, fd.as_fd(), None, flags, sharing.then);
                // The file must be closed here before the caller continues: it may execute what it wrote.
                drop(fd);
                match number {
                    Ok(_) if sharing.then == Then::Answer => return,
                    number => number.map_or_else(|error| self.full(error), Reply::Value),
                }
            }
            Ok(Answer::Replace(fd, number)) => {
                let flags = rustix::io::FdFlags::empty().bits();
                let added =
                    sys::add_descriptor(listener, self.id, fd.as_fd(), Some(number), flags, Then::Wait);
                added.map_or_else(|error| self.full(error), |_| Reply::Value(0))
            }
            Err(error) => Reply::Error(error),
        };
        // An error means that the caller is gone.
        let _ = sys::reply(listener, self.id, reply);
    }

    fn full(&self, error: Errno) -> Reply {
        if error == Errno::MFILE {
            self.gate.set_reached(crate::report::Limit::OpenFiles);
        }
        Reply::Error(error)
    }
}
