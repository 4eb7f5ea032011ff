//! The manifest of a realm. It is written once, and once more to record that the database exists.

use std::fs;
use std::io;
use std::path::Path;

use meerkat_core::{RealmId, Timestamp};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::RealmPaths;
use crate::{Backend, Error, StoreMark};

/// Origin of a realm's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RealmOrigin {
    /// Generated for one process.
    Generated,
    /// Derived from a workspace's path.
    Workspace,
    /// Chosen by a user.
    Explicit,
    /// Created before origins were stored.
    LegacyUnknown,
}

/// Description of a realm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RealmManifest {
    /// The realm.
    pub realm_id: RealmId,
    /// Its storage backend.
    pub backend: Backend,
    /// Origin of its id.
    pub origin: RealmOrigin,
    /// Time of creation, to the second.
    #[serde(serialize_with = "write_seconds")]
    pub created_at: Timestamp,
    /// Directory that it belongs to; missing in realms of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Inode of that directory, which it keeps when it is renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_inode: Option<u64>,
    /// Whether the database was created, so that a missing one is not mistaken for a new realm.
    #[serde(skip_serializing_if = "StoreMark::is_absent")]
    pub store: StoreMark,
}

impl RealmManifest {
    /// Reads the manifest of a realm.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist, or the manifest cannot be read; the latter names the file and the
    /// field.
    pub fn read(state_root: &Path, realm: &RealmId) -> Result<Self, Error> {
        let paths = RealmPaths::new(state_root, realm);
        let found = if paths.exists()? { Self::find(&paths, realm)? } else { None };
        found.ok_or_else(|| Error::RealmNotFound(realm.clone()))
    }

    /// Reads the manifest, if there is one.
    pub(super) fn find(paths: &RealmPaths, realm: &RealmId) -> Result<Option<Self>, Error> {
        Self::find_any(paths, &[realm])
    }

    /// Reads the manifest of a realm with one of these ids, if there is one.
    pub(super) fn find_any(paths: &RealmPaths, realms: &[&RealmId]) -> Result<Option<Self>, Error> {
        let bytes = match fs::read(&paths.manifest) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&paths.manifest, error)),
        };
        let found = Self::parse(&bytes, &paths.manifest)?;
        if !realms.contains(&&found.realm_id) {
            let source =
                serde_json::Error::custom(format!("`{}` is not its directory's name", found.realm_id));
            return Err(Error::Manifest { path: paths.manifest.clone(), field: "realm_id", source });
        }
        Ok(Some(found))
    }

    /// Decodes a manifest that was read from `path`.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let fields: serde_json::Map<_, _> = serde_json::from_slice(bytes)
            .map_err(|source| Error::ManifestSyntax { path: path.to_owned(), source })?;
        let fields = Fields { fields, path };
        let realm_id = fields.get("realm_id")?;
        let Seconds(created_at) = fields.get("created_at")?;
        Ok(Self {
            realm_id,
            backend: fields.get("backend")?,
            origin: fields.get("origin")?,
            created_at,
            workspace: fields.find("workspace")?,
            workspace_inode: fields.find("workspace_inode")?,
            store: fields.find("store")?.unwrap_or_default(),
        })
    }
}

/// The fields of a manifest, decoded one by one so that an error can name the invalid one.
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

/// A time as Unix seconds in a string.
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
