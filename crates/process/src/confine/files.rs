//! The rules of Landlock: which files may be used, how, and that nobody outside is signalled.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope, make_bitflags,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::grants::{existing, grants};
use super::{Confinement, Reach};

/// What must be there: without it a file could be cut short that may only be read.
const NEEDED: ABI = ABI::V3;
/// What is used where it is there.
const WISHED: ABI = ABI::V6;

/// The devices that hold nothing and that programs need.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];

/// Says whether the kernel can do this.
pub(super) fn check() -> Result<(), RulesetError> {
    ruleset(Reach::Nobody).map(drop)
}

/// Restricts the calling thread.
pub(super) fn restrict(confinement: &Confinement) -> Result<(), RulesetError> {
    let read = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
    let write = AccessFs::from_all(NEEDED);
    let mut hidden = existing(&confinement.hidden);
    let secrets = hidden.clone();
    // Devices are files too: a disk, the memory, a terminal.
    hidden.push("/dev".into());
    let mut rules = ruleset(confinement.reach)?;
    for (bases, hidden, access) in
        [(&confinement.readable, &hidden, read), (&confinement.writable, &hidden, write)]
    {
        for path in bases.iter().flat_map(|base| grants(base, hidden)) {
            rules = allow(rules, &path, access)?;
        }
    }
    for path in DEVICES.iter().flat_map(|device| grants(Path::new(device), &secrets)) {
        rules = allow(rules, &path, write)?;
    }
    rules.restrict_self().map(drop)
}

fn ruleset(reach: Reach) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WISHED))?
        .scope(Scope::from_all(WISHED))?;
    match reach {
        Reach::Nobody => rules.handle_access(AccessNet::from_all(WISHED))?.create(),
        Reach::Internet => rules.create(),
    }
}

/// Allows what can be done with a file or folder. One that went away meanwhile needs no rule.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Some((file, kind)) = open(path) else { return Ok(rules) };
    let access = if kind == FileType::Directory { access } else { access & AccessFs::from_file(WISHED) };
    rules.add_rule(PathBeneath::new(file, access))
}

fn open(path: &Path) -> Option<(OwnedFd, FileType)> {
    let file = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&file).ok()?.st_mode);
    (kind != FileType::Symlink).then_some((file, kind))
}
