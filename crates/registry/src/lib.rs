//! The registry: skills and slash-command prompts that workers register at run time.
//!
//! It consists of eleven functions, `skills::*` and `prompts::*`, and two trigger types that fire whenever a skill or
//! prompt is registered or removed. The [`Registry`] implements the functions; a [`Bus`] routes calls, stores values,
//! and reaches subscribers. This crate does not depend on a protocol, a file system, or a network.

mod bus;
mod descriptor;
mod error;
mod input;
mod listing;
mod markdown;
mod output;
mod registry;
mod subscribers;
mod uri;
mod validate;

pub use bus::{Bus, BusError, Changes, Exchange, Reply, listed_values};
pub use descriptor::{
    Descriptor, PROMPTS_ON_CHANGE, SKILLS_ON_CHANGE, TriggerType, functions, trigger_types,
};
pub use error::{Error, Kind};
pub use input::{PromptArgument, StoredPrompt, StoredSkill};
pub use listing::{Prompts, SkillSummary, Skills};
pub use markdown::{description, title};
pub use registry::{Author, Options, Registry, Scopes, check};
pub use uri::{INDEX, Resource, UriError, is_reserved, parse};
pub use validate::{Invalid, MAX_ID_BYTES, MAX_SKILL_BYTES};
