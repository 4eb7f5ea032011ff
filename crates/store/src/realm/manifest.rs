//! The manifest: what a realm is. It is written once, and once more to note that the database exists.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use meerkat_core::{RealmId, Timestamp};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::RealmPaths;
use crate::Error;

/// What keeps a realm's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// One SQLite database, shared by any number of processes.
    Sqlite,
    /// Lines of JSON; no build has it, but realms made by other programs may name it.
    Jsonl,
    /// Nothing on disk.
    Memory,
}

impl Backend {
    /// Returns the name the manifest uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Jsonl => "jsonl",
            Self::Memory => "memory",
        }
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, UnknownBackend> {
        let all = [Self::Sqlite, Self::Jsonl, Self::Memory];
        let found = all.into_iter().find(|backend| backend.as_str() == text);
        found.ok_or_else(|| UnknownBackend(text.to_owned()))
    }
}

/// A backend that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a backend; there are `sqlite`, `jsonl` and `memory`")]
pub struct UnknownBackend(String);

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a realm's id came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Made up for one process.
    Generated,
    /// Derived from a workspace's path.
    Workspace,
    /// Chosen by a user.
    Explicit,
    /// Made before origins were kept.
    LegacyUnknown,
}

/// What a realm is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The realm.
    pub realm_id: RealmId,
    /// What keeps its data.
    pub backend: Backend,
    /// Where its id came from.
    pub origin: Origin,
    /// When it was created, to the second.
    #[serde(serialize_with = "write_seconds")]
    pub created_at: Timestamp,
    /// The directory whose realm it is; realms of earlier versions do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Whether the database was created, so that one that is missing is not taken for a new realm.
    #[serde(skip_serializing_if = "StoreMark::is_absent")]
    pub store: StoreMark,
}

/// Whether a realm's database was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreMark {
    /// It is not known to be.
    #[default]
    Absent,
    /// It was.
    Created,
}

impl StoreMark {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_absent(&self) -> bool {
        *self == Self::Absent
    }
}

impl Manifest {
    /// Reads the manifest of a realm.
    ///
    /// # Errors
    /// Fails when there is no such realm, and when the manifest cannot be read; then it names the file and the
    /// field.
    pub fn read(state_root: &Path, realm: &RealmId) -> Result<Self, Error> {
        let paths = RealmPaths::new(state_root, realm);
        let found = if paths.exists()? { Self::find(&paths, realm)? } else { None };
        found.ok_or_else(|| Error::RealmNotFound(realm.clone()))
    }

    /// Reads the manifest, if there is one.
    pub(super) fn find(paths: &RealmPaths, realm: &RealmId) -> Result<Option<Self>, Error> {
        let bytes = match fs::read(&paths.manifest) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&paths.manifest, error)),
        };
        Self::parse(&bytes, &paths.manifest, realm).map(Some)
    }

    fn parse(bytes: &[u8], path: &Path, realm: &RealmId) -> Result<Self, Error> {
        let fields: serde_json::Map<_, _> = serde_json::from_slice(bytes)
            .map_err(|source| Error::ManifestSyntax { path: path.to_owned(), source })?;
        let fields = Fields { fields, path };
        let realm_id: RealmId = fields.get("realm_id")?;
        if realm_id != *realm {
            let source = serde_json::Error::custom(format!("`{realm_id}` is not its directory's name"));
            return Err(fields.bad("realm_id", source));
        }
        let Seconds(created_at) = fields.get("created_at")?;
        Ok(Self {
            realm_id,
            backend: fields.get("backend")?,
            origin: fields.get("origin")?,
            created_at,
            workspace: fields.find("workspace")?,
            store: fields.find("store")?.unwrap_or_default(),
        })
    }
}

/// The fields of a manifest, read one by one so that an error can name the one that is wrong.
struct Fields<'a> {
    fields: serde_json::Map<String, serde_json::Value>,
    path: &'a Path,
}

impl Fields<'_> {
    fn get<T: DeserializeOwned>(&self, field: &'static str) -> Result<T, Error> {
        let missing = || self.bad(field, serde_json::Error::missing_field(field));
        self.find(field)?.ok_or_else(missing)
    }

    fn find<T: DeserializeOwned>(&self, field: &'static str) -> Result<Option<T>, Error> {
        let value = self.fields.get(field).map(T::deserialize).transpose();
        value.map_err(|source| self.bad(field, source))
    }

    fn bad(&self, field: &'static str, source: serde_json::Error) -> Error {
        Error::Manifest { path: self.path.to_owned(), field, source }
    }
}

/// A time as unix seconds in a string.
struct Seconds(Timestamp);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let seconds = text.parse().map_err(D::Error::custom)?;
        Timestamp::from_second(seconds).map(Self).map_err(D::Error::custom)
    }
}

fn write_seconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.as_second())
}
