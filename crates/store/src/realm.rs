//! Realms on disk: one directory each, directly inside the state root, named by the realm's id.
//!
//! A realm's manifest is written once and decides its backend from then on. Everything here blocks on the
//! file system; nothing here reads the environment or the clock.

#[cfg(feature = "sqlite")]
mod durable;
mod inventory;
mod manifest;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use meerkat_core::{RealmId, Timestamp};
use uuid::Uuid;

pub use inventory::{Force, RealmInfo, RealmList};
pub use manifest::{Backend, Manifest, Origin, StoreMark, UnknownBackend};

use crate::{Error, MemoryStore, Store};

/// How to open a realm.
#[derive(Debug, Clone)]
pub struct RealmOptions {
    /// The directory that holds the realm directories.
    pub state_root: PathBuf,
    /// The realm.
    pub realm: RealmId,
    /// Where the id came from; kept when the realm is created.
    pub origin: Origin,
    /// The directory whose realm it is, if it is one's; kept when the realm is created.
    pub workspace: Option<PathBuf>,
    /// The backend to create the realm with; an existing realm keeps its own.
    pub backend_hint: Option<Backend>,
    /// What this process calls itself.
    pub instance: Option<String>,
    /// Which program this is.
    pub surface: String,
    /// The time now.
    pub now: Timestamp,
    /// The id leases are held under: a fresh one for every opening.
    pub owner: Uuid,
}

/// The name of the token file in a realm's directory. A server may store it before the realm is created.
pub const TOKEN_FILE: &str = "token";

impl RealmOptions {
    /// Returns the backend that the realm has, or that it is created with. An error in its manifest is reported when it
    /// is opened.
    #[must_use]
    pub fn backend(&self) -> Backend {
        let found = Manifest::read(&self.state_root, &self.realm).map(|manifest| manifest.backend);
        found.unwrap_or_else(|_| self.backend_hint.unwrap_or(Backend::Sqlite))
    }

    /// Returns the directory of the realm, which need not exist; a realm in memory has none.
    #[must_use]
    pub fn dir(&self) -> Option<PathBuf> {
        let paths = RealmPaths::new(&self.state_root, &self.realm);
        (self.backend() != Backend::Memory).then_some(paths.root)
    }
}

/// Where the parts of a realm are.
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
    /// What says how the realm's hub is reached, while there is one.
    pub hub: PathBuf,
}

impl RealmPaths {
    /// Says where a realm is, whether or not it exists. A realm id is a plain name, so the paths are inside
    /// the state root.
    #[must_use]
    pub fn new(state_root: &Path, realm: &RealmId) -> Self {
        // A later change of the working directory must not move an open realm.
        let state_root = std::path::absolute(state_root).unwrap_or_else(|_| state_root.to_owned());
        let root = state_root.join(realm.as_str());
        Self {
            manifest: root.join("realm_manifest.json"),
            database: root.join("sessions.sqlite3"),
            leases: root.join("leases"),
            hub: root.join("hub.json"),
            root,
        }
    }

    /// Whether the realm's directory exists; what is no plain directory is an error.
    fn exists(&self) -> Result<bool, Error> {
        match fs::symlink_metadata(&self.root) {
            Ok(metadata) if metadata.is_dir() => Ok(true),
            Ok(_) => Err(Error::RealmPath { path: self.root.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(&self.root, error)),
        }
    }
}

/// Something the user should know, though the realm opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The realm exists with another backend than the one asked for.
    HintIgnored {
        /// The realm.
        realm: RealmId,
        /// The backend asked for.
        hint: Backend,
        /// The backend it has.
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
    /// A realm on a disk that is full or read-only opens too: what is stored can be read, and each commit tries to
    /// write again.
    ///
    /// # Errors
    /// Fails when the manifest or the database cannot be read, when this build lacks the backend, or when the
    /// file system refuses.
    pub fn open(options: RealmOptions) -> Result<Self, Error> {
        let paths = RealmPaths::new(&options.state_root, &options.realm);
        let manifest = if paths.exists()? { Manifest::find(&paths, &options.realm)? } else { None };
        let wanted =
            manifest.as_ref().map_or(options.backend_hint.unwrap_or(Backend::Sqlite), |found| found.backend);
        tracing::debug!(realm = %options.realm, backend = %wanted, "a realm is opened");
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

    /// Makes a realm that has nothing on disk and ends with the process.
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

    /// Returns the backend the realm has.
    #[must_use]
    pub const fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the realm's data. The realm counts as in use until the last of these is dropped.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Returns where the realm is, if it is on disk.
    #[must_use]
    pub const fn paths(&self) -> Option<&RealmPaths> {
        self.paths.as_ref()
    }

    /// Returns what the user should know.
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
