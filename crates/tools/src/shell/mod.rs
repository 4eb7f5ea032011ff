//! The shell: commands in a sandbox, in the foreground or as jobs.
//!
//! A command runs under a supervisor, which confines it and ends it with everything it started: when its time is up,
//! when nobody waits for it any more, and when this process is gone, however it ended.

mod builtins;
mod capture;
mod command;
mod extent;
mod job_cancel;
mod job_status;
mod jobs;
mod launch;
mod list_jobs;
mod policy;
mod process;
mod sandbox;
mod tool;

use std::path::PathBuf;
use std::time::Duration;

use meerkat_core::ToolFailure;
use meerkat_process::ConfineError;

pub(crate) use extent::program;
pub(crate) use job_cancel::ShellJobCancel;
pub(crate) use job_status::ShellJobStatus;
pub(crate) use jobs::Jobs;
pub(crate) use list_jobs::ShellJobs;
pub use policy::Policy;
pub(crate) use process::Host;
pub use sandbox::Sandbox;
pub(crate) use tool::Shell;

/// How commands are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellOptions {
    /// The shell; `bash`, or else `sh`, if not given.
    pub program: Option<String>,
    /// How long a command may take unless it says otherwise.
    pub timeout: Duration,
    /// Which commands may be run.
    pub policy: Policy,
    /// What they may reach.
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

/// Why a command was not run, or a job not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellError {
    /// Commands are restricted.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// The shell is not one whose language is known.
    #[error("`shell.security_patterns` need `shell.program` to be `sh`, `bash` or `dash`, not `{0}`")]
    Language(String),
    /// The system cannot confine programs.
    #[error(
        "commands cannot be run in a sandbox here; the owner of this realm may set `shell.sandbox` to `off`"
    )]
    NoSandbox(#[source] ConfineError),
    /// The program we are in cannot start itself as a supervisor.
    #[error("this program cannot run commands: it does not know how to start itself")]
    NoSupervisor,
    /// There is no shell.
    #[error("the shell `{0}` was not found; set `shell.program`")]
    NoShell(String),
    /// The system did not start it.
    #[error("the command could not be started with `{}`", .program.display())]
    NotStarted {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// There are too many jobs.
    #[error("{0} jobs run already; wait for one or cancel one")]
    TooManyJobs(usize),
    /// There is no such job.
    #[error("there is no job `{0}`; shell_jobs shows those there are")]
    NoJob(String),
    /// The job has ended.
    #[error("the job `{0}` has ended already")]
    JobEnded(String),
}

impl ShellError {
    pub(crate) const fn failure(&self) -> ToolFailure {
        match self {
            Self::Policy(_) | Self::Language(_) => ToolFailure::AccessDenied,
            Self::NoSandbox(_) | Self::NoSupervisor | Self::NoShell(_) => ToolFailure::Unavailable,
            Self::NotStarted { .. } | Self::TooManyJobs(_) | Self::NoJob(_) | Self::JobEnded(_) => {
                ToolFailure::ExecutionFailed
            }
        }
    }
}

/// Reads a command line, for those who look for inputs that break it.
pub(crate) fn try_command(line: &str) -> usize {
    command::parse(line).map_or(0, |commands| commands.len())
}
