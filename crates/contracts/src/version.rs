//! The version of the public contract.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The contract this build speaks.
pub const CONTRACT_VERSION: ContractVersion = ContractVersion { major: 0, minor: 6, patch: 6 };

/// A version of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContractVersion {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}
