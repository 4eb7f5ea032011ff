//! The MCP config files of the project and the user, and the store of trusted files.
//!
//! Callers provide the locations; this module does not look for a home directory. Files are written atomically, and
//! the author's comments and formatting are preserved.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use meerkat_mcp::config::{
    ConfigProblem, LoadedServers, Scope, ServerConfig, ServerFile, add_server, load_servers, remove_server,
};
use meerkat_mcp::{TrustError, TrustStore};

use super::disk;
use crate::project::is_same_path;

/// Locations of the MCP config files.
#[derive(Debug, Clone, Default)]
pub struct ServerFiles {
    project: Option<PathBuf>,
    user: Option<PathBuf>,
    store: Option<PathBuf>,
}

/// Trust in the project's file, which decides whether it may start commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectTrust {
    /// The project has no file.
    NoFile,
    /// The user trusts the current content of the file.
    Trusted,
    /// The user does not trust the current content of the file.
    Untrusted,
}

/// A consistent snapshot of the files' entries and the trust in the project's file.
#[derive(Debug, Clone)]
pub struct LoadedServerFiles {
    /// The entries.
    pub entries: LoadedServers,
    /// Trust in the project's file.
    pub trust: ProjectTrust,
}

/// Error of an MCP config file or the trust store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerFilesError {
    /// The file could not be read or written.
    #[error("{} cannot be {doing}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed operation, as a participle.
        doing: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The trust store is damaged.
    #[error("{}", path.display())]
    TrustStore {
        /// Path of the trust store.
        path: PathBuf,
        /// The cause.
        source: TrustError,
    },
    /// An entry is invalid.
    #[error(transparent)]
    Entry(#[from] ConfigProblem),
    /// The location of the file is unknown.
    #[error("cannot locate `mcp.toml`: the {0} directory is unknown")]
    UnknownDirectory(&'static str),
}

/// Modification time and size of a file.
type Stamp = Option<(SystemTime, u64)>;

/// Content that stands for a directory in the trust store: a directory is trusted regardless of its content. Its digest
/// is stored, so it must not change.
const DIR: &str = "folder";

impl ServerFiles {
    /// Locates the files in `.rkat` of the project's directory and of the user's home directory.
    #[must_use]
    pub fn for_dirs(project: Option<&Path>, home: Option<&Path>) -> Self {
        let file = |root: &Path| root.join(".rkat/mcp.toml");
        let user = home.map(file);
        // If the project is the home directory, the file is the user's, not a project's.
        let is_home = |project: &Path| home.is_some_and(|home| is_same_path(home, project));
        let project = project.filter(|project| !is_home(project)).map(file);
        Self { project, user, store: home.map(|home| home.join(".rkat/trust.json")) }
    }

    /// Returns the path of a file.
    ///
    /// # Errors
    /// Returns an error if the location is unknown.
    pub fn path(&self, scope: Scope) -> Result<&Path, ServerFilesError> {
        match scope {
            Scope::Project => self.project.as_deref().ok_or(ServerFilesError::UnknownDirectory("project")),
            Scope::User => self.user.as_deref().ok_or(ServerFilesError::UnknownDirectory("home")),
        }
    }

    /// Returns the trust in the current content of the project's file. To start its entries, use
    /// [`load`](Self::load) instead, which reads the file only once.
    ///
    /// # Errors
    /// Returns an error if the file or the trust store cannot be read.
    pub fn trust(&self) -> Result<ProjectTrust, ServerFilesError> {
        Ok(self.load()?.trust)
    }

    pub(super) fn trust_of(&self, text: &str) -> Result<ProjectTrust, ServerFilesError> {
        let trusted = self.trusts_file(self.path(Scope::Project)?, text)?;
        Ok(if trusted { ProjectTrust::Trusted } else { ProjectTrust::Untrusted })
    }

    /// Trusts the current content of the project's file; returns its path, or `None` if there is no file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or the trust store has no location.
    pub fn trust_project(&self) -> Result<Option<String>, ServerFilesError> {
        match self.read(Scope::Project)? {
            None => Ok(None),
            Some(file) => self.trust_file(self.path(Scope::Project)?, &file.text).map(Some),
        }
    }

    /// Revokes trust in the project's file and directory; returns those of the two that were trusted.
    ///
    /// # Errors
    /// Returns an error if the trust store cannot be read or written.
    pub fn distrust(&self) -> Result<Vec<String>, ServerFilesError> {
        let path = self.store.as_deref().ok_or(ServerFilesError::UnknownDirectory("home"))?;
        let file = disk::real(self.path(Scope::Project)?);
        let dir = self.dir().map(disk::real);
        let mut store = self.store()?;
        let revoked: Vec<_> =
            std::iter::once(file).chain(dir).filter(|trusted| store.forget(trusted)).collect();
        if !revoked.is_empty() {
            disk::write(path, &store.to_text()).map_err(disk::failed(path, "written"))?;
        }
        Ok(revoked)
    }

    /// Returns `true` if the user trusts the project's directory and therefore its skills. A project that is the
    /// user's home directory is always trusted.
    ///
    /// # Errors
    /// Returns an error if the trust store cannot be read.
    pub fn trusts_dir(&self) -> Result<bool, ServerFilesError> {
        match self.dir() {
            None => Ok(true),
            Some(dir) => Ok(self.store()?.trusts(&disk::real(dir), DIR)),
        }
    }

    /// Trusts the project's directory, and returns its path.
    ///
    /// # Errors
    /// Returns an error if the trust store has no location.
    pub fn trust_dir(&self) -> Result<String, ServerFilesError> {
        let dir = disk::real(self.dir().ok_or(ServerFilesError::UnknownDirectory("project"))?);
        self.update_trust(|store| store.trust(&dir, DIR))?;
        Ok(dir)
    }

    /// Returns the directories that the user trusts: projects and single skills.
    ///
    /// # Errors
    /// Returns an error if the trust store cannot be read.
    pub fn trusted_dirs(&self) -> Result<Vec<PathBuf>, ServerFilesError> {
        Ok(self.store()?.trusted(DIR).map(PathBuf::from).collect())
    }

    /// Trusts the directory of a skill: creating or installing a skill implies trust.
    ///
    /// # Errors
    /// Returns an error if the trust store has no location.
    pub fn trust_skill(&self, dir: &Path) -> Result<(), ServerFilesError> {
        self.update_trust(|store| store.trust(&disk::real(dir), DIR))
    }

    /// Revokes trust in the directory of a skill. The directory must still exist.
    ///
    /// # Errors
    /// Returns an error if the trust store has no location.
    pub fn distrust_skill(&self, dir: &Path) -> Result<(), ServerFilesError> {
        self.update_trust(|store| {
            store.forget(&disk::real(dir));
        })
    }

    /// Returns `true` if the user trusts the current content of a file.
    pub(crate) fn trusts_file(&self, path: &Path, text: &str) -> Result<bool, ServerFilesError> {
        Ok(self.store()?.trusts(&disk::real(path), text))
    }

    /// Trusts the current content of a file, and returns the file's absolute path.
    pub(crate) fn trust_file(&self, path: &Path, text: &str) -> Result<String, ServerFilesError> {
        let path = disk::real(path);
        self.update_trust(|store| store.trust(&path, text))?;
        Ok(path)
    }

    /// Revokes trust in a file, and returns its path if it was trusted.
    pub(crate) fn distrust_file(&self, path: &Path) -> Result<Option<String>, ServerFilesError> {
        let path = disk::real(path);
        let mut was_trusted = false;
        self.update_trust(|store| was_trusted = store.forget(&path))?;
        Ok(was_trusted.then_some(path))
    }

    /// Changes the trust store.
    fn update_trust(&self, change: impl FnOnce(&mut TrustStore)) -> Result<(), ServerFilesError> {
        let path = self.store.as_deref().ok_or(ServerFilesError::UnknownDirectory("home"))?;
        let mut store = self.store()?;
        change(&mut store);
        disk::write(path, &store.to_text()).map_err(disk::failed(path, "written"))
    }

    fn dir(&self) -> Option<&Path> {
        self.project.as_deref()?.parent()?.parent()
    }

    /// Reads both files, each once, and determines the trust in the project's file.
    ///
    /// # Errors
    /// Returns an error if a file exists but cannot be read; invalid entries are part of the result.
    pub fn load(&self) -> Result<LoadedServerFiles, ServerFilesError> {
        let project = self.read(Scope::Project)?;
        let trust = match &project {
            None => ProjectTrust::NoFile,
            Some(file) => self.trust_of(&file.text)?,
        };
        let files: Vec<_> = project.into_iter().chain(self.read(Scope::User)?).collect();
        Ok(LoadedServerFiles { entries: load_servers(&files), trust })
    }

    /// Adds an entry, and returns the resulting trust in the project's file. An untrusted file stays untrusted; a file
    /// with only the new entry becomes trusted.
    ///
    /// # Errors
    /// Returns an error if the file does not parse or already has an entry with this name.
    pub fn add(&self, scope: Scope, server: &ServerConfig) -> Result<ProjectTrust, ServerFilesError> {
        let before = self.read(scope)?.map(|file| file.text).unwrap_or_default();
        let after = add_server(&self.label(scope)?, &before, server)?;
        let is_empty = before.trim().is_empty();
        let trust = if is_empty { ProjectTrust::Trusted } else { self.trust_in(scope, &before)? };
        self.replace(scope, &after, trust)?;
        Ok(trust)
    }

    /// Removes an entry, and returns `true` if it existed.
    ///
    /// # Errors
    /// Returns an error if the file does not parse.
    pub fn remove(&self, scope: Scope, name: &str) -> Result<bool, ServerFilesError> {
        let before = self.read(scope)?.map(|file| file.text).unwrap_or_default();
        let Some(after) = remove_server(&self.label(scope)?, &before, name)? else { return Ok(false) };
        self.replace(scope, &after, self.trust_in(scope, &before)?)?;
        Ok(true)
    }

    /// Returns the trust in the current content of a file; the user's own is always trusted.
    fn trust_in(&self, scope: Scope, text: &str) -> Result<ProjectTrust, ServerFilesError> {
        if scope == Scope::User { Ok(ProjectTrust::Trusted) } else { self.trust_of(text) }
    }

    /// Writes a file. Trust is recorded before the file is written, so that no reader sees it untrusted.
    fn replace(&self, scope: Scope, text: &str, trust: ProjectTrust) -> Result<(), ServerFilesError> {
        let path = self.path(scope)?;
        if scope == Scope::Project {
            // The real path of a missing file is known only once its directory exists.
            disk::make_dir(path).map_err(disk::failed(path, "written"))?;
            if trust == ProjectTrust::Trusted {
                self.trust_file(path, text)?;
            }
        }
        disk::write(path, text).map_err(disk::failed(path, "written"))
    }

    pub(super) fn label(&self, scope: Scope) -> Result<String, ServerFilesError> {
        Ok(self.path(scope)?.display().to_string())
    }

    pub(super) fn read(&self, scope: Scope) -> Result<Option<ServerFile>, ServerFilesError> {
        let Ok(path) = self.path(scope) else { return Ok(None) };
        let text = disk::read(path).map_err(disk::failed(path, "read"))?;
        Ok(text.map(|text| ServerFile { scope, label: path.display().to_string(), text }))
    }

    fn store(&self) -> Result<TrustStore, ServerFilesError> {
        let Some(path) = &self.store else { return Ok(TrustStore::default()) };
        let text = disk::read(path).map_err(disk::failed(path, "read"))?.unwrap_or_default();
        TrustStore::parse(&text).map_err(|source| ServerFilesError::TrustStore { path: path.clone(), source })
    }

    /// Returns stamps that identify the state of the files, at the cost of three `stat` calls.
    pub(super) fn stamps(&self) -> [Stamp; 3] {
        [&self.project, &self.user, &self.store].map(|path| {
            let metadata = std::fs::metadata(path.as_ref()?).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
    }
}
