//! Config and capabilities on the wire.

use meerkat_capabilities::{CapabilityId, CapabilityStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ContractVersion;

/// What to do with the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigAction {
    /// Read it.
    Get,
    /// Replace it; what is left out takes its default.
    Set,
    /// Change parts of it.
    Patch,
}

/// Reads or changes the realm's config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRequest {
    /// `get`, `set` or `patch`.
    pub action: ConfigAction,
    /// The new document, for `set`. Keys left out take their defaults; unknown keys are refused.
    pub config: Option<Map<String, Value>>,
    /// An RFC 7396 merge patch, for `patch`: `null` removes a key, so that its default holds again.
    pub patch: Option<Map<String, Value>>,
    /// Refuse the change unless this is still the current generation.
    pub expected_generation: Option<u64>,
}

/// The config and where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConfigEnvelope {
    /// The whole document, defaults included.
    pub config: Value,
    /// How many times it was changed.
    pub generation: u64,
    /// The realm.
    pub realm_id: String,
    /// The name of this process, if it was given one.
    pub instance_id: Option<String>,
    /// Where the realm is stored.
    pub backend: String,
    /// The files; `null` for a realm in memory.
    pub resolved_paths: Option<ResolvedPaths>,
}

/// Where a realm's files are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ResolvedPaths {
    /// The realm's directory.
    pub root: String,
    /// The manifest.
    pub manifest_path: String,
    /// The file that holds the config.
    pub config_path: String,
    /// The database.
    pub sessions_sqlite_path: Option<String>,
}

/// What this build can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CapabilityReport {
    /// The contract it speaks.
    pub contract_version: ContractVersion,
    /// Every capability there is, and whether it can be used.
    pub capabilities: Vec<CapabilityEntry>,
}

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CapabilityEntry {
    /// Its id.
    pub id: CapabilityId,
    /// What it is.
    pub description: String,
    /// Whether it can be used.
    pub status: CapabilityStatus,
}
