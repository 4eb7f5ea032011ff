//! A kernel with fewer features than the one the tests run on: some system calls fail as if they did not exist.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// A missing kernel feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFeature {
    /// File access rules.
    Landlock,
    /// System call filters.
    Seccomp,
    /// A separate view of the file system for each process.
    Namespaces,
}

/// Runs a closure in a thread that sees such a kernel, as do all processes it starts.
pub fn with_restricted_kernel<T: Send>(lacking: MissingFeature, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            seccompiler::apply_filter(&filter(lacking)).expect("a filter can be applied");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn filter(lacking: MissingFeature) -> BpfProgram {
    let (calls, errno) = match lacking {
        MissingFeature::Landlock => (vec![(libc::SYS_landlock_create_ruleset, Vec::new())], libc::ENOSYS),
        MissingFeature::Namespaces => (vec![(libc::SYS_unshare, Vec::new())], libc::EPERM),
        MissingFeature::Seccomp => {
            (vec![(libc::SYS_prctl, vec![first_is(libc::PR_GET_SECCOMP)])], libc::EINVAL)
        }
    };
    let rules: BTreeMap<_, _> = calls.into_iter().collect();
    let deny = SeccompAction::Errno(errno.unsigned_abs());
    let target = std::env::consts::ARCH.try_into().expect("the architecture is supported");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, deny, target).expect("the filter is valid");
    BpfProgram::try_from(filter).expect("the filter compiles")
}

fn first_is(value: i32) -> SeccompRule {
    let value = u64::from(value.unsigned_abs());
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    SeccompRule::new(vec![condition.expect("the condition is valid")]).expect("the rule is valid")
}
