//! Where skills come from.
//!
//! A source is looked at again and again; one that has not changed gives back the very same answer, so that the
//! catalog knows with one comparison that nothing is to be done.

mod embedded;
mod folder;
mod git;
mod http;
mod ignored;
mod roots;
mod stamp;
mod visit;

use std::path::PathBuf;
use std::sync::Arc;

pub use embedded::{Companion, Embedded, companions};
pub use folder::{Folder, Limits, Nested};
pub use git::{Git, GitOptions, RefKind};
pub(crate) use git::{check_url, clone_into, shown};
pub use http::{Fetch, FetchError, Http, HttpOptions};
pub use ignored::{IgnoreReason, Ignored};
pub use roots::{Roots, standard_roots};

use crate::{Problem, Provenance, Skill};

/// What a source has.
#[derive(Debug, Default)]
pub struct Found {
    /// Its skills, in its own order; of two with one name the first counts.
    pub skills: Vec<Arc<Skill>>,
    /// What is wrong in it.
    pub problems: Vec<Problem>,
    /// The directories in which a change would matter.
    pub watched: Vec<PathBuf>,
}

/// Somewhere skills come from.
pub trait Source: Send + Sync {
    /// Says who it is.
    fn provenance(&self) -> &Arc<Provenance>;

    /// Looks at what it has. It may read files but must not wait for a network. As long as nothing has changed it
    /// returns the same value, not just an equal one.
    fn look(&self) -> Arc<Found>;

    /// Searches for skill files that it does not load although nothing is wrong with them. Unlike a look, it may take
    /// long. A source without directories has none.
    fn ignored(&self) -> Vec<Ignored> {
        Vec::new()
    }
}
