//! Errors of loading, installing, and fetching skills.

use std::io;
use std::path::PathBuf;

use meerkat_core::{ErrorKind, excerpt};

use crate::SkillKey;

/// Error of a request to a server of skills.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server could not be reached.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server returned an error status.
    #[error("the server returned status {0}")]
    Status(u16),
    /// The response is too long.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    /// The request timed out.
    #[error("the server did not respond within {0} seconds")]
    TooSlow(u64),
}

/// Error of an operation on a skill.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No skill has this name.
    #[error("no skill named `{0}`; run `rkat skill list` to see all skills")]
    NoSuchName(String),
    /// No skill has this key.
    #[error("no skill has the key `{}`; list skills with `meerkat_skills` and the action `list`", excerpt(&.0.to_string()))]
    NoSuchKey(SkillKey),
    /// The skill exists, but a setting hides it.
    #[error("the skill `{name}` is not available because {why}; {fix}")]
    Hidden {
        /// Requested name or key.
        name: String,
        /// Reason why it is hidden.
        why: String,
        /// Action that makes it available.
        fix: String,
    },
    /// The name is not valid for a skill.
    #[error("`{name}` is not a valid skill name: it {why}")]
    BadName {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// The path is not valid for a bundled file.
    #[error("`{path}` is not a path in the skill's directory: {why}; use a path from its file list")]
    BadPath {
        /// The path.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// The skill has no such file.
    #[error("the skill has no file `{}`; check its file list", excerpt(.0))]
    NoSuchFile(String),
    /// The URI does not name a skill file.
    #[error("`{0}` is not the URI of a skill file; expected `skill://NAME/SKILL.md` or a file next to it")]
    BadUri(String),
    /// A file exceeds the size limit.
    #[error("`{}` has {size} bytes, more than the limit of {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size.
        size: u64,
        /// Maximum size.
        limit: u64,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    File {
        /// Attempted operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A symlink is in place of a file that only this crate writes.
    #[error("`{}` is a symlink, which is not followed; remove it", .0.display())]
    Symlink(PathBuf),
    /// The skill changed since the scan and no longer parses.
    #[error("cannot parse `{}`: {source}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The error in it.
        source: crate::ParseError,
    },
    /// The remaps of a key are cyclic.
    #[error("cyclic remap of `{0}`; fix `skills.identity.remaps`")]
    CyclicRemap(SkillKey),
    /// The requested source does not exist.
    #[error("no skill source has the id `{0}`; list skills with `meerkat_skills` and the action `list`")]
    NoSuchSource(crate::SourceId),
    /// The URL of a repository is invalid or unsafe to clone.
    #[error("cannot clone `{url}`: {why}")]
    BadUrl {
        /// The URL, without credentials.
        url: String,
        /// The reason.
        why: &'static str,
    },
    /// Git failed.
    #[error("git could not {doing}: {what}")]
    Git {
        /// Attempted operation.
        doing: &'static str,
        /// Error output of git.
        what: String,
    },
    /// Git could not be started.
    #[error("cannot start git: {0}; install git, or add it to PATH")]
    NoGit(io::Error),
    /// The operation timed out.
    #[error("{doing} took longer than {seconds} seconds; check the network, or raise the timeout")]
    TooSlow {
        /// The operation.
        doing: &'static str,
        /// The timeout.
        seconds: u64,
    },
    /// A URL or token references a variable that is not set.
    #[error("the variable `{0}` is not set, but the URL or token uses it; set it")]
    NoVariable(String),
    /// A request to a server failed.
    #[error("cannot fetch skills from `{url}`: {source}")]
    Fetch {
        /// The URL, without credentials.
        url: String,
        /// The cause.
        source: FetchError,
    },
    /// A server's response is not a list of skills.
    #[error("`{url}` did not return a list of skills: {why}")]
    BadCatalog {
        /// The URL, without credentials.
        url: String,
        /// The reason.
        why: String,
    },
    /// The target already exists.
    #[error("`{}` already exists; use --force to replace it", .0.display())]
    Exists(PathBuf),
    /// The skill to create already exists.
    #[error("`{}` already exists; choose another name, or edit the existing skill", .0.display())]
    Taken(PathBuf),
    /// The skill was changed since it was installed.
    #[error("`{}` was changed since it was installed; use --force to discard the changes", .0.display())]
    Changed(PathBuf),
    /// The origin has no skill.
    #[error("no skill found in `{0}`; a skill is a directory with a SKILL.md")]
    NothingToInstall(String),
    /// The origin has several skills.
    #[error("there are several skills in `{origin}`: {}; name one of them", names.join(", "))]
    Ambiguous {
        /// The origin.
        origin: String,
        /// Names of the skills.
        names: Vec<String>,
    },
    /// The lock file is invalid.
    #[error("`{}` is not a valid skill lock file: {why}; fix or remove it", path.display())]
    BadLock {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The skill was not installed by this crate.
    #[error("`{}` was not installed by rkat; use --force to delete it", .0.display())]
    NotInstalled(PathBuf),
    /// The directory for skills is outside the project.
    #[error("`{}` is a symlink that leads out of the project, where skills are not loaded; remove the symlink", .0.display())]
    Outside(PathBuf),
}

impl Error {
    /// Returns the kind of error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSuchName(_) | Self::NoSuchKey(_) | Self::Hidden { .. } => ErrorKind::SkillNotFound,
            Self::BadName { .. }
            | Self::BadPath { .. }
            | Self::NoSuchFile(_)
            | Self::BadUri(_)
            | Self::BadUrl { .. }
            | Self::NoSuchSource(_)
            | Self::Exists(_)
            | Self::Taken(_)
            | Self::NotInstalled(_)
            | Self::Outside(_)
            | Self::Changed(_)
            | Self::NothingToInstall(_)
            | Self::Ambiguous { .. } => ErrorKind::InvalidParams,
            _ => ErrorKind::SkillResolutionFailed,
        }
    }

    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}
