//! The section `shell`.

use std::time::Duration;

use meerkat_tools::{Policy, Sandbox, ShellOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How shell commands are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellConfig {
    /// The shell, by its name or its full path; `bash`, or else `sh`, if not set.
    pub program: Option<String>,
    /// How long a command may take, in seconds, unless it says otherwise.
    pub timeout_secs: u64,
    /// What commands may reach: `workspace` lets them change the workspace and temporary files, read the rest but for
    /// secrets, and reach nobody; `network` lets them use the network too; `off` lets them do all that you may.
    pub sandbox: SandboxMode,
    /// Which commands may be run: `unrestricted` is all, `allow_list` is those that fit a pattern, `deny_list` is
    /// those that do not.
    pub security_mode: SecurityMode,
    /// The patterns: words, in which `*` stands for any letters and, as the last word, for any further words. They are
    /// matched with every command that a line runs.
    pub security_patterns: Vec<String>,
}

/// What commands may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// All that the user may.
    Off,
    /// The workspace.
    #[default]
    Workspace,
    /// The workspace and the network.
    Network,
}

/// Which commands may be run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecurityMode {
    /// All.
    #[default]
    Unrestricted,
    /// Those that fit a pattern.
    #[serde(alias = "allowlist")]
    AllowList,
    /// Those that do not.
    DenyList,
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self {
            program: None,
            timeout_secs: 30,
            sandbox: SandboxMode::Workspace,
            security_mode: SecurityMode::Unrestricted,
            security_patterns: Vec::new(),
        }
    }
}

impl ShellConfig {
    /// Says how the commands of a run are run.
    pub(crate) fn options(&self, timeout_secs: Option<u64>) -> ShellOptions {
        let patterns = self.security_patterns.clone();
        ShellOptions {
            program: self.program.clone(),
            timeout: Duration::from_secs(timeout_secs.unwrap_or(self.timeout_secs)),
            policy: match self.security_mode {
                SecurityMode::Unrestricted => Policy::Any,
                SecurityMode::AllowList => Policy::Allow(patterns),
                SecurityMode::DenyList => Policy::Deny(patterns),
            },
            sandbox: match self.sandbox {
                SandboxMode::Off => Sandbox::Off,
                SandboxMode::Workspace => Sandbox::Workspace,
                SandboxMode::Network => Sandbox::Network,
            },
        }
    }
}
