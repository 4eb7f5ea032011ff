//! Grants and limits of a sandboxed program.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::names::Names;

/// Grants and limits of a program. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// The home directory, which is never writable: a root that is the home directory or contains it is ignored.
    pub home: Option<PathBuf>,
    /// A directory for temporary files: `/tmp` of the program where the kernel can do that, else only `TMPDIR`.
    pub temporary: PathBuf,
    /// Writable directories, and the names of secret and guarded files.
    pub names: Names,
    /// Network access.
    pub network: Network,
    /// Unix sockets of other programs that the program may connect to.
    pub sockets: Vec<PathBuf>,
    /// Devices to grant in addition to those that hold no data.
    pub devices: Vec<PathBuf>,
    /// Limits.
    pub limits: Limits,
}

impl SandboxPolicy {
    /// Returns the writable directories, without those inside others.
    #[must_use]
    pub fn writable_roots(&self) -> Vec<PathBuf> {
        let is_home = |root: &&PathBuf| self.home.as_ref().is_some_and(|home| home.starts_with(root));
        let roots: Vec<_> = self.names.roots.iter().filter(|root| !is_home(root)).collect();
        let is_inside = |root: &PathBuf| roots.iter().any(|other| *other != root && root.starts_with(other));
        roots.iter().copied().filter(|root| !is_inside(root)).cloned().collect()
    }
}

/// Network access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// The program's own loopback where the kernel can isolate it, and these ports of the host's loopback.
    Own {
        /// The ports.
        loopback: Vec<u16>,
    },
    /// Other machines, and this one over IP.
    Full,
}

/// Limits of one program with all its descendants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Number of processes.
    pub processes: u64,
    /// Bytes of memory: of the data of one process, and of all processes in RAM.
    pub memory: u64,
    /// Number of open files per process.
    pub open_files: u64,
    /// Bytes per file.
    pub file_size: u64,
    /// Bytes that must stay free on the disks of the writable directories.
    pub free_disk: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { processes: 512, memory: 8 << 30, open_files: 4096, file_size: 8 << 30, free_disk: 1 << 30 }
    }
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Absolute path of the executable.
    pub path: PathBuf,
    /// Arguments, without the name of the program.
    pub arguments: Vec<OsString>,
    /// The full environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub directory: PathBuf,
}
