//! Config and capabilities on the wire.

use meerkat_capabilities::{CapabilityId, CapabilityStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ContractVersion;

/// Action on the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigAction {
    /// Read it.
    Get,
    /// Replace it; omitted keys return to their defaults.
    Set,
    /// Change parts of it.
    Patch,
}

/// Request to read or change the realm's config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRequest {
    /// `get`, `set`, or `patch`.
    pub action: ConfigAction,
    /// The new document, for `set`. Omitted keys return to their defaults; unknown keys are rejected.
    pub config: Option<Map<String, Value>>,
    /// An RFC 7396 merge patch, for `patch`: `null` removes a key, which restores its default.
    pub patch: Option<Map<String, Value>>,
    /// Reject the change unless this is still the current generation.
    pub expected_generation: Option<u64>,
}

/// The config and the realm it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConfigEnvelope {
    /// The full document, including defaults.
    pub config: Value,
    /// Number of times the config was changed.
    pub generation: u64,
    /// The realm's id.
    pub realm_id: String,
    /// The label of this process, if set.
    pub instance_id: Option<String>,
    /// Storage backend of the realm.
    pub backend: String,
    /// Paths of the realm's files; `null` for an in-memory realm.
    pub resolved_paths: Option<ResolvedPaths>,
}

/// Paths of a realm's files.
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

/// Capabilities of this build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CapabilityReport {
    /// Version of the contract.
    pub contract_version: ContractVersion,
    /// Every capability and its status.
    pub capabilities: Vec<CapabilityEntry>,
}

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CapabilityEntry {
    /// Id of the capability.
    pub id: CapabilityId,
    /// Description of the capability.
    pub description: String,
    /// Whether it is available.
    pub status: CapabilityStatus,
}
