//! A kernel that can do less than the one the tests run on: some of its calls are answered as if they were not there.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// What a kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// Rules about files.
    Landlock,
    /// Filters of system calls.
    Seccomp,
    /// A view of the file system for each process.
    Namespaces,
}

/// Does something in a thread that sees such a kernel, as does everything that it starts.
pub fn on_lesser_kernel<T: Send>(lacking: Lacking, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            seccompiler::apply_filter(&filter(lacking)).expect("a filter can be applied");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn filter(lacking: Lacking) -> BpfProgram {
    let (calls, errno) = match lacking {
        Lacking::Landlock => (vec![(libc::SYS_landlock_create_ruleset, Vec::new())], libc::ENOSYS),
        Lacking::Namespaces => (vec![(libc::SYS_unshare, Vec::new())], libc::EPERM),
        Lacking::Seccomp => (vec![(libc::SYS_prctl, vec![first_is(libc::PR_GET_SECCOMP)])], libc::EINVAL),
    };
    let rules: BTreeMap<_, _> = calls.into_iter().collect();
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let target = std::env::consts::ARCH.try_into().expect("the processor is known");
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, target).expect("the filter is right");
    BpfProgram::try_from(filter).expect("the filter can be written")
}

fn first_is(value: i32) -> SeccompRule {
    let value = u64::from(value.unsigned_abs());
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    SeccompRule::new(vec![condition.expect("the condition is right")]).expect("the rule is right")
}
