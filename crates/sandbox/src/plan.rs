//! The plan that a host gives to the helper, and the connection between them.

#[cfg(target_os = "linux")]
use std::io::{self, BufRead as _, BufReader, IoSlice, Write as _};
#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
#[cfg(target_os = "linux")]
use std::os::fd::{BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixStream;
#[cfg(target_os = "linux")]
use std::process::{Child, Command, Stdio};

#[cfg(target_os = "linux")]
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};

use crate::policy::{Program, SandboxPolicy};
#[cfg(target_os = "linux")]
use crate::report::Report;

/// The argument that runs the host's executable as a helper.
#[cfg(target_os = "linux")]
pub(crate) const FLAG: &str = "__sandbox";

/// The argument after the flag that makes the helper exit at once, as a program to try a sandbox with.
#[cfg(target_os = "linux")]
pub(crate) const NOTHING: &str = "nothing";

/// The argument after the flag that makes the helper attempt what a sandbox prevents; the next one is a directory.
#[cfg(target_os = "linux")]
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

#[cfg(target_os = "linux")]
impl Plan {
    /// Starts a helper, which starts the program. `helper` is the host's own executable, whose `main` calls
    /// [`crate::run_helper`] first; its output becomes the program's. It gets no environment.
    ///
    /// # Errors
    /// Returns an error if the helper cannot be started, or if a path of the plan is not absolute UTF-8.
    pub fn start(&self, helper: Command) -> io::Result<(Child, Control)> {
        self.start_reading(helper, None)
    }

    /// Starts a helper and the program, which reads its input from `input`.
    ///
    /// # Errors
    /// Returns an error if the helper cannot be started, or if a path of the plan is not absolute UTF-8.
    pub fn start_with_input(&self, helper: Command, input: BorrowedFd<'_>) -> io::Result<(Child, Control)> {
        self.start_reading(helper, Some(input))
    }

    fn start_reading(
        &self,
        mut helper: Command,
        input: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Child, Control)> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        self.policy.check_texts(&self.program).map_err(invalid)?;
        let mut text = serde_json::to_string(self).map_err(io::Error::other)?;
        text.push('\n');
        let (socket, other) = UnixStream::pair()?;
        let child = helper.env_clear().arg(FLAG).stdin(Stdio::from(OwnedFd::from(other))).spawn()?;
        // The command holds the other end of the connection, which must end with the helper.
        drop(helper);
        send(&socket, text.as_bytes(), input)?;
        Ok((child, Control { socket: BufReader::new(socket) }))
    }
}

/// Sends a text, and a descriptor with its first bytes.
#[cfg(target_os = "linux")]
fn send(mut socket: &UnixStream, text: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = sendmsg(socket, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?;
    socket.write_all(text.get(sent..).unwrap_or_default())
}

/// The host's end of the connection. Dropping it ends the program and everything that it started.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Control {
    socket: BufReader<UnixStream>,
}

#[cfg(target_os = "linux")]
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
