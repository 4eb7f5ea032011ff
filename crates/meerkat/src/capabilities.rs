//! Capabilities of a build, and whether a config and a realm make them available.

#[cfg(feature = "skills")]
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meerkat_capabilities::{CapabilityId, CapabilityStatus, Declaration, Presence};
use meerkat_contracts::{CONTRACT_VERSION, CapabilityEntry, CapabilityReport};
use meerkat_store::Backend;

use crate::config::Config;

/// The capabilities of a build, in report order.
#[derive(Debug, Clone)]
pub(crate) struct Capabilities(pub(crate) Arc<[Declaration]>);

impl Capabilities {
    /// Returns `true` if a capability is compiled in.
    pub(crate) fn has(&self, id: CapabilityId) -> bool {
        let is_compiled = |item: &Declaration| item.id == id && !matches!(item.presence, Presence::Absent(_));
        self.0.iter().any(is_compiled)
    }

    /// Returns the capabilities under a config and a realm's backend. Does not need a store.
    pub(crate) fn report(&self, config: &Config, backend: Backend) -> CapabilityReport {
        let entry = |declaration: &Declaration| {
            let mut status = declaration.status(|key| config.is_enabled(key));
            if backend == Backend::Memory
                && status == CapabilityStatus::Available
                && declaration.id == CapabilityId::SessionStore
            {
                let description = "The realm is in memory".to_owned();
                status = CapabilityStatus::DisabledByPolicy { description };
            }
            let description = declaration.id.description().to_owned();
            CapabilityEntry { id: declaration.id, description, status }
        };
        let capabilities = self.0.iter().map(entry).collect();
        CapabilityReport { contract_version: CONTRACT_VERSION, capabilities }
    }

    /// Returns the ids of capabilities that are compiled in and enabled.
    #[cfg(feature = "skills")]
    pub(crate) fn available(&self, config: &Config, backend: Backend) -> BTreeSet<String> {
        let entries = self.report(config, backend).capabilities.into_iter();
        let available = entries.filter(|entry| entry.status == CapabilityStatus::Available);
        available.map(|entry| entry.id.as_str().to_owned()).collect()
    }

    /// Returns instructions for enabling each capability, in case it is unavailable.
    #[cfg(feature = "skills")]
    pub(crate) fn enable_hints(&self) -> BTreeMap<String, String> {
        let gate = |declaration: &Declaration| match declaration.presence {
            Presence::Gated(key) => format!("set `{key}` to `true` in the config"),
            Presence::Absent(feature) => format!("use a build with the cargo feature `{feature}`"),
            // A capability in the build may be missing in a realm in memory.
            Presence::Always => "use a realm that is stored on disk".to_owned(),
        };
        self.0.iter().map(|item| (item.id.as_str().to_owned(), gate(item))).collect()
    }
}
