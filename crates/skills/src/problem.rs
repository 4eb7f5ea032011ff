//! What is wrong with one skill or one source. A problem never takes another skill down.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// What became of the thing that has the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A skill was left out because it cannot be understood.
    Skipped,
    /// A file or directory could not be read.
    Unreadable,
    /// A limit was reached; there is more than was looked at.
    Cut,
    /// A skill needs a capability that is not there.
    Withheld,
    /// A source could not be refreshed; what it gave before is served.
    Stale,
    /// Changes cannot be watched; they are found by looking again from time to time.
    Unwatched,
}

/// Something that is wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Problem {
    /// What became of it.
    pub effect: Effect,
    /// The file or directory, or the address.
    pub path: PathBuf,
    /// The line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub fix: String,
}

impl Problem {
    pub(crate) fn new(effect: Effect, path: impl Into<PathBuf>, reason: String, fix: &str) -> Self {
        Self { effect, path: path.into(), line: None, reason, fix: fix.to_owned() }
    }

    pub(crate) fn unreadable(path: impl Into<PathBuf>, error: &std::io::Error) -> Self {
        let fix = "check its permissions, or take it away";
        Self::new(Effect::Unreadable, path, format!("cannot be read: {error}"), fix)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}; {}", self.reason, self.fix)
    }
}
