//! Reports of the helper to its host.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A message of the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The program was started.
    Ready,
    /// The program was not started, because the sandbox would not hold.
    Refused(Refusal),
    /// The program and everything that it started ended.
    Ended {
        /// Exit code; 128 and the number of the signal if a signal ended it.
        code: u8,
        /// The limit that it reached.
        limit: Option<Limit>,
        /// Accesses that were denied, without duplicates.
        denials: Vec<Denial>,
    },
}

/// Reason a program was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("cannot set up the sandbox, so the program was not started: {stage}{}: {}; {}",
    path.as_ref().map(|path| format!(" (`{}`)", path.display())).unwrap_or_default(),
    std::io::Error::from_raw_os_error(*error), stage.advice())]
pub struct Refusal {
    /// The step that failed.
    pub stage: Stage,
    /// The path that the step was about.
    pub path: Option<PathBuf>,
    /// The system's error number.
    pub error: i32,
}

/// A step between the start of the helper and the start of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Reading the plan.
    Plan,
    /// Examining the granted paths.
    Grants,
    /// Entering namespaces.
    Namespaces,
    /// Mounting the program's view of the files.
    Mounts,
    /// Masking a secret.
    Secrets,
    /// Landlock rules.
    Landlock,
    /// The processes' own view of processes.
    Processes,
    /// Limits.
    Limits,
    /// The filter of system calls, and the gate that answers them.
    Gate,
    /// Changing to the working directory.
    Directory,
    /// Executing the program.
    Program,
}

impl Stage {
    /// Returns what a user can do.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Plan => "the host and its helper must be of the same version",
            Self::Grants => "correct the path, create what it names, or remove it from the config",
            Self::Namespaces | Self::Mounts | Self::Processes => {
                "allow unprivileged user namespaces, or use Linux 5.19 or newer"
            }
            Self::Secrets => "make the secret readable for its owner, or remove it from the list of secrets",
            Self::Landlock => "enable Landlock (Linux 6.2 or newer)",
            Self::Limits => "lower the limits",
            Self::Gate => "seccomp notifications are required, which another sandbox or container may occupy",
            Self::Directory => "use a working directory that exists and is granted",
            Self::Program => "check that the program exists and is executable",
        }
    }

    /// Returns the stage from its number in a message of a child process.
    #[cfg(target_os = "linux")]
    pub(crate) fn from_number(number: u8) -> Self {
        [Self::Processes, Self::Limits, Self::Gate, Self::Directory, Self::Landlock]
            .into_iter()
            .find(|stage| *stage as u8 == number)
            .unwrap_or(Self::Program)
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Plan => "the plan is invalid",
            Self::Grants => "cannot grant a path",
            Self::Namespaces => "no namespaces",
            Self::Mounts => "cannot mount",
            Self::Secrets => "cannot mask a secret",
            Self::Landlock => "no Landlock rules",
            Self::Processes => "cannot isolate processes",
            Self::Limits => "cannot set limits",
            Self::Gate => "cannot filter system calls",
            Self::Directory => "cannot enter the working directory",
            Self::Program => "cannot execute the program",
        })
    }
}

/// A limit that a program reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// Number of processes.
    Processes,
    /// Memory.
    Memory,
    /// Number of open files.
    OpenFiles,
    /// Bytes per file.
    FileSize,
    /// Free disk space.
    Disk,
    /// Bytes of output.
    Output,
}

/// A denied access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The operation, such as `open`.
    pub operation: String,
    /// The path or address.
    pub subject: String,
    /// Why it was denied.
    pub reason: String,
}
