//! Additions to runs: built-in tools, images, MCP servers, skills, registered functions, and memory. Each is a
//! [`RunExtension`].

mod builtins;
mod error;
mod extension;
mod function;
mod images;
#[cfg(feature = "memory-store-session")]
mod memory;
mod overlay;
#[cfg(feature = "registry")]
mod registry;
#[cfg(feature = "mcp")]
mod servers;
#[cfg(feature = "skills")]
mod skills;

pub(crate) use builtins::{Builtins, RealmToolStorage};
pub(crate) use extension::{CompactionIndex, Contribution, Extensions, RunExtension, RunView};
pub(crate) use function::{FixedTools, check_tool_names};
pub(crate) use images::Images;
#[cfg(feature = "memory-store-session")]
pub(crate) use memory::MemoryExtension;
#[cfg(feature = "registry")]
pub(crate) use registry::RuntimeRegistry;
#[cfg(feature = "mcp")]
pub(crate) use servers::{Persistence, SessionServerChange};
#[cfg(feature = "skills")]
pub(crate) use skills::SkillsExtension;

pub use error::ToolsError;
pub use function::{IntoToolOutput, Tool};
pub use overlay::ToolOverlay;
#[cfg(feature = "registry")]
pub use registry::{HostedHub, HubEndpoint, RealmRegistry, RegistryContents};
#[cfg(feature = "mcp")]
pub use servers::{
    LoadedServerFiles, McpServers, McpServersOptions, NoticeSink, ProjectTrust, ServerEnvironment,
    ServerFiles, ServerFilesError, TokenDir,
};
#[cfg(feature = "skills")]
pub use skills::{BundledSkills, Skills, SkillsOptions, SkillsReply};

use meerkat_contracts::SkillKey;
use meerkat_core::FindPinned;

use crate::request_error::RequestError;

/// Finds the texts to keep in context when a conversation is compacted.
#[cfg(feature = "skills")]
pub(crate) const FIND_PINNED: FindPinned = skills::FIND_PINNED;
#[cfg(not(feature = "skills"))]
pub(crate) const FIND_PINNED: FindPinned = |_| Vec::new();

/// Rejects invalid skill keys; `field` names the field that contains them.
#[cfg(feature = "skills")]
pub(crate) fn check_skill_keys(field: &str, keys: &[SkillKey]) -> Result<(), RequestError> {
    skills::check(field, keys)
}

/// Rejects skill keys in a build without skills.
#[cfg(not(feature = "skills"))]
pub(crate) fn check_skill_keys(_: &str, keys: &[SkillKey]) -> Result<(), RequestError> {
    let absent = RequestError::NotCompiled { what: "loading skills", feature: "skills" };
    if keys.is_empty() { Ok(()) } else { Err(absent) }
}
