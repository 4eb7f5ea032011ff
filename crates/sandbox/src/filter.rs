//! The filter of system calls: a table of rules, compiled to the kernel's machine.
//!
//! A rule decides by register values only. Calls whose meaning is in memory are asked to the gate. Calls that no rule
//! names are allowed; the kernel remembers those and does not run the filter for them.

use libc::{EACCES, ENOSYS, EPERM, c_long};

use crate::sys::{ARCH_OFFSET, Instruction, NUMBER_OFFSET, argument_offset};

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Allow,
    /// The gate answers.
    Ask,
    Deny(i32),
    Kill,
}

/// A condition on the low 32 bits of an argument.
#[derive(Debug, Clone, Copy)]
struct Check {
    argument: u8,
    mask: u32,
    value: u32,
}

/// Rules of one call: the first whose check holds decides.
struct Rule {
    call: c_long,
    cases: Vec<(Option<Check>, Action)>,
}

/// Mechanisms that a filter does not have to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Visibility of processes of others.
    pub(crate) processes: Processes,
    /// Sockets of internet protocols.
    pub(crate) internet: Internet,
}

/// Reachable processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processes {
    /// Only those of the program: it has a process namespace.
    Own,
    /// Those of the user: the gate decides about each access.
    Shared,
}

/// Sockets of internet protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Internet {
    Open,
    Asked,
    Refused,
}

const KIND_OF_SOCKET: u32 = 0xf;
const STREAM: u32 = 1;
const SEQPACKET: u32 = 5;
const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;
const FAST_OPEN: u32 = 0x2000_0000;

/// Flags of new namespaces.
const NAMESPACES: u32 = 0x7e02_0080;

/// Calls that no program needs and that reach beyond the sandbox: rings that bypass the filter, memory of other
/// processes, kernel keys and programs, mounts, namespaces, handles, and the machine.
const REFUSED: [c_long; 52] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

// Newer calls have one number on all architectures; the library does not name them yet.
const OPEN_TREE_ATTR: c_long = 467;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;

/// Requests that type into a terminal or take it over, or name a process that gets signals.
const REFUSED_REQUESTS: [u32; 5] = [0x5412, 0x541c, 0x541d, 0x8901, 0x8902];

/// Types of requests that change attributes of files that are open for reading, or whole file systems: those of the
/// file systems Btrfs, Ceph, CIFS, F2FS, FAT, NILFS, and XFS, and of all (`f`, `v`, `X`).
const REFUSED_TYPES: [u32; 9] = [0x94, 0x97, 0xcf, 0xf5, 0x72, 0x6e, 0x58, 0x66, 0x76];

/// Requests of these types that read attributes, or copy to a file that is open for writing.
const ALLOWED_REQUESTS: [u32; 8] =
    [0x8008_6601, 0x8004_6601, 0x8008_7601, 0x8004_7601, 0x801c_581f, 0xc020_660b, 0x4004_9409, 0x4020_940d];

/// Commands of `fcntl` that name a process that gets signals.
const OWNER_COMMANDS: [u32; 2] = [8, 15];

/// Calls that the gate always answers.
const ASKED: [c_long; 21] = [
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mknodat,
    libc::SYS_mkdirat,
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_connect,
    libc::SYS_bind,
];

