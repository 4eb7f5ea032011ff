//! Realms on disk: one directory per realm, directly inside the state root, named by the realm's id.
//!
//! A realm's manifest is written once and fixes its backend. Everything here blocks on the file system; nothing here
//! reads the environment or the clock.

#[cfg(feature = "sqlite")]
mod adoption;
#[cfg(feature = "sqlite")]
mod backup;
#[cfg(feature = "sqlite")]
mod durable;
mod inventory;
mod manifest;
mod unfinished;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use meerkat_core::{RealmId, Timestamp};
use uuid::Uuid;

#[cfg(feature = "sqlite")]
pub use adoption::{Kinship, adopt_realm};
#[cfg(feature = "sqlite")]
pub use backup::Backup;
pub use inventory::{Force, RealmInfo, RealmList, RealmUser};
pub use manifest::{RealmManifest, RealmOrigin};

use crate::dirs::MANIFEST;
use crate::{Backend, Error, MemoryStore, Store};

/// Options for opening a realm.
#[derive(Debug, Clone)]
pub struct RealmOptions {
    /// The directory that holds the realm directories.
    pub state_root: PathBuf,
    /// The realm.
    pub realm: RealmId,
    /// Origin of the id, stored when the realm is created.
    pub origin: RealmOrigin,
    /// Directory that the realm belongs to, if any, stored when the realm is created.
    pub workspace: Option<PathBuf>,
    /// Backend for a new realm; an existing realm keeps its own.
    pub backend_hint: Option<Backend>,
    /// Name of this process.
    pub instance: Option<String>,
    /// Surface that this process runs.
    pub surface: String,
    /// Current time.
    pub now: Timestamp,
    /// Id of the owner of leases: a new one each time the realm is opened.
    pub owner: Uuid,
}

/// Name of the token file in a realm's directory. A server may write it before the realm is created.
pub const TOKEN_FILE: &str = "token";

impl RealmOptions {
    /// Returns the backend of the realm, or the one it would be created with. An error in its manifest is reported when
    /// it is opened.
    #[must_use]
    pub fn backend(&self) -> Backend {
        let found = RealmManifest::read(&self.state_root, &self.realm).map(|manifest| manifest.backend);
        found.unwrap_or_else(|_| self.backend_hint.unwrap_or(Backend::Sqlite))
    }

    /// Returns the directory of the realm, which need not exist, or `None` for a realm in memory.
    #[must_use]
    pub fn dir(&self) -> Option<PathBuf> {
        let paths = RealmPaths::new(&self.state_root, &self.realm);
        (self.backend() != Backend::Memory).then_some(paths.root)
    }

    /// Checks that the files of a realm that does not exist yet could be created, with a file that is deleted again.
    ///
    /// # Errors
    /// Returns an error if the state root is not writable, or its disk is full.
    pub fn check_creatable(&self) -> Result<(), Error> {
        let Some(dir) = self.dir() else { return Ok(()) };
        let Some(existing) = dir.ancestors().find(|dir| dir.exists()) else { return Ok(()) };
        let path = existing.join(format!(".{}", self.owner));
        let written = File::create_new(&path).and_then(|mut file| file.write_all(&[0; 4096]));
        // A file that was not created need not be deleted.
        let _ = fs::remove_file(&path);
        written.map_err(|error| Error::io(existing, error))
    }
}

/// Paths of the parts of a realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealmPaths {
    /// The realm's directory.
    pub root: PathBuf,
    /// The manifest.
    pub manifest: PathBuf,
    /// The database.
    pub database: PathBuf,
    /// The directory of the owners' files.
    pub leases: PathBuf,
    /// The file with the connection details of the realm's hub, while it is running.
    pub hub: PathBuf,
}

