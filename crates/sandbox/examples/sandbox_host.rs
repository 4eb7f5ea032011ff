//! A program that can be the helper of sandboxed programs, for the tests of this crate.
//!
//! `sandbox_host without MECHANISM …` does the same on a system that lacks a mechanism.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = linux::run() {
        return code;
    }
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
mod linux {
    use std::process::ExitCode;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    pub(super) fn run() -> Option<ExitCode> {
        let mut arguments: Vec<_> = std::env::args_os().collect();
        if arguments.get(1).is_some_and(|first| first == "without") {
            refuse_calls(arguments.get(2)?.to_str()?)?;
            arguments.drain(1..3);
        }
        meerkat_sandbox::run_helper(arguments)
    }

    /// Makes calls fail as they do where a mechanism is missing.
    fn refuse_calls(mechanism: &str) -> Option<()> {
        let (calls, error): (&[i64], _) = match mechanism {
            "namespaces" => {
                (&[libc::SYS_unshare, libc::SYS_mount, libc::SYS_setns, libc::SYS_open_tree], libc::EPERM)
            }
            "landlock" => {
                (&[libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self], libc::ENOSYS)
            }
            "notifications" => (&[libc::SYS_seccomp], libc::EINVAL),
            "memory" => (&[libc::SYS_process_vm_readv], libc::EPERM),
            "descriptors" => (&[libc::SYS_pidfd_getfd], libc::EPERM),
            _ => return None,
        };
        let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
        let refuse = SeccompAction::Errno(error.unsigned_abs());
        let target = std::env::consts::ARCH.try_into().ok()?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, target).ok()?;
        seccompiler::apply_filter(&BpfProgram::try_from(filter).ok()?).ok()
    }
}
