//! The skills of a runtime's agents. Without the feature `skills` there are none, and who asks is told so.

#[cfg_attr(feature = "skills", path = "present.rs")]
#[cfg_attr(not(feature = "skills"), path = "absent.rs")]
mod built;
#[cfg(feature = "skills")]
mod files;
#[cfg(feature = "skills")]
mod repositories;

pub use built::Skills;
pub(crate) use built::{LASTING, Offered, SkillsReply, check};
#[cfg(feature = "skills")]
pub use built::{SkillsOptions, Supplied};
use meerkat_contracts::SkillKey;
use meerkat_core::RealmId;

/// The realm that a config is of, and the config's generation. Configs of one realm are in order.
pub(crate) type ConfigVersion = (RealmId, u64);

/// A skill, written out for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) key: SkillKey,
    pub(crate) text: String,
}
