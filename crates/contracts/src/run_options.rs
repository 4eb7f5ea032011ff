//! Options of a run: skills and hooks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Key of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillKey {
    /// Id of the source it comes from.
    pub source_uuid: String,
    /// Name of the skill.
    pub skill_name: String,
}

/// Form of a skill reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillRefKind {
    /// By its source and its name.
    Structured,
}

/// Reference to a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillRef {
    /// Always `structured`.
    pub kind: SkillRefKind,
    /// Id of the source it comes from.
    pub source_uuid: String,
    /// Name of the skill.
    pub skill_name: String,
}

impl SkillRef {
    /// Returns the key of the referenced skill.
    #[must_use]
    pub fn key(&self) -> SkillKey {
        SkillKey { source_uuid: self.source_uuid.clone(), skill_name: self.skill_name.clone() }
    }
}

/// Request to list or inspect skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillsRequest {
    /// `list` for all of them, `inspect` for one in full.
    pub action: SkillsAction,
    /// Skill to inspect.
    pub skill_key: Option<SkillKey>,
    /// Id of the source to load it from; overrides the key's source.
    pub source: Option<String>,
}

/// Action on skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillsAction {
    /// List them.
    List,
    /// Show one skill in full.
    Inspect,
}

/// Hooks of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookOverrides {
    /// Hooks to add.
    pub entries: Option<Vec<Map<String, Value>>>,
    /// Ids of hooks to skip.
    pub disable: Option<Vec<String>>,
}
