//! The skills of a runtime's agents. Without the feature `skills`, there are none, and requests for them fail.

#[cfg_attr(feature = "skills", path = "enabled.rs")]
#[cfg_attr(not(feature = "skills"), path = "disabled.rs")]
mod built;
#[cfg(feature = "skills")]
mod files;
#[cfg(feature = "skills")]
mod repositories;

pub use built::Skills;
#[cfg(feature = "skills")]
pub use built::{BundledSkills, SkillsOptions};
pub(crate) use built::{FIND_PINNED, SkillFilter, SkillsReply, check};
use meerkat_contracts::SkillKey;
use meerkat_core::RealmId;

/// The realm of a config and the config's generation. Configs of the same realm are ordered.
pub(crate) type ConfigVersion = (RealmId, u64);

/// A skill rendered for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) key: SkillKey,
    pub(crate) text: String,
}
