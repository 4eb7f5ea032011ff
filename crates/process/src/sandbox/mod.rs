//! Sandboxes for programs: the files they can read and write, and their network access.
//!
//! On Linux, Landlock controls files and signals, a seccomp filter controls system calls, and mounts mask secrets. On
//! other systems, and on kernels without these features, sandboxing is unavailable and returns an error.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod files;
mod grants;
#[cfg(target_os = "linux")]
mod mask;
mod names;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

pub use names::{SecretNames, fits_pattern};
use serde::{Deserialize, Serialize};

/// Permissions of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Directories and files that it may read and run.
    pub readable: Vec<PathBuf>,
    /// Directories and files that it may also change.
    pub writable: Vec<PathBuf>,
    /// Directories and files that it may not access, wherever they are.
    pub hidden: Vec<PathBuf>,
    /// A directory with file names that must not be read, and these names.
    pub secret: (PathBuf, SecretNames),
    /// Protection of the hidden and secret files.
    pub hiding: SecretMasking,
    /// Network access.
    pub reach: NetworkAccess,
}

/// Method of hiding secrets from a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretMasking {
    /// Landlock rules only, which can allow but not deny. Nothing can be added to a directory that contains a hidden
    /// path; a file created in a directory that contains a secret file cannot be read by the program that created it.
    #[default]
    Rules,
    /// Mounts too, which do not restrict other files. [`can_mask_secrets`] returns whether they are supported.
    Mounts,
}

/// The network access of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkAccess {
    /// None.
    #[default]
    Nobody,
    /// Other machines, and this one over IP; no Unix sockets.
    Internet,
}

/// Reason a program cannot be sandboxed.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This system has no sandbox.
    #[error("this system cannot sandbox programs: Linux 6.2 or newer with Landlock is required")]
    Unsupported,
    /// The kernel cannot restrict file access, or does not allow it.
    #[cfg(target_os = "linux")]
    #[error("this kernel cannot sandbox programs (requires Landlock from Linux 6.2 or newer)")]
    Files(#[from] landlock::RulesetError),
    /// Secrets cannot be masked.
    #[cfg(target_os = "linux")]
    #[error("cannot mask secrets")]
    Mask(#[source] std::io::Error),
    /// The kernel has no system call filter.
    #[cfg(target_os = "linux")]
    #[error("this kernel cannot filter system calls (it lacks seccomp)")]
    NoFilter(#[from] rustix::io::Errno),
    /// The kernel cannot filter system calls, or does not allow it.
    #[cfg(target_os = "linux")]
    #[error("this kernel cannot filter system calls")]
    Calls(#[from] seccompiler::Error),
    /// The filter is not supported on this processor.
    #[cfg(target_os = "linux")]
    #[error("cannot filter system calls on this processor")]
    Filter(#[from] seccompiler::BackendError),
}

/// Checks that this system can sandbox programs, without changing this process.
///
/// # Errors
/// Returns an error with the reason if it cannot.
pub fn check_sandbox() -> Result<(), SandboxError> {
    #[cfg(target_os = "linux")]
    {
        files::check()?;
        rustix::thread::secure_computing_mode()?;
        calls::filter(NetworkAccess::Nobody).map(drop)
    }
    #[cfg(not(target_os = "linux"))]
    Err(SandboxError::Unsupported)
}

/// The argument that makes the host's executable test whether secrets can be masked.
pub(crate) const TEST_MASKING: &str = "__cover";

/// Returns `true` if secrets can be masked by mounts on this system. A separate process tests this, which `supervisor`,
/// the host's own executable, starts.
#[must_use]
pub fn can_mask_secrets(supervisor: &Path) -> bool {
    let mut command = Command::new(supervisor);
    command.arg(TEST_MASKING).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Tests it in this process.
pub(crate) fn test_masking() -> ExitCode {
    #[cfg(target_os = "linux")]
    if mask::enter_mount_namespace()
        .and_then(|()| mask::cover(&["/tmp".into()]))
        .is_ok_and(|bare| bare.is_empty())
    {
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// Existing files and directories to hide from a program.
#[derive(Debug, Default)]
pub(crate) struct FoundSecrets {
    /// Hidden paths.
    hidden: Vec<PathBuf>,
    /// Hidden paths that are not masked.
    bare: Vec<PathBuf>,
    /// Secret files in writable directories that are not masked.
    bare_files: Vec<PathBuf>,
}

/// Finds secrets, and masks them if requested. The process must have one thread.
pub(crate) fn prepare(confinement: &SandboxSpec) -> Result<FoundSecrets, SandboxError> {
    #[cfg(target_os = "linux")]
    {
        let hidden = grants::existing(&confinement.hidden);
        let (dir, names) = &confinement.secret;
        let files = names.find(dir);
        if confinement.hiding == SecretMasking::Rules {
            return Ok(FoundSecrets { bare: hidden.clone(), hidden, bare_files: files });
        }
        mask::enter_mount_namespace().map_err(SandboxError::Mask)?;
        let bare = mask::cover(&hidden).map_err(SandboxError::Mask)?;
        let bare_files = mask::cover(&files).map_err(SandboxError::Mask)?;
        Ok(FoundSecrets { hidden, bare, bare_files })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = confinement;
        Err(SandboxError::Unsupported)
    }
}

/// Sandboxes the calling thread and everything that it starts from now on.
pub(crate) fn confine(confinement: &SandboxSpec, found: &FoundSecrets) -> Result<(), SandboxError> {
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
        Err(SandboxError::Unsupported)
    }
}
