//! The keys of `registry`: whether other programs may register skills and prompts, and which of their functions agents
//! may call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Skills and prompts that other programs register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryConfig {
    /// Whether what is registered is served and given to agents.
    pub enabled: bool,
    /// The functions of other programs that agents may call as tools, by id; `*` stands for anything. Functions of the
    /// hub itself are never among them.
    pub tools: Vec<String>,
    /// How long a value may take to be read or kept, and a handler to answer, in milliseconds.
    pub state_timeout_ms: u64,
    /// Where the registered content is kept. What was registered elsewhere is no longer found.
    pub scopes: RegistryScopes,
}

/// Where registered content is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryScopes {
    /// Skills.
    pub skills: String,
    /// Prompts.
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
    /// Says what makes no sense.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.state_timeout_ms == 0 {
            return Some("`registry.state_timeout_ms` must be greater than 0".to_owned());
        }
        for (key, scope) in [("skills", &self.scopes.skills), ("prompts", &self.scopes.prompts)] {
            if scope.trim().is_empty() {
                return Some(format!("`registry.scopes.{key}` must not be empty"));
            }
        }
        if self.scopes.skills == self.scopes.prompts {
            return Some("`registry.scopes.prompts` is the scope of the skills; give another".to_owned());
        }
        let blank = self.tools.iter().position(|pattern| pattern.trim().is_empty());
        blank.map(|index| format!("`registry.tools[{index}]` must not be empty"))
    }
}