impl RealmPaths {
    /// Returns the paths of a realm, whether or not it exists. A realm id is a plain name, so the paths are inside the
    /// state root.
    #[must_use]
    pub fn new(state_root: &Path, realm: &RealmId) -> Self {
        // A later change of the working directory must not move an open realm.
        let state_root = std::path::absolute(state_root).unwrap_or_else(|_| state_root.to_owned());
        Self::at(state_root.join(realm.as_str()))
    }

    fn at(root: PathBuf) -> Self {
        Self {
            manifest: root.join(MANIFEST),
            database: root.join("sessions.sqlite3"),
            leases: root.join("leases"),
            hub: root.join("hub.json"),
            root,
        }
    }

    /// Returns `true` if the realm's directory exists, and an error if the path is not a directory.
    fn exists(&self) -> Result<bool, Error> {
        match fs::symlink_metadata(&self.root) {
            Ok(metadata) if metadata.is_dir() => Ok(true),
            Ok(_) => Err(Error::RealmPath { path: self.root.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(&self.root, error)),
        }
    }
}

/// Warning about a realm that opened successfully.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The realm exists with a different backend than requested.
    HintIgnored {
        /// The realm.
        realm: RealmId,
        /// The requested backend.
        hint: Backend,
        /// Its actual backend.
        backend: Backend,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HintIgnored { realm, hint, backend } => {
                write!(f, "realm `{realm}` keeps its `{backend}` backend; `{hint}` is ignored")
            }
        }
    }
}

/// An open realm.
pub struct Realm {
    id: RealmId,
    backend: Backend,
    paths: Option<RealmPaths>,
    warnings: Vec<Warning>,
    store: Arc<dyn Store>,
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, backend, paths, warnings, store: _ } = self;
        let mut debug = f.debug_struct("Realm");
        debug.field("id", id).field("backend", backend).field("paths", paths).field("warnings", warnings);
        debug.finish_non_exhaustive()
    }
}

impl Realm {
    /// Opens a realm, creating it if it does not exist. Blocks on the file system.
    ///
    /// A realm on a full or read-only disk opens too: stored data can be read, and each commit tries to write again.
    ///
    /// # Errors
    /// Returns an error if the manifest or the database cannot be read, this build lacks the backend, or a file system
    /// operation fails.
    pub fn open(options: RealmOptions) -> Result<Self, Error> {
        let paths = RealmPaths::new(&options.state_root, &options.realm);
        let manifest = if paths.exists()? { RealmManifest::find(&paths, &options.realm)? } else { None };
        let wanted =
            manifest.as_ref().map_or(options.backend_hint.unwrap_or(Backend::Sqlite), |found| found.backend);
        tracing::debug!(realm = %options.realm, backend = %wanted, "opening realm");
        match wanted {
            Backend::Memory => {
                let mut realm = Self::ephemeral(options.realm);
                realm.warn_of_hint(options.backend_hint);
                Ok(realm)
            }
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => Self::open_sqlite(options, paths, manifest.map(|found| found.store)),
            backend => Err(Error::BackendMissing { realm: options.realm, backend }),
        }
    }

    /// Creates a realm in memory, which ends with the process.
    #[must_use]
    pub fn ephemeral(id: RealmId) -> Self {
        let store = Arc::new(MemoryStore::new());
        Self { id, backend: Backend::Memory, paths: None, warnings: Vec::new(), store }
    }

    /// Returns the realm's id.
    #[must_use]
    pub const fn id(&self) -> &RealmId {
        &self.id
    }

    /// Returns the backend of the realm.
    #[must_use]
    pub const fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the realm's data. The realm is in use until the last of these is dropped.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Returns the paths of the realm, if it is on disk.
    #[must_use]
    pub const fn paths(&self) -> Option<&RealmPaths> {
        self.paths.as_ref()
    }

    /// Returns the warnings for the user.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn warn_of_hint(&mut self, hint: Option<Backend>) {
        if let Some(hint) = hint.filter(|hint| *hint != self.backend) {
            self.warnings.push(Warning::HintIgnored { realm: self.id.clone(), hint, backend: self.backend });
        }
    }
}
