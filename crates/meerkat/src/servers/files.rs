//! The files of MCP servers: the project's and the user's, and the book of those that are trusted.
//!
//! Where they are is given; nothing here looks for a home directory. A file is written whole or not at all, and
//! what an author wrote in it stays as it was.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use meerkat_mcp::config::{
    ConfigProblem, LoadedServers, Scope, ServerConfig, ServerFile, add_server, load_servers, remove_server,
};
use meerkat_mcp::{TrustBook, TrustError};

use super::disk;
use crate::project::is_same;

/// Where the files of servers are.
#[derive(Debug, Clone, Default)]
pub struct ServerFiles {
    project: Option<PathBuf>,
    user: Option<PathBuf>,
    book: Option<PathBuf>,
}

/// Whether the project's file may start programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectTrust {
    /// There is none.
    NoFile,
    /// The user has trusted it as it is.
    Trusted,
    /// The user has not.
    Untrusted,
}

/// What the files say, and whether the project's may start programs: both are of the same moment.
#[derive(Debug, Clone)]
pub struct LoadedFiles {
    /// The entries.
    pub entries: LoadedServers,
    /// Whether those of the project may be started.
    pub trust: ProjectTrust,
}

/// Why a file of servers could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerFilesError {
    /// It could not be read or written.
    #[error("{} cannot be {doing}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was done with it.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The book of trusted files is damaged.
    #[error("{}", path.display())]
    Book {
        /// The book.
        path: PathBuf,
        /// What is wrong with it.
        source: TrustError,
    },
    /// An entry makes no sense.
    #[error(transparent)]
    Entry(#[from] ConfigProblem),
    /// Nobody said where the file is.
    #[error("there is no place for the file of servers: no {0} directory is known")]
    NoPlace(&'static str),
}

/// When a file was last written, and how long it is.
type Stamp = Option<(SystemTime, u64)>;

/// What a directory has in the place of content: it is trusted whatever is in it.
const FOLDER: &str = "directory";

impl ServerFiles {
    /// Says where the files are: in `.rkat` of the project's directory and of the user's own.
    #[must_use]
    pub fn of(project: Option<&Path>, home: Option<&Path>) -> Self {
        let file = |root: &Path| root.join(".rkat/mcp.toml");
        let user = home.map(file);
        // The file of a user who works at home is the user's, not a project's.
        let is_users = |project: &Path| home.is_some_and(|home| is_same(home, project));
        let project = project.filter(|project| !is_users(project)).map(file);
        Self { project, user, book: home.map(|home| home.join(".rkat/trust.json")) }
    }

    /// Says where a file is.
    ///
    /// # Errors
    /// Fails when nobody said where.
    pub fn path(&self, scope: Scope) -> Result<&Path, ServerFilesError> {
        match scope {
            Scope::Project => self.project.as_deref().ok_or(ServerFilesError::NoPlace("project")),
            Scope::User => self.user.as_deref().ok_or(ServerFilesError::NoPlace("home")),
        }
    }

    /// Says whether the project's file, as it is now, may start programs. Whoever starts what is in it asks
    /// [`load`](Self::load) instead, which reads it once.
    ///
    /// # Errors
    /// Fails when the file or the book cannot be read.
    pub fn trust(&self) -> Result<ProjectTrust, ServerFilesError> {
        Ok(self.load()?.trust)
    }

    pub(super) fn trust_of(&self, text: &str) -> Result<ProjectTrust, ServerFilesError> {
        let path = disk::real(self.path(Scope::Project)?);
        let trusted = self.book()?.trusts(&path, text);
        Ok(if trusted { ProjectTrust::Trusted } else { ProjectTrust::Untrusted })
    }

    /// Trusts the project's file as it is, and returns its path; `None` if there is none.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when there is no place to keep trust.
    pub fn trust_project(&self) -> Result<Option<String>, ServerFilesError> {
        match self.read(Scope::Project)? {
            None => Ok(None),
            Some(file) => self.trust_text(&file.text).map(Some),
        }
    }

    /// Trusts neither the project's file nor its directory any longer, and returns what was trusted of them.
    ///
    /// # Errors
    /// Fails when the book cannot be read or written.
    pub fn distrust(&self) -> Result<Vec<String>, ServerFilesError> {
        let place = self.book.as_deref().ok_or(ServerFilesError::NoPlace("home"))?;
        let file = disk::real(self.path(Scope::Project)?);
        let folder = self.folder().map(disk::real);
        let mut book = self.book()?;
        let forgotten: Vec<_> =
            std::iter::once(file).chain(folder).filter(|path| book.forget(path)).collect();
        if !forgotten.is_empty() {
            disk::write(place, &book.to_text()).map_err(disk::failed(place, "written"))?;
        }
        Ok(forgotten)
    }

    /// Says whether the user has trusted the project's directory, and with it what its skills say. A project that is
    /// the user's own directory needs no trust.
    ///
    /// # Errors
    /// Fails when the book cannot be read.
    pub fn trusts_folder(&self) -> Result<bool, ServerFilesError> {
        match self.folder() {
            None => Ok(true),
            Some(folder) => Ok(self.book()?.trusts(&disk::real(folder), FOLDER)),
        }
    }

    /// Trusts the project's directory, and returns its path.
    ///
    /// # Errors
    /// Fails when there is no place to keep trust.
    pub fn trust_folder(&self) -> Result<String, ServerFilesError> {
        let folder = disk::real(self.folder().ok_or(ServerFilesError::NoPlace("project"))?);
        self.note(|book| book.trust(&folder, FOLDER))?;
        Ok(folder)
    }

    /// Lists the directories that the user has trusted, whole projects and single skills.
    ///
    /// # Errors
    /// Fails when the book cannot be read.
    pub fn trusted_folders(&self) -> Result<Vec<PathBuf>, ServerFilesError> {
        Ok(self.book()?.trusted(FOLDER).map(PathBuf::from).collect())
    }

    /// Trusts the directory of one skill: who makes or installs it has chosen it.
    ///
    /// # Errors
    /// Fails when there is no place to keep trust.
    pub fn trust_skill(&self, folder: &Path) -> Result<(), ServerFilesError> {
        self.note(|book| book.trust(&disk::real(folder), FOLDER))
    }

    /// Trusts the directory of one skill no longer. Do it while the directory is there.
    ///
    /// # Errors
    /// Fails when there is no place to keep trust.
    pub fn distrust_skill(&self, folder: &Path) -> Result<(), ServerFilesError> {
        self.note(|book| {
            book.forget(&disk::real(folder));
        })
    }

    /// Says whether the user has trusted a file as it is.
    pub(crate) fn trusts_file(&self, path: &Path, text: &str) -> Result<bool, ServerFilesError> {
        Ok(self.book()?.trusts(&disk::real(path), text))
    }

    /// Trusts a file as it is, and returns its whole path.
    pub(crate) fn trust_file(&self, path: &Path, text: &str) -> Result<String, ServerFilesError> {
        let path = disk::real(path);
        self.note(|book| book.trust(&path, text))?;
        Ok(path)
    }

    /// Trusts a file no longer, and returns its path if it was trusted.
    pub(crate) fn distrust_file(&self, path: &Path) -> Result<Option<String>, ServerFilesError> {
        let path = disk::real(path);
        let mut known = false;
        self.note(|book| known = book.forget(&path))?;
        Ok(known.then_some(path))
    }

    /// Changes the book of what is trusted.
    fn note(&self, change: impl FnOnce(&mut TrustBook)) -> Result<(), ServerFilesError> {
        let place = self.book.as_deref().ok_or(ServerFilesError::NoPlace("home"))?;
        let mut book = self.book()?;
        change(&mut book);
        disk::write(place, &book.to_text()).map_err(disk::failed(place, "written"))
    }

    fn folder(&self) -> Option<&Path> {
        self.project.as_deref()?.parent()?.parent()
    }

    fn trust_text(&self, text: &str) -> Result<String, ServerFilesError> {
        let path = disk::real(self.path(Scope::Project)?);
        self.note(|book| book.trust(&path, text))?;
        Ok(path)
    }

    /// Reads both files, each once: what they say, and whether what is in the project's may be started.
    ///
    /// # Errors
    /// Fails when a file is there and cannot be read; what is wrong in it is part of the answer.
    pub fn load(&self) -> Result<LoadedFiles, ServerFilesError> {
        let project = self.read(Scope::Project)?;
        let trust = match &project {
            None => ProjectTrust::NoFile,
            Some(file) => self.trust_of(&file.text)?,
        };
        let files: Vec<_> = project.into_iter().chain(self.read(Scope::User)?).collect();
        Ok(LoadedFiles { entries: load_servers(&files), trust })
    }

    /// Adds an entry, and says whether the project's file is trusted then. What was there and not trusted stays
    /// so; a file with nothing but what was added is trusted by that act.
    ///
    /// # Errors
    /// Fails when the file does not parse or has an entry of that name.
    pub fn add(&self, scope: Scope, server: &ServerConfig) -> Result<ProjectTrust, ServerFilesError> {
        let before = self.read(scope)?.map(|file| file.text).unwrap_or_default();
        let after = add_server(&self.label(scope)?, &before, server)?;
        let trusted = before.trim().is_empty() || self.is_trusted(scope, &before)?;
        self.replace(scope, &after, trusted.then_some(ProjectTrust::Trusted))?;
        Ok(if trusted { ProjectTrust::Trusted } else { ProjectTrust::Untrusted })
    }

    /// Removes an entry, and says whether there was one.
    ///
    /// # Errors
    /// Fails when the file does not parse.
    pub fn remove(&self, scope: Scope, name: &str) -> Result<bool, ServerFilesError> {
        let before = self.read(scope)?.map(|file| file.text).unwrap_or_default();
        let Some(after) = remove_server(&self.label(scope)?, &before, name)? else { return Ok(false) };
        let trusted = self.is_trusted(scope, &before)?;
        self.replace(scope, &after, trusted.then_some(ProjectTrust::Trusted))?;
        Ok(true)
    }

    fn is_trusted(&self, scope: Scope, text: &str) -> Result<bool, ServerFilesError> {
        Ok(scope == Scope::User || self.trust_of(text)? == ProjectTrust::Trusted)
    }

    /// Writes a file. What is to be trusted is so before it is there, so that nobody meets it half-way.
    fn replace(&self, scope: Scope, text: &str, trust: Option<ProjectTrust>) -> Result<(), ServerFilesError> {
        let path = self.path(scope)?;
        if scope == Scope::Project {
            // The path of a file that is not there yet is known once its directory is.
            disk::make_folder(path).map_err(disk::failed(path, "written"))?;
            if trust == Some(ProjectTrust::Trusted) {
                self.trust_text(text)?;
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

    fn book(&self) -> Result<TrustBook, ServerFilesError> {
        let Some(path) = &self.book else { return Ok(TrustBook::default()) };
        let text = disk::read(path).map_err(disk::failed(path, "read"))?.unwrap_or_default();
        TrustBook::parse(&text).map_err(|source| ServerFilesError::Book { path: path.clone(), source })
    }

    /// Tells one state of the files from another, at the price of three looks at the disk.
    pub(super) fn stamps(&self) -> [Stamp; 3] {
        [&self.project, &self.user, &self.book].map(|path| {
            let found = std::fs::metadata(path.as_ref()?).ok()?;
            Some((found.modified().ok()?, found.len()))
        })
    }
}
