//! The capability report of this build.

use meerkat_capabilities::{CapabilityId, CapabilityStatus, Declaration};
use meerkat_contracts::{CONTRACT_VERSION, CapabilityEntry, CapabilityReport};
use meerkat_store::Backend;

use crate::config::Config;
use crate::features;

/// Returns the capabilities of this build for a config and a realm backend. Does not need a store.
#[must_use]
pub fn capabilities(config: &Config, backend: Backend) -> CapabilityReport {
    let entry = |declaration: Declaration| {
        let mut status = declaration.status(|key| config.is_enabled(key));
        if backend == Backend::Memory
            && status == CapabilityStatus::Available
            && declaration.id == CapabilityId::SessionStore
        {
            status = CapabilityStatus::DisabledByPolicy { description: "The realm is in memory".to_owned() };
        }
        let description = declaration.id.description().to_owned();
        CapabilityEntry { id: declaration.id, description, status }
    };
    let capabilities = features::declarations().into_iter().map(entry).collect();
    CapabilityReport { contract_version: CONTRACT_VERSION, capabilities }
}
