//! A sandbox for programs that a model chose: they change only the directories of a policy, read no secrets, and reach
//! neither the network nor other programs unless the policy grants it. Nothing that they start outlives them.
//!
//! A host starts its own executable again as a helper: it calls [`run_helper`] first in `main`, and starts a [`Plan`]. The
//! helper sets the sandbox up and then is the *gate* of the program: it opens files in the place of the program, and
//! judges the object that it opened. If a mechanism is missing, the program is not started.

#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod gate;
mod guard;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod life;
mod links;
#[cfg(target_os = "linux")]
mod mounts;
mod names;
mod plan;
mod policy;
mod probe;
#[cfg(target_os = "linux")]
mod processes;
mod report;
mod seatbelt;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod trial;

pub use guard::Access;
#[cfg(target_os = "linux")]
pub use helper::run_helper;
pub use names::{Names, Verdict};
#[cfg(target_os = "linux")]
pub use plan::Control;
pub use plan::{Plan, Profile};
pub use policy::{InvalidPath, Limits, Network, Problem, Program, SandboxPolicy};
pub use probe::{Missing, Probed, probe};
pub use report::{Denial, Limit, Refusal, Report, Stage};
pub use seatbelt::seatbelt_profile;
#[cfg(target_os = "linux")]
pub use trial::{Property, try_profile};

/// Does nothing: this system has no sandbox.
#[cfg(not(target_os = "linux"))]
pub fn run_helper(_: impl IntoIterator<Item = std::ffi::OsString>) -> Option<std::process::ExitCode> {
    None
}
