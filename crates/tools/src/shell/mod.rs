//! The shell: commands in a sandbox, in the foreground or as jobs.
//!
//! A command runs under a supervisor, which sandboxes it and ends it with all its child processes: on timeout, when the
//! call is dropped, and when this process exits for any reason.

mod builtins;
mod capture;
mod command;
mod extent;
mod job_tools;
mod jobs;
mod nested;
mod policy;
mod process;
mod sandbox;
mod tool;

use std::path::PathBuf;
use std::time::Duration;

use meerkat_core::ToolFailure;
use meerkat_process::SandboxError;

use crate::ToolError;

pub(crate) use extent::program;
pub(crate) use job_tools::{ShellJobCancel, ShellJobStatus, ShellJobs};
pub(crate) use jobs::Jobs;
pub use policy::Policy;
pub(crate) use process::CommandRunner;
pub use sandbox::Sandbox;
pub(crate) use tool::Shell;

/// Options for running commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellOptions {
    /// The shell; by default `bash`, or `sh` if that is missing.
    pub program: Option<String>,
    /// Default time limit of a command.
    pub timeout: Duration,
    /// Commands that may run.
    pub policy: Policy,
    /// Resources that commands can access.
    pub sandbox: Sandbox,
}

impl Default for ShellOptions {
    fn default() -> Self {
        Self {
            program: None,
            timeout: Duration::from_secs(30),
            policy: Policy::Any,
            sandbox: Sandbox::Workspace,
        }
    }
}

/// Reason a command did not run, or a job was not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellError {
    /// The policy rejects the command.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// The policy does not support the shell's language.
    #[error("`shell.security_patterns` require `shell.program` to be `sh`, `bash`, or `dash`, not `{0}`")]
    Language(String),
    /// The system cannot sandbox programs.
    #[error(
        "cannot run commands in a sandbox on this system; the realm's owner can set `shell.sandbox` to `off`"
    )]
    NoSandbox(#[source] SandboxError),
    /// The current executable cannot start itself as a supervisor.
    #[error("cannot run commands: the path of this executable is unknown")]
    NoSupervisor,
    /// The shell does not exist.
    #[error("shell `{0}` not found; set `shell.program`")]
    NoShell(String),
    /// The command did not start.
    #[error("cannot start the command with `{}`", .program.display())]
    NotStarted {
        /// The program.
        program: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Too many jobs are running.
    #[error("{0} jobs are already running; wait for one or cancel one")]
    TooManyJobs(usize),
    /// The job does not exist.
    #[error("no job `{0}`; see shell_jobs")]
    NoJob(String),
    /// The job has already finished.
    #[error("job `{0}` has already finished")]
    JobEnded(String),
}

impl ToolError for ShellError {
    fn failure(&self) -> ToolFailure {
        match self {
            Self::Policy(_) | Self::Language(_) => ToolFailure::AccessDenied,
            Self::NoSandbox(_) | Self::NoSupervisor | Self::NoShell(_) => ToolFailure::Unavailable,
            Self::NotStarted { .. } | Self::TooManyJobs(_) | Self::NoJob(_) | Self::JobEnded(_) => {
                ToolFailure::ExecutionFailed
            }
        }
    }
}

/// Parses a command line, for fuzzing. Returns the number of commands.
#[must_use]
pub fn probe_command(line: &str) -> usize {
    command::parse(line).map_or(0, |commands| commands.len())
}
