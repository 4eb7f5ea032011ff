//! Sources of skills.
//!
//! Sources are scanned repeatedly. An unchanged source returns the same `Arc`, so that the catalog detects with a
//! pointer comparison that there is nothing to do.

mod directory;
mod embedded;
mod git;
mod http;
mod ignored;
mod roots;
mod stamp;
mod visit;

use std::path::PathBuf;
use std::sync::Arc;

pub use directory::{Directory, Limits, Nested};
pub use embedded::{Companion, Embedded, companions};
pub use git::{Git, GitOptions, RefKind};
pub(crate) use git::{check_url, clone_into, redacted_url};
pub use http::{Fetch, Http, HttpOptions};
pub use ignored::{IgnoreReason, Ignored};
pub use roots::{Roots, standard_roots};
pub(crate) use visit::is_foreign;

use crate::{Effect, Problem, Provenance, Skill};

/// Result of scanning a source.
#[derive(Debug, Default)]
pub struct ScanResult {
    /// Its skills, in its own order; the first of two with the same name takes precedence.
    pub skills: Vec<Arc<Skill>>,
    /// The problems.
    pub problems: Vec<Problem>,
    /// The directories to watch for changes.
    pub watched: Vec<PathBuf>,
}

/// The problem of a source itself, and the last scan of its directory together with the problem.
#[derive(Default)]
struct ScanCache {
    problem: Option<Problem>,
    last: Option<(Arc<ScanResult>, Arc<ScanResult>)>,
}

impl ScanCache {
    /// Creates a cache that reports why the last update of a remote source failed.
    fn after_update(url: &str, reason: Option<String>) -> Self {
        let fix = "the cached skills are used; check the URL and the network";
        let problem = reason.map(|reason| Problem::new(Effect::Stale, redacted_url(url), reason, fix));
        Self { problem, last: None }
    }

    /// Adds the problem to the result of a scan. For the same result, it returns the same `Arc`.
    fn add_problem(&mut self, found: Arc<ScanResult>) -> Arc<ScanResult> {
        let Some(problem) = &self.problem else { return found };
        if let Some((from, result)) = &self.last
            && Arc::ptr_eq(from, &found)
        {
            return Arc::clone(result);
        }
        let problems = std::iter::once(problem).chain(&found.problems).cloned().collect();
        let (skills, watched) = (found.skills.clone(), found.watched.clone());
        let result = Arc::new(ScanResult { skills, problems, watched });
        self.last = Some((found, Arc::clone(&result)));
        result
    }
}

/// A source of skills.
pub trait Source: Send + Sync {
    /// Returns the identity of the source.
    fn provenance(&self) -> &Arc<Provenance>;

    /// Scans the source. It may read files but must not wait for the network. While nothing has changed, it returns
    /// the same `Arc`, not just an equal value.
    fn scan(&self) -> Arc<ScanResult>;

    /// Searches for skill files that the source does not load, although they have no errors. Unlike a scan, this may
    /// take long. A source without directories has no such files.
    fn ignored(&self) -> Vec<Ignored> {
        Vec::new()
    }
}
