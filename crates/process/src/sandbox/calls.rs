//! The seccomp filter: blocks sockets that are not allowed, ways around Landlock, and access to other processes.

use std::collections::BTreeMap;

use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::{NetworkAccess, SandboxError};

/// Calls that no command needs and that reach beyond the sandbox: rings that bypass the filter, other processes'
/// memory, kernel keys and programs, devices, and file systems.
const DENIED: [i64; 26] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_quotactl,
];

/// Ioctl requests that inject input into a terminal.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541c];

/// The bit that marks x32 system calls, which are otherwise the same.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Capabilities that root retains. The others concern the machine, not files.
const RETAINED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Builds the filter.
pub(super) fn filter(reach: NetworkAccess) -> Result<BpfProgram, SandboxError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets(reach)?);
    let requests = TERMINAL_INPUT.iter().map(|request| rule(&[(1, SeccompCmpOp::Eq, *request)]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    #[cfg(target_arch = "x86_64")]
    {
        let twins: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        rules.extend(twins);
    }
    let refuse = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let target = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, target)?;
    Ok(BpfProgram::try_from(filter)?)
}

/// Returns the rules under which creating a socket is rejected; an empty list means always.
fn sockets(reach: NetworkAccess) -> Result<Vec<SeccompRule>, SandboxError> {
    match reach {
        NetworkAccess::Nobody => Ok(Vec::new()),
        // Netlink provides the addresses of this machine.
        NetworkAccess::Internet => Ok(vec![rule(&[
            (0, SeccompCmpOp::Ne, libc::AF_INET.unsigned_abs().into()),
            (0, SeccompCmpOp::Ne, libc::AF_INET6.unsigned_abs().into()),
            (0, SeccompCmpOp::Ne, libc::AF_NETLINK.unsigned_abs().into()),
        ])?]),
    }
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, SandboxError> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    Ok(SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)?)
}

/// Drops root's capabilities over the machine permanently. Other users have none of them.
pub(super) fn drop_capabilities() {
    for capability in CapabilitySet::all().difference(RETAINED) {
        let _ = remove_capability_from_bounding_set(capability);
    }
}
