//! Landlock rules: the files that may be used and how, and no signals to processes outside.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope, make_bitflags,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::grants::grants;
use super::{FoundSecrets, NetworkAccess, SandboxSpec};

/// Required version: older ones would allow truncating read-only files.
const REQUIRED_ABI: ABI = ABI::V3;
/// Preferred version.
const PREFERRED_ABI: ABI = ABI::V6;

/// Devices that hold no data and that programs need.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];

/// Returns an error if the kernel does not support Landlock.
pub(super) fn check() -> Result<(), RulesetError> {
    ruleset(NetworkAccess::Nobody).map(drop)
}

/// Restricts the calling thread.
///
/// Every directory can be listed. Hidden files cannot be read, masked or not; inside writable directories, such a rule
/// would prevent adding files next to them, so the mask must suffice there.
pub(super) fn restrict(confinement: &SandboxSpec, found: &FoundSecrets) -> Result<(), RulesetError> {
    let read = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
    let write = AccessFs::from_all(REQUIRED_ABI);
    let mut rules = ruleset(confinement.reach)?;
    // Devices are files too: a disk, the memory, a terminal.
    let mut unread: Vec<_> = found.hidden.iter().chain(&found.bare_files).cloned().collect();
    unread.push("/dev".into());
    for base in &confinement.readable {
        rules = allow(rules, base, AccessFs::ReadDir.into())?;
        rules = allow_all(rules, &grants(base, &unread), read)?;
    }
    for base in &confinement.writable {
        for part in grants(base, &found.bare) {
            if found.bare_files.iter().any(|file| file.starts_with(&part)) {
                // A file created here becomes readable once it is known not to be the secret: for the next program.
                rules = allow(rules, &part, write & !make_bitflags!(AccessFs::{Execute | ReadFile}))?;
                rules = allow_all(rules, &grants(&part, &found.bare_files), read)?;
            } else {
                rules = allow(rules, &part, write)?;
            }
        }
    }
    for device in DEVICES {
        rules = allow_all(rules, &grants(Path::new(device), &found.bare), write)?;
    }
    rules.restrict_self().map(drop)
}

fn allow_all(
    rules: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    paths.iter().try_fold(rules, |rules, path| allow(rules, path, access))
}

fn ruleset(reach: NetworkAccess) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(PREFERRED_ABI))?
        .scope(Scope::from_all(PREFERRED_ABI))?;
    match reach {
        NetworkAccess::Nobody => rules.handle_access(AccessNet::from_all(PREFERRED_ABI))?.create(),
        NetworkAccess::Internet => rules.create(),
    }
}

/// Allows these operations on a file or directory. One that no longer exists needs no rule.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Some((file, kind)) = open(path) else { return Ok(rules) };
    let access =
        if kind == FileType::Directory { access } else { access & AccessFs::from_file(PREFERRED_ABI) };
    rules.add_rule(PathBeneath::new(file, access))
}

fn open(path: &Path) -> Option<(OwnedFd, FileType)> {
    let file = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&file).ok()?.st_mode);
    (kind != FileType::Symlink).then_some((file, kind))
}
