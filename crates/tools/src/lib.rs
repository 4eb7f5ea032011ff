//! The built-in tools of agents: files, patches, tasks, blobs, and a shell in a sandbox.
//!
//! A [`Toolbox`] belongs to a runtime and makes the tools of each run. Every path stays under one directory, the
//! workspace, links included. What is durable goes through the [`Shelf`], a port that the runtime provides. The crate
//! reads no environment: where things are reaches it as values.

mod blobs;
mod builtin;
mod clock;
mod error;
mod files;
mod patch;
mod scope;
mod secrets;
mod shelf;
mod shell;
mod tasks;
mod toolbox;
mod work;

pub(crate) use error::Error;
pub use jiff::tz::TimeZone;
pub use scope::ApprovalScope;
pub use shelf::{Shelf, ShelfError, StoredBlob};
pub use shell::{Policy, Sandbox, ShellOptions};
pub use toolbox::{FileAccess, Toolbox, ToolboxOptions, Wanted};

/// Reads a patch and fits it to a text, for those who look for inputs that break it. Returns how long the result is.
#[must_use]
pub fn probe_patch(patch: &str, text: &str) -> usize {
    patch::try_patch(patch, text)
}

/// Reads a command line, for those who look for inputs that break it. Returns how many commands it has.
#[must_use]
pub fn probe_command(line: &str) -> usize {
    shell::try_command(line)
}
