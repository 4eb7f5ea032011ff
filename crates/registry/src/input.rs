//! Inputs of the functions, and stored entries. The type names of the inputs are part of the errors that callers see.

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

/// An argument of a prompt, as displayed by clients. Supplied arguments are not checked against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Description of the argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the argument is required.
    #[serde(default)]
    pub required: bool,
}

/// A stored skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSkill {
    /// Id of the skill.
    pub id: String,
    /// Markdown text of the skill.
    pub skill: String,
    /// Time of registration.
    pub registered_at: String,
}

/// A stored prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPrompt {
    /// Name of the prompt.
    pub name: String,
    /// Description of the prompt.
    pub description: String,
    /// Arguments of the prompt.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// The function that renders the prompt.
    pub function_id: String,
    /// Time of registration.
    pub registered_at: String,
}
