//! What can go wrong when a skill is asked for, installed or fetched.

use std::io;
use std::path::PathBuf;

use meerkat_core::ErrorKind;

use crate::{FetchError, SkillKey};

/// Why something could not be done with a skill.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No skill has this name.
    #[error("no skill is called `{0}`; `rkat skill list` shows those there are")]
    NoSuchName(String),
    /// No skill has this key.
    #[error("no skill has the key `{0}`; `meerkat_skills` with the action `list` shows those there are")]
    NoSuchKey(SkillKey),
    /// There is such a skill, and a setting hides it.
    #[error("the skill `{name}` is not available because {why}; {fix}")]
    Hidden {
        /// What was asked for.
        name: String,
        /// What hides it.
        why: String,
        /// How to make it available.
        fix: String,
    },
    /// The name cannot be that of a skill.
    #[error("`{name}` cannot be the name of a skill: it {why}")]
    BadName {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// The path cannot be that of a bundled file.
    #[error("`{path}` is not a path in the skill's directory: {why}; use one that its list of files shows")]
    BadPath {
        /// The path.
        path: String,
        /// Why not.
        why: &'static str,
    },
    /// The skill has no such file.
    #[error("the skill has no file `{0}`; its list of files shows those there are")]
    NoSuchFile(String),
    /// The address is not one of ours.
    #[error(
        "`{0}` is not the address of a skill's file; expected `skill://NAME/SKILL.md` or a file beside it"
    )]
    BadUri(String),
    /// A file is larger than is read.
    #[error("`{}` has {size} bytes, more than the {limit} that are read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
        /// The largest that is read.
        limit: u64,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A link is where a file of our own should be.
    #[error("`{}` is a link, and is not followed; take it away", .0.display())]
    Link(PathBuf),
    /// The skill is no longer what it was when it was found.
    #[error("`{}` cannot be understood any more: {source}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: crate::Fault,
    },
    /// The remaps lead in a circle.
    #[error("the remaps of `{0}` lead in a circle; mend `skills.identity.remaps`")]
    Circle(SkillKey),
    /// The other source asked for is not there.
    #[error(
        "no source of skills has the id `{0}`; `meerkat_skills` with the action `list` shows those there are"
    )]
    NoSuchSource(crate::SourceId),
    /// The address of a repository is not one to clone.
    #[error("`{url}` cannot be cloned: {why}")]
    BadUrl {
        /// The address, without what is secret in it.
        url: String,
        /// Why not.
        why: &'static str,
    },
    /// Git failed.
    #[error("git could not {doing}: {what}")]
    Git {
        /// What was being done.
        doing: &'static str,
        /// What git said.
        what: String,
    },
    /// Git could not be started.
    #[error("git could not be started: {0}; install git, or put it on the PATH")]
    NoGit(io::Error),
    /// It took too long.
    #[error("{doing} took longer than {seconds} seconds; check the network, or raise the timeout")]
    TooSlow {
        /// What.
        doing: &'static str,
        /// How long was waited.
        seconds: u64,
    },
    /// An address or a token names a variable that is not set.
    #[error("the variable `{0}` is not set, and the address or the token is made of it; set it")]
    NoVariable(String),
    /// A server could not be asked.
    #[error("cannot fetch skills from `{url}`: {source}")]
    Fetch {
        /// The address, without what is secret in it.
        url: String,
        /// Why it failed.
        source: FetchError,
    },
    /// A server's answer is no list of skills.
    #[error("`{url}` did not answer with a list of skills: {why}")]
    BadCatalogue {
        /// The address, without what is secret in it.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// Something is there already.
    #[error("`{}` is there already; use --force to replace it", .0.display())]
    Exists(PathBuf),
    /// A skill that was to be written is there already.
    #[error("`{}` is there already; choose another name, or edit what is there", .0.display())]
    Taken(PathBuf),
    /// It was changed since it was installed.
    #[error("`{}` was changed since it was installed; use --force to lose the changes", .0.display())]
    Changed(PathBuf),
    /// There is no skill in what was to be installed.
    #[error("there is no skill in `{0}`; a skill is a directory with a SKILL.md")]
    NothingToInstall(String),
    /// There are several skills in what was to be installed.
    #[error("there are several skills in `{origin}`: {}; name one of them", names.join(", "))]
    Ambiguous {
        /// Where.
        origin: String,
        /// Which.
        names: Vec<String>,
    },
    /// The lock file is not one of ours.
    #[error("`{}` is not a lock file of skills: {why}; mend it or take it away", path.display())]
    BadLock {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The skill was not installed by us.
    #[error("`{}` was written here and not installed; use --force to lose it", .0.display())]
    NotInstalled(PathBuf),
    /// The place for skills is not in the project.
    #[error("`{}` is a link that leads out of the project, where no skill would be found; take the link away", .0.display())]
    Outside(PathBuf),
}

impl Error {
    /// Returns what kind of error it is.
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
            Self::TooLarge { .. }
            | Self::File { .. }
            | Self::Link(_)
            | Self::Broken { .. }
            | Self::Circle(_)
            | Self::Git { .. }
            | Self::NoGit(_)
            | Self::TooSlow { .. }
            | Self::NoVariable(_)
            | Self::Fetch { .. }
            | Self::BadCatalogue { .. }
            | Self::BadLock { .. } => ErrorKind::SkillResolutionFailed,
        }
    }

    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}