/// Calls of the same purpose that only this architecture has.
#[cfg(target_arch = "x86_64")]
const ASKED_LEGACY: &[c_long] = &[
    libc::SYS_creat,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mknod,
    libc::SYS_mkdir,
    libc::SYS_unlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const ASKED_LEGACY: &[c_long] = &[];

/// Calls whose argument `.1` is a process, which the gate compares with those of the program.
pub(crate) const ABOUT_PROCESS: [(c_long, u8); 13] = [
    (libc::SYS_kill, 0),
    (libc::SYS_tkill, 0),
    (libc::SYS_tgkill, 0),
    (libc::SYS_rt_sigqueueinfo, 0),
    (libc::SYS_rt_tgsigqueueinfo, 0),
    (libc::SYS_pidfd_open, 0),
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Shared memory and queues that are not files.
const SHARED: [c_long; 14] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

fn always(call: c_long, action: Action) -> Rule {
    Rule { call, cases: vec![(None, action)] }
}

fn when(argument: u8, mask: u32, value: u32, action: Action) -> (Option<Check>, Action) {
    (Some(Check { argument, mask, value }), action)
}

/// Returns the table.
fn rules(needs: Needs) -> Vec<Rule> {
    let mut rules: Vec<_> = REFUSED.iter().map(|call| always(*call, Action::Deny(EPERM))).collect();
    rules.extend(ASKED.iter().chain(ASKED_LEGACY).map(|call| always(*call, Action::Ask)));
    // Programs fall back to calls whose arguments are in registers.
    rules.extend([libc::SYS_openat2, libc::SYS_clone3].map(|call| always(call, Action::Deny(ENOSYS))));
    rules.push(Rule { call: libc::SYS_openat, cases: opening(2) });
    rules.push(Rule {
        call: libc::SYS_unlinkat,
        cases: vec![
            when(2, libc::AT_REMOVEDIR as u32, libc::AT_REMOVEDIR as u32, Action::Allow),
            (None, Action::Ask),
        ],
    });
    rules.push(Rule { call: libc::SYS_ioctl, cases: requests() });
    rules.push(refuse_flags(libc::SYS_unshare, NAMESPACES));
    // Forks are not asked: a signal while the gate is about to receive would make them fail, which no program expects.
    rules.push(refuse_flags(libc::SYS_clone, NAMESPACES));
    rules.extend(sockets(needs.internet));
    #[cfg(target_arch = "x86_64")]
    rules.push(Rule { call: libc::SYS_open, cases: opening(1) });
    if needs.processes == Processes::Shared {
        rules.extend(shared_processes());
    }
    rules
}

fn requests() -> Vec<(Option<Check>, Action)> {
    /// The part of a request that is its type.
    const TYPE: u32 = 0xff00;
    let refused = REFUSED_REQUESTS.map(|request| when(1, u32::MAX, request, Action::Deny(EACCES)));
    let allowed = ALLOWED_REQUESTS.map(|request| when(1, u32::MAX, request, Action::Allow));
    let types = REFUSED_TYPES.map(|kind| when(1, TYPE, kind << 8, Action::Deny(EACCES)));
    refused.into_iter().chain(allowed).chain(types).collect()
}

/// Refuses a call if one of these flags of its first argument is set.
fn refuse_flags(call: c_long, flags: u32) -> Rule {
    let bits = (0..u32::BITS).map(|bit| 1 << bit).filter(|bit| flags & bit != 0);
    let refused = bits.map(|bit| when(0, bit, bit, Action::Deny(EPERM)));
    Rule { call, cases: refused.collect() }
}

/// Opening without access to content needs no gate: a path only, or the entries of a directory.
fn opening(flags: u8) -> Vec<(Option<Check>, Action)> {
    let directory = libc::O_DIRECTORY as u32;
    let creating = (libc::O_CREAT | libc::O_TMPFILE) as u32;
    vec![
        when(flags, libc::O_PATH as u32, libc::O_PATH as u32, Action::Allow),
        when(flags, directory | creating, directory, Action::Allow),
        (None, Action::Ask),
    ]
}

fn sockets(internet: Internet) -> Vec<Rule> {
    let action = match internet {
        Internet::Open => Action::Allow,
        Internet::Asked => Action::Ask,
        Internet::Refused => Action::Deny(EACCES),
    };
    let netlink = if internet == Internet::Open { Action::Allow } else { Action::Deny(EACCES) };
    // The domain decides first; datagrams could name a receiver with every message, so Unix sockets have a connection.
    let mut socket = [INET, INET6].map(|domain| when(0, u32::MAX, domain, action)).to_vec();
    socket.push(when(0, u32::MAX, NETLINK, netlink));
    let mut cases = socket;
    cases.extend(
        (0..=KIND_OF_SOCKET)
            .filter(|kind| ![STREAM, SEQPACKET].contains(kind))
            .map(|kind| when(1, KIND_OF_SOCKET, kind, Action::Deny(EACCES))),
    );
    cases.push(when(0, u32::MAX, UNIX, Action::Allow));
    cases.push((None, Action::Deny(EACCES)));
    // A pair is of no internet protocol.
    let pair = cases.iter().skip(3).copied().collect();
    let mut rules =
        vec![Rule { call: libc::SYS_socket, cases }, Rule { call: libc::SYS_socketpair, cases: pair }];
    if internet != Internet::Open {
        // A connection to a granted port could turn into a listener.
        rules.push(always(libc::SYS_listen, Action::Ask));
        // A connection could be made by sending.
        let sends = [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];
        rules.extend(sends.map(|(call, flags)| Rule {
            call,
            cases: vec![when(flags, FAST_OPEN, FAST_OPEN, Action::Deny(EACCES))],
        }));
    }
    rules
}

/// Rules for a program that shares its process ids with others.
fn shared_processes() -> Vec<Rule> {
    let mut rules: Vec<_> = SHARED.iter().map(|call| always(*call, Action::Deny(EACCES))).collect();
    rules.extend(ABOUT_PROCESS.iter().map(|(call, argument)| Rule {
        call: *call,
        // Zero is the caller itself, or its own group.
        cases: vec![when(*argument, u32::MAX, 0, Action::Allow), (None, Action::Ask)],
    }));
    for rule in
        rules.iter_mut().filter(|rule| [libc::SYS_setpriority, libc::SYS_ioprio_set].contains(&rule.call))
    {
        // These also take all processes of a user.
        let user = if rule.call == libc::SYS_setpriority { 2 } else { 3 };
        rule.cases.insert(0, when(0, u32::MAX, user, Action::Deny(EPERM)));
    }
    rules.push(always(libc::SYS_pidfd_send_signal, Action::Deny(ENOSYS)));
    let owners = OWNER_COMMANDS.map(|command| when(1, u32::MAX, command, Action::Deny(EPERM)));
    rules.push(Rule { call: libc::SYS_fcntl, cases: owners.to_vec() });
    rules
}

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
/// Numbers from here on are calls that no rule knows, and those of the x32 architecture.
const UNKNOWN: u32 = FILE_SETATTR as u32 + 1;

// Codes of the kernel's machine.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

fn step(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn end(action: Action) -> Instruction {
    let value = match action {
        Action::Allow => libc::SECCOMP_RET_ALLOW,
        Action::Ask => libc::SECCOMP_RET_USER_NOTIF,
        Action::Deny(error) => libc::SECCOMP_RET_ERRNO | error.unsigned_abs(),
        Action::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    step(RETURN, value, 0, 0)
}

/// Compiles the filter.
pub(crate) fn build(needs: Needs) -> Vec<Instruction> {
    let mut code = vec![
        step(LOAD, ARCH_OFFSET, 0, 0),
        step(JUMP_EQUAL, ARCH, 1, 0),
        end(Action::Kill),
        step(LOAD, NUMBER_OFFSET, 0, 0),
        step(JUMP_AT_LEAST, UNKNOWN, 0, 1),
        end(Action::Deny(ENOSYS)),
    ];
    for rule in rules(needs) {
        let block = block(&rule.cases);
        let over = u8::try_from(block.len()).unwrap_or(u8::MAX);
        code.push(step(JUMP_EQUAL, u32::try_from(rule.call).unwrap_or(u32::MAX), 0, over));
        code.extend(block);
    }
    code.push(end(Action::Allow));
    code
}

/// Compiles the cases of a call; every way through ends with a decision.
fn block(cases: &[(Option<Check>, Action)]) -> Vec<Instruction> {
    let mut code = Vec::new();
    for (check, action) in cases {
        if let Some(check) = check {
            code.push(step(LOAD, argument_offset(check.argument), 0, 0));
            if check.mask != u32::MAX {
                code.push(step(AND, check.mask, 0, 0));
            }
            code.push(step(JUMP_EQUAL, check.value, 0, 1));
        }
        code.push(end(*action));
    }
    if cases.last().is_none_or(|(check, _)| check.is_some()) {
        code.push(end(Action::Allow));
    }
    code
}

#[cfg(test)]
mod tests;
