//! Problems of a single skill or source. A problem never affects other skills.

use std::path::PathBuf;

use serde::Serialize;

/// Effect of a problem on the skill or source that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A skill was skipped because it is invalid.
    Skipped,
    /// A file or directory could not be read.
    Unreadable,
    /// A limit was reached; the rest was not scanned.
    Cut,
    /// A skill needs a capability that is not available.
    Withheld,
    /// A source could not be refreshed; its previous skills are served.
    Stale,
    /// Changes cannot be watched; periodic scans find them.
    Unwatched,
}

/// A problem, its location, and a fix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[error("{}{}: {reason}; {fix}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct Problem {
    /// Effect of the problem.
    pub effect: Effect,
    /// The file or directory, or the URL.
    pub path: PathBuf,
    /// The line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem itself.
    pub reason: String,
    /// Suggested fix.
    pub fix: String,
}

impl Problem {
    /// Creates a problem of a file or directory.
    #[must_use]
    pub fn new(effect: Effect, path: impl Into<PathBuf>, reason: String, fix: &str) -> Self {
        Self { effect, path: path.into(), line: None, reason, fix: fix.to_owned() }
    }

    pub(crate) fn unreadable(path: impl Into<PathBuf>, error: &std::io::Error) -> Self {
        let fix = "check its permissions, or remove it";
        Self::new(Effect::Unreadable, path, format!("cannot be read: {error}"), fix)
    }
}
