//! The built-in tools of agents: files, patches, tasks, blobs, and a shell in a sandbox.
//!
//! A [`Toolbox`] belongs to a runtime and creates the tools of each run. Every path stays under one directory, the
//! workspace, symlinks included. Durable data goes through the [`ToolStorage`], a port that the runtime provides. The
//! crate does not read the environment: directories are passed in as values.

mod blobs;
mod blocking;
mod builtin;
mod clock;
mod error;
mod files;
mod options;
mod patch;
mod scope;
mod secrets;
mod shell;
mod storage;
mod tasks;
mod toolbox;

pub(crate) use error::{Error, ToolError};
pub use jiff::tz::TimeZone;
pub use options::ToolboxOptions;
pub use patch::probe_patch;
pub use scope::ApprovalScope;
pub use shell::{Policy, Sandbox, ShellOptions, probe_command};
pub use storage::{StorageError, StoredBlob, ToolStorage};
pub use toolbox::{FileAccess, ToolSelection, Toolbox};
