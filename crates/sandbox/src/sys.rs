//! The system calls that no safe library offers. All unsafe code of the crate is here.
//!
//! Functions that run after a fork allocate nothing and take no locks.
#![expect(unsafe_code, reason = "seccomp notifications, fork, and exec have no safe interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong};
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities};

/// A notification of a system call, and the answers to it.
pub(crate) use libc::{seccomp_data, seccomp_notif as Notification};

/// One instruction of a filter.
pub(crate) type Instruction = libc::sock_filter;

fn check(result: c_long) -> Result<c_long, Errno> {
    if result >= 0 { Ok(result) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    // SAFETY: the location is valid for the calling thread.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

fn owned(result: c_long) -> Result<OwnedFd, Errno> {
    let fd = check(result)?;
    // SAFETY: the kernel just returned this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(c_int::try_from(fd).map_err(|_| Errno::BADF)?) })
}

/// Process id after a fork: `None` in the child. A child of a process with threads must only make system calls.
pub(crate) fn fork() -> Result<Option<rustix::process::Pid>, Errno> {
    // SAFETY: callers keep to raw system calls in the child until it executes a program or exits.
    let pid = check(c_long::from(unsafe { libc::fork() }))?;
    Ok(c_int::try_from(pid).ok().and_then(rustix::process::Pid::from_raw))
}

/// Kills every process that this thread may signal, except its own. Call it only if that is the program.
pub(crate) fn kill_all_reachable() {
    // SAFETY: it takes numbers only.
    let _ = unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Ends this process without running any handler.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// Null-terminated arguments of `execve`, allocated before a fork.
pub(crate) struct Strings {
    pointers: Vec<*const c_char>,
    _owned: Vec<CString>,
}

impl Strings {
    /// Prepares the strings.
    pub(crate) fn new(owned: Vec<CString>) -> Self {
        let pointers = owned.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Self { pointers, _owned: owned }
    }
}

/// Executes a program; returns only if that fails.
pub(crate) fn execute(path: &CStr, arguments: &Strings, environment: &Strings) -> Errno {
    // SAFETY: both arrays end with a null pointer, and their strings live as long as they do.
    unsafe { libc::execve(path.as_ptr(), arguments.pointers.as_ptr(), environment.pointers.as_ptr()) };
    last_error()
}

/// Moves this thread into new namespaces.
pub(crate) fn unshare(what: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the flags never include the table of open files, which other threads may use.
    unsafe { rustix::thread::unshare_unsafe(what.difference(UnshareFlags::FILES)) }
}

/// Sets the disposition of every signal to its default, and blocks none: both outlive the execution of a program.
pub(crate) fn reset_signals() -> Result<(), Errno> {
    // SAFETY: all-zero is the default disposition, and an empty set; signals that cannot be changed give an error.
    unsafe {
        let action: libc::sigaction = zeroed();
        for signal in 1..=libc::SIGRTMAX() {
            let _ = libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        let none: libc::sigset_t = zeroed();
        check(c_long::from(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())))
            .map(drop)
    }
}

/// Gives up all capabilities of this thread.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Closes, or marks as close-on-exec, all descriptors from `first` on.
pub(crate) fn close_from(first: u32, closing: Closing) -> Result<(), Errno> {
    let flags = if closing == Closing::OnExec { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: with `Now`, the caller is at the start of its program and owns no descriptor yet.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Time of closing descriptors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    Now,
    OnExec,
}

/// Turns a mount and those below it read-only and private.
pub(crate) fn make_read_only(path: &CStr) -> Result<(), Errno> {
    const RDONLY_NOSUID: u64 = 1 | 2;
    let attributes = [RDONLY_NOSUID, 0, libc::MS_PRIVATE, 0];
    // SAFETY: the array has the layout of `mount_attr`: set, clear, propagation, namespace.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    })
    .map(drop)
}

/// Restricts this thread, and what it starts, by Landlock rules.
pub(crate) fn restrict(rules: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: it only takes a descriptor.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) }).map(drop)
}

/// Installs a filter, and returns the descriptor on which it asks.
pub(crate) fn install_filter(filter: &[Instruction]) -> Result<OwnedFd, Errno> {
    let len = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program points to `len` instructions, which the kernel only reads.
    owned(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    })
}

fn ioctl<T>(fd: BorrowedFd<'_>, request: c_ulong, argument: *mut T) -> Result<c_long, Errno> {
    // SAFETY: each caller passes the type that belongs to the request.
    check(c_long::from(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) }))
}

/// Answers notifications on the processor that asks, if the kernel can do that.
pub(crate) fn answer_on_same_processor(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: c_ulong = 1;
    // SAFETY: this request takes a number instead of a pointer.
    let _ =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as _, SYNC_WAKE_UP) };
}

