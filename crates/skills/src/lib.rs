//! Skills: directories with a SKILL.md, and every other source of skills, in one catalog.
//!
//! This crate does not read environment variables or the home directory, and makes no network requests by itself: the
//! caller passes the directories, their order, and the credentials. A failing source does not affect the others.
//!
//! A [`Catalog`] consists of [`Source`]s. It publishes [`Snapshot`]s, and every form in which skills are served
//! is a function of one: see [`view`]. [`AgentTools`] provides the tools for agents.

mod catalog;
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

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use catalog::{Catalog, Refreshed};
pub use document::{Document, ParseError};
pub use error::{Error, FetchError};
pub use files::ensure_within;
pub use install::{Installed, Origin, Overwrite, create, install, remove};
pub use key::{KeyError, SkillKey, SkillName, SourceId};
pub use lint::{Finding, Report, Severity, lint, lint_file};
pub use problem::{Effect, Problem};
pub use read::{Bundle, BundledFile, MAX_FILE_BYTES, MAX_FILES, MAX_FILES_BYTES, SkillText};
pub use skill::{
    Digest, Invocation, Provenance, Scope, Skill, SkillLocation, SkillMetadata, SourceStatus, Transport,
    Trust,
};
pub use snapshot::{Policy, SkillFilter, Snapshot, SnapshotEntry};
pub use source::{
    Companion, Directory, Embedded, Fetch, Git, GitOptions, Http, HttpOptions, IgnoreReason, Ignored, Limits,
    Nested, RefKind, Roots, ScanResult, Source, companions, standard_roots,
};
pub use tools::AgentTools;
pub use watch::{FsEvents, Watch, WatchOptions};

/// Maximum size of a SKILL.md, in bytes.
pub const MAX_SKILL_BYTES: u64 = 1024 * 1024;

/// Locks a mutex. Its value is valid even if a thread panicked while holding the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
