//! The version of the public contract.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Contract version of this build.
pub const CONTRACT_VERSION: ContractVersion = ContractVersion { major: 0, minor: 6, patch: 6 };

/// A version of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContractVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch version.
    pub patch: u32,
}
