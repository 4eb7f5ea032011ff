//! Trying the profiles.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::Probed;
use crate::mounts::TEMPORARY;
use crate::names::Names;
use crate::plan::{FLAG, NOTHING, Plan, Profile};
use crate::policy::{Limits, Network, Program, SandboxPolicy};
use crate::report::{Refusal, Report, Stage};

/// Time to set up a sandbox and run nothing in it.
const TIME_LIMIT: Duration = Duration::from_secs(2);

const PROFILES: [Profile; 3] = [Profile::Namespaces, Profile::SharedProc, Profile::Landlock];

/// Finds the best profile, once per process and helper unless none works. `helper` is the host's own executable;
/// `scratch` is a directory that the user can write.
#[must_use]
pub fn probe(helper: &Path, scratch: &Path) -> Probed {
    static FOUND: Mutex<BTreeMap<PathBuf, Probed>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(probed) = found.get(helper) {
        return probed.clone();
    }
    let probed = try_profiles(helper, scratch);
    if probed.profile.is_some() {
        found.insert(helper.to_owned(), probed.clone());
    }
    probed
}

fn try_profiles(helper: &Path, scratch: &Path) -> Probed {
    let mut refusals = Vec::new();
    for profile in PROFILES {
        match attempt(profile, helper, scratch) {
            Ok(()) => return Probed { profile: Some(profile), refusals },
            Err(refusal) => refusals.push((profile, refusal)),
        }
    }
    Probed { profile: None, refusals }
}

fn attempt(profile: Profile, helper: &Path, scratch: &Path) -> Result<(), Refusal> {
    let failed = |error: Errno| Refusal { stage: Stage::Plan, path: None, error: error.raw_os_error() };
    let program = Program {
        path: helper.to_owned(),
        arguments: vec![FLAG.into(), NOTHING.into()],
        environment: Vec::new(),
        directory: "/".into(),
    };
    let plan = Plan { profile, policy: empty_policy(helper, scratch), program };
    let mut command = Command::new(helper);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut child, mut control) =
        plan.start(command).map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    let mut next = || control.set_timeout(TIME_LIMIT).and_then(|()| control.next_report());
    let reports = [next(), next()];
    // A helper that does not answer must not delay the host any longer.
    let _ = child.kill();
    let _ = child.wait();
    match reports {
        [Ok(Some(Report::Ready)), Ok(Some(Report::Ended { code: 0, .. }))] => Ok(()),
        [Ok(Some(Report::Refused(refusal))), _] => Err(refusal),
        [Err(error), _] | [_, Err(error)] if error.kind() == io::ErrorKind::WouldBlock => {
            Err(failed(Errno::TIMEDOUT))
        }
        _ => Err(failed(Errno::IO)),
    }
}

/// Returns a policy that grants nothing but a directory for temporary files. The helper runs itself in the sandbox, so
/// its own directory is shown where it would be hidden.
pub(crate) fn empty_policy(helper: &Path, temporary: &Path) -> SandboxPolicy {
    let hidden = TEMPORARY.iter().any(|dir| helper.starts_with(dir));
    let roots = helper.parent().filter(|_| hidden).map(Path::to_owned).into_iter().collect();
    SandboxPolicy {
        home: None,
        temporary: temporary.to_owned(),
        names: Names { roots, ..Names::default() },
        network: Network::Own { loopback: Vec::new() },
        sockets: Vec::new(),
        devices: Vec::new(),
        limits: Limits { free_disk: 0, ..Limits::default() },
    }
}
