//! What a run may ask for besides: skills and hooks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillKey {
    /// The source it comes from.
    pub source_uuid: String,
    /// Its name.
    pub skill_name: String,
}

/// How a skill is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillRefKind {
    /// By its source and its name.
    Structured,
}

/// Refers to a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillRef {
    /// Always `structured`.
    pub kind: SkillRefKind,
    /// The source it comes from.
    pub source_uuid: String,
    /// Its name.
    pub skill_name: String,
}

impl SkillRef {
    /// Returns the key it refers to.
    #[must_use]
    pub fn key(&self) -> SkillKey {
        SkillKey { source_uuid: self.source_uuid.clone(), skill_name: self.skill_name.clone() }
    }
}

/// Asks for skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillsRequest {
    /// `list` for all of them, `inspect` for one in full.
    pub action: SkillsAction,
    /// Which one to inspect.
    pub skill_key: Option<SkillKey>,
    /// The id of the source to take it from, whatever the key says.
    pub source: Option<String>,
}

/// What to do with skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillsAction {
    /// List them.
    List,
    /// Show one in full.
    Inspect,
}

/// Hooks of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookOverrides {
    /// Hooks to add.
    pub entries: Option<Vec<Map<String, Value>>>,
    /// Ids of hooks to leave out.
    pub disable: Option<Vec<String>>,
}
