//! What a confined program may do: which files it reads and writes, and whom it reaches.
//!
//! On Linux, Landlock decides about files and signals, and a seccomp filter about system calls. Elsewhere, and on
//! kernels that cannot, nothing is confined and everybody is told so.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod files;
mod grants;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a program may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Folders and files it may read and run.
    pub readable: Vec<PathBuf>,
    /// Folders and files it may change, besides.
    pub writable: Vec<PathBuf>,
    /// Folders and files it may do nothing with, wherever they lie. A folder that holds one of them cannot be listed,
    /// and nothing can be added to it.
    pub hidden: Vec<PathBuf>,
    /// Whom it may reach.
    pub reach: Reach,
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
        calls::filter(Reach::Nobody).map(drop)
    }
    #[cfg(not(target_os = "linux"))]
    Err(ConfineError::Unsupported)
}

/// Confines the calling thread and everything it starts from now on.
pub(crate) fn confine(confinement: &Confinement) -> Result<(), ConfineError> {
    #[cfg(target_os = "linux")]
    {
        calls::drop_capabilities();
        files::restrict(confinement)?;
        let filter = calls::filter(confinement.reach)?;
        Ok(seccompiler::apply_filter(&filter)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = confinement;
        Err(ConfineError::Unsupported)
    }
}
