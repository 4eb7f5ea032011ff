//! The storage backend of a realm, and whether its database was created.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Storage backend of a realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A SQLite database, shared by any number of processes.
    Sqlite,
    /// JSON lines. No build supports it, but realms created by other programs may use it.
    Jsonl,
    /// Nothing on disk.
    Memory,
}

impl Backend {
    /// Returns the name used in manifests.
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

/// Error for an unknown backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown backend `{0}`; expected `sqlite` or `memory`")]
pub struct UnknownBackend(String);

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a realm's database was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreMark {
    /// Not known to be created.
    #[default]
    Absent,
    /// Created.
    Created,
}

impl StoreMark {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_absent(&self) -> bool {
        *self == Self::Absent
    }
}
