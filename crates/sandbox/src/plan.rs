//! The plan that a host gives to the helper, and the connection between them.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::policy::{Program, SandboxPolicy};
use crate::report::Report;

/// The argument that runs the host's executable as a helper.
pub(crate) const FLAG: &str = "__sandbox";

/// The argument after the flag that makes the helper exit at once, as a program to try a sandbox with.
pub(crate) const NOTHING: &str = "nothing";

/// The argument after the flag that makes the helper attempt what a sandbox prevents; the next one is a directory.
pub(crate) const TRIAL: &str = "trial";

/// Mechanisms that enforce a policy, from the best to the least capable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// User, mount, process, and IPC namespaces.
    Namespaces,
    /// The same without a process namespace.
    SharedProc,
    /// Landlock, without namespaces.
    Landlock,
}

impl std::fmt::Display for Profile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Namespaces => "with namespaces",
            Self::SharedProc => "with namespaces except for processes",
            Self::Landlock => "with Landlock",
        })
    }
}

/// A program, what it may do, and how that is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Mechanisms.
    pub profile: Profile,
    /// Grants and limits.
    pub policy: SandboxPolicy,
    /// The program.
    pub program: Program,
}

impl Plan {
    /// Starts a helper, which starts the program. `helper` is the host's own executable, whose `main` calls
    /// [`crate::run_helper`] first; its output becomes the program's.
    ///
    /// # Errors
    /// Returns an error if the helper cannot be started, or if a path of the plan is not UTF-8.
    pub fn start(&self, mut helper: Command) -> io::Result<(Child, Control)> {
        let mut text = serde_json::to_string(self).map_err(io::Error::other)?;
        text.push('\n');
        let (socket, other) = UnixStream::pair()?;
        let child = helper.arg(FLAG).stdin(Stdio::from(OwnedFd::from(other))).spawn()?;
        // The command holds the other end of the connection, which must end with the helper.
        drop(helper);
        let mut control = Control { socket: BufReader::new(socket) };
        control.socket.get_mut().write_all(text.as_bytes())?;
        Ok((child, control))
    }
}

/// The host's end of the connection. Dropping it ends the program and everything that it started.
#[derive(Debug)]
pub struct Control {
    socket: BufReader<UnixStream>,
}

impl Control {
    /// Waits for the next report; `None` if the helper exited.
    ///
    /// # Errors
    /// Returns an error if the connection fails or the report is invalid.
    pub fn next_report(&mut self) -> io::Result<Option<Report>> {
        let mut line = String::new();
        match self.socket.read_line(&mut line) {
            Ok(0) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Ok(_) => serde_json::from_str(&line).map(Some).map_err(io::Error::other),
            Err(error) => Err(error),
        }
    }

    /// Sets how long to wait for a report.
    ///
    /// # Errors
    /// Returns an error if the duration is zero.
    pub fn set_timeout(&self, timeout: std::time::Duration) -> io::Result<()> {
        self.socket.get_ref().set_read_timeout(Some(timeout))
    }
}
