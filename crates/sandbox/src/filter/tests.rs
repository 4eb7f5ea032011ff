use super::*;

/// Runs a filter as the kernel does.
fn run(code: &[Instruction], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let (mut at, mut value) = (0, 0_u32);
    loop {
        let now = code[at];
        at += 1;
        match now.code {
            LOAD if now.k == ARCH_OFFSET => value = arch,
            LOAD if now.k == NUMBER_OFFSET => value = number,
            LOAD => {
                let index = (0..6).find(|index| argument_offset(*index) == now.k).unwrap();
                value = arguments[usize::from(index)] as u32;
            }
            AND => value &= now.k,
            JUMP_EQUAL => at += usize::from(if value == now.k { now.jt } else { now.jf }),
            JUMP_AT_LEAST => at += usize::from(if value >= now.k { now.jt } else { now.jf }),
            RETURN => return now.k,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

const CLOSED: Needs = Needs { processes: Processes::Own, internet: Internet::Asked };
const SHARED_IDS: Needs = Needs { processes: Processes::Shared, internet: Internet::Refused };
const OPEN: Needs = Needs { processes: Processes::Own, internet: Internet::Open };

fn decide(needs: Needs, call: c_long, arguments: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    run(&build(needs), ARCH, u32::try_from(call).unwrap(), all)
}

#[test]
fn calls_are_decided_by_their_registers() {
    let (create, tmpfile) = (libc::O_CREAT as u64, libc::O_TMPFILE as u64);
    let (path, dir) = (libc::O_PATH as u64, libc::O_DIRECTORY as u64);
    let (deny, ask) = (Action::Deny(EACCES), Action::Ask);
    let cases: &[(Needs, c_long, &[u64], Action)] = &[
        (CLOSED, libc::SYS_read, &[], Action::Allow),
        (CLOSED, libc::SYS_openat, &[0, 0, 0], ask),
        (CLOSED, libc::SYS_openat, &[0, 0, path], Action::Allow),
        (CLOSED, libc::SYS_openat, &[0, 0, dir], Action::Allow),
        (CLOSED, libc::SYS_openat, &[0, 0, tmpfile], ask),
        (CLOSED, libc::SYS_openat, &[0, 0, dir | create], ask),
        (CLOSED, libc::SYS_openat, &[0, 0, 1 << 40], ask),
        (CLOSED, libc::SYS_openat2, &[], Action::Deny(ENOSYS)),
        (CLOSED, libc::SYS_clone3, &[], Action::Deny(ENOSYS)),
        (CLOSED, libc::SYS_socket, &[1, 1, 0], Action::Allow),
        (CLOSED, libc::SYS_socket, &[1, 5 | 0x80000, 0], Action::Allow),
        (CLOSED, libc::SYS_socket, &[1, 2, 0], deny),
        (CLOSED, libc::SYS_socket, &[1, 3, 0], deny),
        (CLOSED, libc::SYS_socket, &[1, 2 | 0x80800, 0], deny),
        (CLOSED, libc::SYS_socket, &[2, 2, 0], ask),
        (CLOSED, libc::SYS_socket, &[10, 1, 0], ask),
        (CLOSED, libc::SYS_socket, &[16, 3, 0], deny),
        (CLOSED, libc::SYS_socket, &[40, 1, 0], deny),
        (SHARED_IDS, libc::SYS_socket, &[2, 1, 0], deny),
        (OPEN, libc::SYS_socket, &[2, 1, 0], Action::Allow),
        (OPEN, libc::SYS_socket, &[17, 3, 0], deny),
        (OPEN, libc::SYS_socket, &[17, 1, 0], deny),
        (CLOSED, libc::SYS_socketpair, &[1, 1, 0], Action::Allow),
        (CLOSED, libc::SYS_socketpair, &[1, 2, 0], deny),
        (CLOSED, libc::SYS_socketpair, &[1, 3, 0], deny),
        (CLOSED, libc::SYS_socketpair, &[30, 5, 0], deny),
        (CLOSED, libc::SYS_fcntl, &[0, 8, 7], Action::Allow),
        (SHARED_IDS, libc::SYS_fcntl, &[0, 8, 7], Action::Deny(EPERM)),
        (SHARED_IDS, libc::SYS_fcntl, &[0, 1], Action::Allow),
        (CLOSED, libc::SYS_sendto, &[0, 0, 0, 0x2000_0000], deny),
        (CLOSED, libc::SYS_sendto, &[0, 0, 0, 0x4000], Action::Allow),
        (CLOSED, libc::SYS_unshare, &[0x1000_0000], Action::Deny(EPERM)),
        (CLOSED, libc::SYS_unshare, &[0x400], Action::Allow),
        (CLOSED, libc::SYS_clone, &[0x2000_0011], Action::Deny(EPERM)),
        (CLOSED, libc::SYS_clone, &[0x11], Action::Allow),
        (SHARED_IDS, libc::SYS_clone, &[0x11], Action::Allow),
        (SHARED_IDS, libc::SYS_clone, &[0x1001_0011], Action::Deny(EPERM)),
        (CLOSED, libc::SYS_unlinkat, &[0, 0, 0], ask),
        (CLOSED, libc::SYS_unlinkat, &[0, 0, 0x200], Action::Allow),
        (CLOSED, libc::SYS_ioctl, &[0, 0x5412], deny),
        (CLOSED, libc::SYS_ioctl, &[0, 0x4008_6602], deny),
        (CLOSED, libc::SYS_ioctl, &[0, 0x5401], Action::Allow),
        (CLOSED, libc::SYS_ioctl, &[0, 0x541b], Action::Allow),
        (CLOSED, libc::SYS_ioctl, &[0, 0x5000_940e], deny),
        (CLOSED, libc::SYS_ioctl, &[0, 0x4004_9409], Action::Allow),
        (CLOSED, libc::SYS_ioctl, &[0, 0x8008_6601], Action::Allow),
        (CLOSED, libc::SYS_ioctl, &[0, 0xffff_ffff_4080_6685], deny),
        (CLOSED, libc::SYS_ioctl, &[0, 0x401c_5820], deny),
        (CLOSED, libc::SYS_ioctl, &[0, 0x801c_581f], Action::Allow),
        (CLOSED, libc::SYS_ioctl, &[0, 0x4004_7211], deny),
        (CLOSED, libc::SYS_ioctl, &[0, 0x4008_7602], deny),
        (CLOSED, libc::SYS_ioctl, &[0, 0xc018_fd01], Action::Allow),
        (CLOSED, libc::SYS_listen, &[3, 1], ask),
        (OPEN, libc::SYS_listen, &[3, 1], Action::Allow),
        (SHARED_IDS, libc::SYS_msgsnd, &[], deny),
        (SHARED_IDS, libc::SYS_msgrcv, &[], deny),
        (SHARED_IDS, libc::SYS_semctl, &[], deny),
        (CLOSED, libc::SYS_kill, &[7], Action::Allow),
        (SHARED_IDS, libc::SYS_kill, &[7], ask),
        (SHARED_IDS, libc::SYS_kill, &[u64::MAX], ask),
        (SHARED_IDS, libc::SYS_prlimit64, &[0], Action::Allow),
        (SHARED_IDS, libc::SYS_setpriority, &[2, 0], Action::Deny(EPERM)),
        (SHARED_IDS, libc::SYS_setpriority, &[0, 0], Action::Allow),
        (SHARED_IDS, libc::SYS_setpriority, &[0, 9], ask),
        (SHARED_IDS, libc::SYS_shmget, &[], deny),
        (CLOSED, libc::SYS_shmget, &[], Action::Allow),
    ];
    for (needs, call, arguments, action) in cases {
        let result = decide(*needs, *call, arguments);
        assert_eq!(result, end(*action).k, "call {call} with {arguments:x?} under {needs:?}");
    }
}

#[test]
fn every_refused_and_asked_call_is_decided() {
    for needs in [CLOSED, SHARED_IDS, OPEN] {
        for call in REFUSED {
            assert_eq!(decide(needs, call, &[]), end(Action::Deny(EPERM)).k, "call {call}");
        }
        for call in ASKED.iter().chain(ASKED_LEGACY) {
            assert_eq!(decide(needs, *call, &[]), end(Action::Ask).k, "call {call}");
        }
    }
}

#[test]
fn other_architectures_end_and_newer_calls_are_unknown() {
    let code = build(CLOSED);
    assert_eq!(run(&code, 0x4000_0003, 5, [0; 6]), end(Action::Kill).k);
    for number in [0x4000_0000 | libc::SYS_openat as u32, 470, 471, u32::MAX] {
        assert_eq!(run(&code, ARCH, number, [0; 6]), end(Action::Deny(ENOSYS)).k);
    }
}

#[test]
fn every_block_fits_a_jump() {
    for needs in [CLOSED, SHARED_IDS, OPEN] {
        assert!(rules(needs).iter().all(|rule| block(&rule.cases).len() <= usize::from(u8::MAX)));
        assert!(build(needs).len() <= 4096);
    }
}
