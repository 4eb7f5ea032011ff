//! Grants and limits of a sandboxed program.

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

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
        let is_everything = |root: &&PathBuf| root.parent().is_none();
        let roots = self.names.roots.iter().filter(|root| !is_home(root) && !is_everything(root));
        let roots: Vec<_> = roots.collect();
        let is_inside = |root: &PathBuf| roots.iter().any(|other| *other != root && root.starts_with(other));
        roots.iter().copied().filter(|root| !is_inside(root)).cloned().collect()
    }
}

/// A path of a policy that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid `{field}` of a sandboxed program: `{}` {problem}", path.display())]
pub struct InvalidPath {
    /// The field.
    pub field: &'static str,
    /// The path.
    pub path: PathBuf,
    /// Problem with it.
    pub problem: Problem,
}

/// The reason a path cannot be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It cannot be sent to the helper.
    #[error("is not UTF-8; rename it, or use a symlink with another name")]
    NotUtf8,
    /// It depends on a working directory.
    #[error("is not absolute; use the full path")]
    Relative,
    /// It does not exist or cannot be examined.
    #[error("cannot be examined: {}; create it, or remove it from the config", std::io::Error::from_raw_os_error(*_0))]
    Missing(
        /// The system's error number.
        i32,
    ),
    /// It is not what the field is about.
    #[error("is not {0}; correct the path, or remove it from the config")]
    NotA(
        /// Expected kind.
        &'static str,
    ),
}

impl Problem {
    #[cfg(target_os = "linux")]
    pub(crate) fn error_number(self) -> i32 {
        match self {
            Self::Missing(error) => error,
            Self::NotA("a directory") => libc::ENOTDIR,
            Self::NotUtf8 | Self::Relative | Self::NotA(_) => libc::EINVAL,
        }
    }
}

impl SandboxPolicy {
    /// Checks that every path is absolute UTF-8, and that what is granted exists and is of the right kind.
    ///
    /// # Errors
    /// Returns the first path that cannot be granted, with its field.
    pub fn validate(&self) -> Result<(), InvalidPath> {
        self.paths().try_for_each(|(field, path)| check_text(field, path))?;
        self.paths().try_for_each(|(field, path)| {
            let invalid = |problem| Err(InvalidPath { field, path: path.to_owned(), problem });
            let expected = match field {
                "names.roots" | "temporary" => "a directory",
                "sockets" => "a socket",
                "devices" => "a device, or a directory of devices",
                _ => return Ok(()),
            };
            match path.metadata() {
                Err(error) => invalid(Problem::Missing(error.raw_os_error().unwrap_or_default())),
                Ok(file) if is_kind(field, &file) => Ok(()),
                Ok(_) => invalid(Problem::NotA(expected)),
            }
        })
    }

    fn paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        fn of<'a>(
            field: &'static str,
            paths: impl IntoIterator<Item = &'a PathBuf>,
        ) -> impl Iterator<Item = (&'static str, &'a Path)> {
            paths.into_iter().map(move |path| (field, path.as_path()))
        }
        of("names.roots", &self.names.roots)
            .chain(of("temporary", [&self.temporary]))
            .chain(of("home", &self.home))
            .chain(of("names.places", &self.names.places))
            .chain(of("names.git_dirs", &self.names.git_dirs))
            .chain(of("names.guarded", &self.names.guarded))
            .chain(of("sockets", &self.sockets))
            .chain(of("devices", &self.devices))
    }

    /// Checks that a helper can receive the paths.
    #[cfg(target_os = "linux")]
    pub(crate) fn check_texts(&self, program: &Program) -> Result<(), InvalidPath> {
        check_text("program.path", &program.path)?;
        check_text("program.directory", &program.directory)?;
        self.paths().try_for_each(|(field, path)| check_text(field, path))
    }
}

fn check_text(field: &'static str, path: &Path) -> Result<(), InvalidPath> {
    let invalid = |problem| Err(InvalidPath { field, path: path.to_owned(), problem });
    if path.to_str().is_none() {
        return invalid(Problem::NotUtf8);
    }
    if path.is_absolute() { Ok(()) } else { invalid(Problem::Relative) }
}

#[cfg(unix)]
fn is_kind(field: &str, file: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    match field {
        "sockets" => file.file_type().is_socket(),
        "devices" => file.file_type().is_char_device() || file.is_dir(),
        _ => file.is_dir(),
    }
}

#[cfg(not(unix))]
fn is_kind(_: &str, file: &Metadata) -> bool {
    file.is_dir()
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
    /// Bytes of output. The host, which reads it, hangs up after these.
    #[serde(default = "default_output")]
    pub output: u64,
}

fn default_output() -> u64 {
    64 << 20
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 512,
            memory: 8 << 30,
            open_files: 4096,
            file_size: 8 << 30,
            free_disk: 1 << 30,
            output: default_output(),
        }
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
