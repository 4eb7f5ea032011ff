//! What the functions take and what is stored. The names of the inputs are part of the errors that callers see.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct RegisterSkillInput {
    pub(crate) id: String,
    pub(crate) skill: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UnregisterSkillInput {
    pub(crate) id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListSkillsInput {}

#[derive(Debug, Deserialize)]
pub(crate) struct ReadResourceInput {
    pub(crate) uri: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EmptyInput {}

#[derive(Debug, Deserialize)]
pub(crate) struct RegisterPromptInput {
    pub(crate) name: String,
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) arguments: Vec<PromptArgument>,
    pub(crate) function_id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UnregisterPromptInput {
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListPromptsInput {}

#[derive(Debug, Deserialize)]
pub(crate) struct PromptGetInput {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Value,
}

/// An argument of a prompt, as clients show it. Nothing checks what is given against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// What it is called.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it has to be given.
    #[serde(default)]
    pub required: bool,
}

/// A skill as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSkill {
    /// Its id.
    pub id: String,
    /// Its text.
    pub skill: String,
    /// When it was registered.
    pub registered_at: String,
}

/// A prompt as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPrompt {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it takes.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// The function that writes it.
    pub function_id: String,
    /// When it was registered.
    pub registered_at: String,
}
