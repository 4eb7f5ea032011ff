//! The section `registry`: skills and prompts registered by workers, and the worker functions that agents may call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Skills and prompts registered by workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryConfig {
    /// Whether registered skills and prompts are served and given to agents.
    pub enabled: bool,
    /// Worker functions that agents may call as tools, by id; `*` matches anything. Functions of the hub itself are
    /// never included.
    pub tools: Vec<String>,
    /// Time limit for reading or storing a value and for a handler's response, in milliseconds.
    pub state_timeout_ms: u64,
    /// Scopes that contain the registered content. Content registered in other scopes is not found.
    pub scopes: RegistryScopes,
}

/// Scopes that contain the registered content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryScopes {
    /// Scope of skills.
    pub skills: String,
    /// Scope of prompts.
    pub prompts: String,
}

impl Default for RegistryScopes {
    fn default() -> Self {
        Self { skills: "skills".to_owned(), prompts: "prompts".to_owned() }
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self { enabled: true, tools: Vec::new(), state_timeout_ms: 10_000, scopes: RegistryScopes::default() }
    }
}

impl RegistryConfig {
    /// Returns a description of the first invalid value.
    pub(crate) fn find_error(&self) -> Option<String> {
        if self.state_timeout_ms == 0 {
            return Some("`registry.state_timeout_ms` must be greater than 0".to_owned());
        }
        for (key, scope) in [("skills", &self.scopes.skills), ("prompts", &self.scopes.prompts)] {
            if scope.trim().is_empty() {
                return Some(format!("`registry.scopes.{key}` must not be empty"));
            }
        }
        if self.scopes.skills == self.scopes.prompts {
            return Some("`registry.scopes.prompts` must differ from `registry.scopes.skills`".to_owned());
        }
        let blank = self.tools.iter().position(|pattern| pattern.trim().is_empty());
        blank.map(|index| format!("`registry.tools[{index}]` must not be empty"))
    }
}
