//! The best profile of this system, found by trying each one.

#[cfg(not(target_os = "linux"))]
use std::path::Path;

use crate::plan::{Plan, Profile};
use crate::policy::{Program, SandboxPolicy};
use crate::report::Refusal;

/// The result of a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probed {
    /// The best profile that works.
    pub profile: Option<Profile>,
    /// Better profiles, and why they do not work.
    pub refusals: Vec<(Profile, Refusal)>,
}

/// No profile works on this system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this system cannot sandbox programs{}", reasons(refusals))]
pub struct Missing {
    /// Why each profile does not work.
    pub refusals: Vec<(Profile, Refusal)>,
}

fn reasons(refusals: &[(Profile, Refusal)]) -> String {
    refusals.iter().map(|(profile, refusal)| format!("; {profile}: {refusal}")).collect()
}

impl Probed {
    /// Plans a program with the profile.
    ///
    /// # Errors
    /// Returns an error if no profile works.
    pub fn plan(&self, policy: SandboxPolicy, program: Program) -> Result<Plan, Missing> {
        let missing = || Missing { refusals: self.refusals.clone() };
        self.profile.map(|profile| Plan { profile, policy, program }).ok_or_else(missing)
    }
}

#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(target_os = "linux")]
pub use linux::probe;

/// Finds no profile: this system has none, so no program is started.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn probe(_: &Path, _: &Path) -> Probed {
    Probed::default()
}
