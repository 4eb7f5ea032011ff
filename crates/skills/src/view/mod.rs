//! The forms in which skills are served. Each is a function of a snapshot, so they all change together.

mod fit;
mod inventory;
mod listing;
mod nearest;
mod pinned;
mod prompts;
mod resources;
mod tool;
mod xml;

pub use inventory::{Inventory, inject};
pub use listing::{InspectedSkill, ListedSkill, SkillList, inspect, list};
pub(crate) use pinned::LOAD_SKILL;
pub use pinned::pinned_skills;
pub use prompts::{PromptView, prompt, prompts};
pub use resources::{
    DirectoryEntry, ManifestFile, Resource, ResourceText, SkillManifest, directory, manifest, manifests,
    read_resource, resources, uri,
};
pub use tool::{
    Annotations, EMPTY_NAME, SKILL_TOOL, SKILL_TOOL_TITLE, SkillAnswer, skill_tool_annotations,
    skill_tool_answer, skill_tool_description, skill_tool_schema,
};
