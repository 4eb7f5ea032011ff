//! Programs that end with their host, and that can be kept from files, secrets and the network.
//!
//! A host that can start itself again puts a small process of its own between itself and each program: it calls
//! [`supervise`] first thing in `main`, and starts programs through [`Supervision::arguments`]. That process outlives
//! a host that is killed without warning, adopts what the program leaves behind, and ends all of it. It is also
//! where a program is confined: a [`Confinement`] holds for the program and for everything that descends from it,
//! and cannot be taken off again.

mod confine;
mod environment;
mod peer;
mod supervise;

pub use confine::{ConfineError, Confinement, Hiding, Reach, SecretNames, can_cover, check_confinement};
pub use environment::{DEFAULT_PATH, harmless};
pub use peer::is_same_user;
pub use supervise::{Ending, GRACE, Input, Supervision, program_of, supervise};
