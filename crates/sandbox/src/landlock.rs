//! Landlock rules for a program without a mount namespace: what may be read, and what may be written.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope, make_bitflags,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use crate::policy::Network;

/// Required version: older ones would allow truncating read-only files.
const REQUIRED: ABI = ABI::V3;
/// Preferred version.
const PREFERRED: ABI = ABI::V6;

/// Builds the rules about files: everything may be read except secrets and devices.
pub(crate) fn files(
    writable: &[PathBuf],
    devices: &[PathBuf],
    secrets: &[PathBuf],
) -> Result<OwnedFd, RulesetError> {
    let read = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
    let write = AccessFs::from_all(PREFERRED);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(PREFERRED))?
        .create()?;
    let mut unread = secrets.to_vec();
    unread.push("/dev".into());
    rules = allow(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    for path in readable(Path::new("/"), &unread) {
        rules = allow(rules, &path, read)?;
    }
    for path in writable.iter().chain(devices) {
        rules = allow(rules, path, write)?;
    }
    descriptor(rules)
}

/// Builds a rule that confines signals to this process and those that it starts; `None` if the kernel has none.
pub(crate) fn signals() -> Option<OwnedFd> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).scope(Scope::Signal);
    Option::from(rules.ok()?.create().ok()?)
}

/// Builds the rules about other processes and the network; `None` if the kernel has none.
pub(crate) fn others(network: &Network) -> Option<OwnedFd> {
    let rules =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).scope(Scope::from_all(PREFERRED));
    let rules = rules.ok()?;
    let rules = match network {
        // The gate makes granted connections, outside these rules.
        Network::Own { .. } => rules.handle_access(AccessNet::from_all(PREFERRED)).ok()?.create(),
        Network::Full => rules.create(),
    };
    Option::from(rules.ok()?)
}

fn descriptor(rules: RulesetCreated) -> Result<OwnedFd, RulesetError> {
    match Option::from(rules) {
        Some(rules) => Ok(rules),
        None => Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))?
            .create()
            .and_then(descriptor),
    }
}

/// Allows these operations on a file or directory. One that no longer exists needs no rule.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = openat(CWD, path, flags, Mode::empty()) else { return Ok(rules) };
    let kind = fstat(&file).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        FileType::Symlink | FileType::Unknown => Ok(rules),
        FileType::Directory => rules.add_rule(PathBeneath::new(file, access)),
        _ => rules.add_rule(PathBeneath::new(file, access & AccessFs::from_file(PREFERRED))),
    }
}

/// Lists the paths to grant so that a directory is covered, except for hidden paths: a directory that contains one is
/// granted entry by entry.
fn readable(base: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let (mut granted, mut open) = (Vec::new(), vec![base.to_owned()]);
    while let Some(path) = open.pop() {
        if hidden.iter().any(|secret| path.starts_with(secret)) {
            continue;
        }
        if !hidden.iter().any(|secret| secret.starts_with(&path)) {
            granted.push(path);
            continue;
        }
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        open.extend(entries.map(|entry| entry.path()));
    }
    granted
}
