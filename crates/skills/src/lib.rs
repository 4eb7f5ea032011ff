//! Skills: directories with a SKILL.md, and everything else that gives them, in one catalog.
//!
//! This crate reads no environment and no home directory, and talks to no network by itself: where to look, in
//! which order and with what is given as values. A source that fails leaves the others alone.
//!
//! A [`Catalogue`] is made of [`Source`]s. It publishes [`Snapshot`]s, and every form in which skills are served
//! is a function of one: see [`view`]. [`AgentTools`] is what an agent of ours gets.

mod catalogue;
mod document;
mod error;
mod files;
mod install;
mod key;
mod lint;
mod parallel;
mod path;
mod problem;
mod read;
mod skill;
mod snapshot;
mod source;
mod tools;
pub mod view;
mod watch;

pub use catalogue::{Catalogue, Refreshed};
pub use document::{Document, Fault};
pub use error::Error;
pub use files::stays_within;
pub use install::{Installed, Origin, Overwrite, create, install, remove};
pub use key::{KeyError, SkillKey, SkillName, SkillRef, SourceId};
pub use lint::{Finding, Report, Severity, lint, lint_file};
pub use problem::{Effect, Problem};
pub use read::{Bundle, BundledFile, MAX_FILE_BYTES, MAX_FILES, MAX_FILES_BYTES, SkillText};
pub use skill::{
    Digest, Invocation, Place, Provenance, Scope, Skill, SourceStatus, Traits, Transport, Trust,
};
pub use snapshot::{Listed, Policy, Snapshot};
pub use source::{
    Companion, Embedded, Fetch, FetchError, Folder, Found, Git, GitOptions, Http, HttpOptions, IgnoreReason,
    Ignored, Limits, Nested, RefKind, Roots, Source, companions, standard_roots,
};
pub use tools::{AgentTools, Offered};
pub use watch::{Notices, Watch, WatchOptions};

/// The largest SKILL.md, in bytes.
pub const MAX_SKILL_BYTES: u64 = 1024 * 1024;