/// Waits for a system call.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Result<Notification, Errno> {
    // SAFETY: all-zero is valid, and the kernel requires it.
    let mut notification: Notification = unsafe { zeroed() };
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV as c_ulong, &raw mut notification)?;
    Ok(notification)
}

/// Answer to a system call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Value(i64),
    Error(Errno),
    Continue,
}

/// Answers a system call.
pub(crate) fn reply(listener: BorrowedFd<'_>, id: u64, reply: Reply) -> Result<(), Errno> {
    let (val, error, flags) = match reply {
        Reply::Value(value) => (value, 0, 0),
        Reply::Error(error) => (0, -error.raw_os_error(), 0),
        Reply::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
    };
    let mut response = libc::seccomp_notif_resp { id, val, error, flags };
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND as c_ulong, &raw mut response).map(drop)
}

/// Returns `true` if the caller still waits for its answer; if so, its thread id was not reused.
pub(crate) fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    let mut id = id;
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID as c_ulong, &raw mut id).is_ok()
}

/// Puts a copy of a descriptor into the caller's table, at `at` or the lowest free number, and returns the number.
pub(crate) fn add_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    at: Option<u32>,
    flags: u32,
    then: Then,
) -> Result<i64, Errno> {
    let at_number = if at.is_some() { libc::SECCOMP_ADDFD_FLAG_SETFD as u32 } else { 0 };
    let answering = if then == Then::Answer { libc::SECCOMP_ADDFD_FLAG_SEND as u32 } else { 0 };
    let mut addition = libc::seccomp_notif_addfd {
        id,
        flags: at_number | answering,
        srcfd: fd.as_raw_fd().unsigned_abs(),
        newfd: at.unwrap_or(0),
        newfd_flags: flags,
    };
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD as c_ulong, &raw mut addition)
}

/// Action after a descriptor is in the caller's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The caller waits for an answer.
    Wait,
    /// Its number is the answer.
    Answer,
}

/// Reads memory of another process, and returns the number of bytes.
pub(crate) fn read_memory(pid: i32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: buffer.len() };
    // SAFETY: the kernel writes at most `buffer.len()` bytes to the buffer.
    let read = check(
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) } as c_long
    )?;
    usize::try_from(read).map_err(|_| Errno::FAULT)
}

/// Connects or binds a socket to an address that was read from a caller.
pub(crate) fn use_address(socket: BorrowedFd<'_>, usage: AddressUse, address: &[u8]) -> Result<(), Errno> {
    let call = if usage == AddressUse::Connect { libc::SYS_connect } else { libc::SYS_bind };
    // SAFETY: the kernel reads `address.len()` bytes.
    check(unsafe { libc::syscall(call, socket.as_raw_fd(), address.as_ptr(), address.len()) }).map(drop)
}

/// Use of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressUse {
    Connect,
    Bind,
}

/// Creates a socket from the raw arguments of the call.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: it takes numbers only.
    owned(c_long::from(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) }))
}

/// Returns the number of a socket's network namespace, which no other one ever has.
pub(crate) fn network_of(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    const SO_NETNS_COOKIE: c_int = 71;
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the number.
    check(c_long::from(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    }))?;
    Ok(cookie)
}

/// Switches on the loopback interface of this thread's network namespace.
pub(crate) fn enable_loopback() -> Result<(), Errno> {
    let control = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: all-zero is a valid request.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the request is an `ifreq`.
    check(c_long::from(unsafe {
        libc::ioctl(control.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request)
    }))
    .map(drop)
}

/// Lets [`interrupt`] end a blocking call of a thread with an error.
pub(crate) fn allow_interrupts() -> Result<(), Errno> {
    extern "C" fn ignore(_: c_int) {}
    // SAFETY: all-zero is valid; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = ignore as extern "C" fn(c_int) as usize;
        check(c_long::from(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()))).map(drop)
    }
}

/// Interrupts a blocking call of a thread of this process.
pub(crate) fn interrupt(thread: rustix::process::Pid) {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: it takes numbers only, and the signal has a handler.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, process, thread.as_raw_nonzero().get(), libc::SIGUSR1) };
}

/// Offset of the system call number in what a filter reads.
pub(crate) const NUMBER_OFFSET: u32 = offset_of!(seccomp_data, nr) as u32;
/// Offset of the architecture.
pub(crate) const ARCH_OFFSET: u32 = offset_of!(seccomp_data, arch) as u32;

/// Offset of the low half of an argument.
pub(crate) const fn argument_offset(index: u8) -> u32 {
    let low = if cfg!(target_endian = "little") { 0 } else { size_of::<u32>() };
    (offset_of!(seccomp_data, args) + index as usize * size_of::<u64>() + low) as u32
}
