//! The skills of a runtime's agents.

mod catalog;
mod extension;
mod files;
mod repositories;
#[cfg(test)]
#[cfg(feature = "registry")]
mod tests;

use meerkat_contracts::SkillKey;
use meerkat_core::RealmId;

pub use catalog::{BundledSkills, Skills, SkillsOptions, SkillsReply};
pub(crate) use catalog::{FIND_PINNED, check};
pub(crate) use extension::SkillsExtension;

/// The realm of a config and the config's generation. Configs of the same realm are ordered.
pub(crate) type ConfigVersion = (RealmId, u64);

/// A skill rendered for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) key: SkillKey,
    pub(crate) text: String,
}
