//! What a confined program may do: which files it reads and writes, and whom it reaches.
//!
//! On Linux, Landlock decides about files and signals, a seccomp filter about system calls, and secrets are covered by
//! mounts. Elsewhere, and on kernels that cannot, nothing is confined and everybody is told so.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod cover;
#[cfg(target_os = "linux")]
mod files;
mod grants;
mod names;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

pub use names::SecretNames;
use serde::{Deserialize, Serialize};

/// What a program may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Directories and files it may read and run.
    pub readable: Vec<PathBuf>,
    /// Directories and files it may change, besides.
    pub writable: Vec<PathBuf>,
    /// Directories and files it may do nothing with, wherever they lie.
    pub hidden: Vec<PathBuf>,
    /// The directory in which files of some names must not be read, and the names.
    pub secret: (PathBuf, SecretNames),
    /// What keeps it from what is hidden and secret.
    pub hiding: Hiding,
    /// Whom it may reach.
    pub reach: Reach,
}

/// What keeps a program from secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hiding {
    /// Rules alone, which can allow and not forbid. Nothing can be added to a directory that holds something hidden;
    /// what is made in a directory that holds a secret file cannot be read by who made it.
    #[default]
    Rules,
    /// Mounts too: nothing of this is noticed. [`can_cover`] says whether they can be made.
    Mounts,
}

/// Whom a program may reach over sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Nobody.
    #[default]
    Nobody,
    /// Other machines, and this one over IP; no socket that is a file.
    Internet,
}

/// Why a program cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// This system has nothing to confine with.
    #[error("this system cannot confine programs: Linux 6.2 or newer with Landlock is needed")]
    Unsupported,
    /// The kernel cannot, or does not let us, limit what files are used.
    #[cfg(target_os = "linux")]
    #[error("this kernel does not confine programs (Landlock of Linux 6.2 or newer is needed)")]
    Files(#[from] landlock::RulesetError),
    /// Secrets cannot be covered.
    #[cfg(target_os = "linux")]
    #[error("secrets cannot be covered")]
    Cover(#[source] std::io::Error),
    /// The kernel has no filter of system calls.
    #[cfg(target_os = "linux")]
    #[error("this kernel does not filter system calls (it lacks seccomp)")]
    NoFilter(#[from] rustix::io::Errno),
    /// The kernel cannot, or does not let us, limit system calls.
    #[cfg(target_os = "linux")]
    #[error("this kernel does not filter system calls")]
    Calls(#[from] seccompiler::Error),
    /// The filter cannot be made for this processor.
    #[cfg(target_os = "linux")]
    #[error("system calls cannot be filtered on this processor")]
    Filter(#[from] seccompiler::BackendError),
}

/// Says whether this system can confine programs, without confining anything.
///
/// # Errors
/// Says why it cannot.
pub fn check_confinement() -> Result<(), ConfineError> {
    #[cfg(target_os = "linux")]
    {
        files::check()?;
        rustix::thread::secure_computing_mode()?;
        calls::filter(Reach::Nobody).map(drop)
    }
    #[cfg(not(target_os = "linux"))]
    Err(ConfineError::Unsupported)
}

/// The argument that makes an executable of ours try whether secrets can be covered.
pub(crate) const TRY_COVER: &str = "__cover";

/// Says whether secrets can be covered by mounts here. It is tried in a process of its own, which `supervisor` starts;
/// that is the host itself.
#[must_use]
pub fn can_cover(supervisor: &Path) -> bool {
    let mut command = Command::new(supervisor);
    command.arg(TRY_COVER).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Tries it in this process.
pub(crate) fn try_cover() -> ExitCode {
    #[cfg(target_os = "linux")]
    if cover::own_view().and_then(|()| cover::cover(&["/tmp".into()])).is_ok_and(|bare| bare.is_empty()) {
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// What is to be kept from a program, as it was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What is hidden.
    hidden: Vec<PathBuf>,
    /// The same, as far as it is not covered.
    bare: Vec<PathBuf>,
    /// Secret files of directories that it may change, as far as they are not covered.
    bare_files: Vec<PathBuf>,
}

/// Looks for secrets, and covers them where that is wanted. The process must have one thread.
pub(crate) fn prepare(confinement: &Confinement) -> Result<Found, ConfineError> {
    #[cfg(target_os = "linux")]
    {
        let hidden = grants::existing(&confinement.hidden);
        let (folder, names) = &confinement.secret;
        let files = names.find(folder);
        if confinement.hiding == Hiding::Rules {
            return Ok(Found { bare: hidden.clone(), hidden, bare_files: files });
        }
        cover::own_view().map_err(ConfineError::Cover)?;
        let bare = cover::cover(&hidden).map_err(ConfineError::Cover)?;
        let bare_files = cover::cover(&files).map_err(ConfineError::Cover)?;
        Ok(Found { hidden, bare, bare_files })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = confinement;
        Err(ConfineError::Unsupported)
    }
}

/// Confines the calling thread and everything it starts from now on.
pub(crate) fn confine(confinement: &Confinement, found: &Found) -> Result<(), ConfineError> {
    #[cfg(target_os = "linux")]
    {
        calls::drop_capabilities();
        files::restrict(confinement, found)?;
        let filter = calls::filter(confinement.reach)?;
        Ok(seccompiler::apply_filter(&filter)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (confinement, found);
        Err(ConfineError::Unsupported)
    }
}
