//! Programs that end with their host, and that can be denied access to files, secrets, and the network.
//!
//! A host that can start its own executable again puts a small supervisor process between itself and each program: it
//! calls [`supervise`] first in `main`, and starts programs through [`Supervision::arguments`]. The supervisor outlives
//! a host that is killed without warning, adopts the program's orphans, and ends all of them. It also sandboxes the
//! program: a [`SandboxSpec`] applies to the program and all its descendants, and cannot be removed.

mod environment;
mod peer;
mod sandbox;
mod supervise;

pub use environment::{DEFAULT_PATH, without_secrets};
pub use peer::is_same_user;
pub use sandbox::{
    NetworkAccess, SandboxError, SandboxSpec, SecretMasking, SecretNames, can_mask_secrets, check_sandbox,
    fits_pattern,
};
pub use supervise::{GRACE, Input, ShutdownMode, Supervision, supervise, supervised_pid};
