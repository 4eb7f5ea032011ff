//! The section `shell`.

use std::time::Duration;

use meerkat_tools::{Policy, Sandbox, ShellOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Execution of shell commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellConfig {
    /// The shell, by name or absolute path; `bash`, or else `sh`, if not set.
    pub program: Option<String>,
    /// Default time limit of a command, in seconds.
    pub timeout_secs: u64,
    /// Sandbox of commands: `workspace` allows writing to the workspace and temporary files and reading everything
    /// except secrets, without network access; `network` also allows network access; `off` allows everything that you
    /// may do.
    pub sandbox: SandboxMode,
    /// Allowed commands: all with `unrestricted`, those that match a pattern with `allow_list`, those that match none
    /// with `deny_list`.
    pub security_mode: SecurityMode,
    /// Patterns for `security_mode`: words, in which `*` matches any characters and, as the last word, any further
    /// words. They are matched against every command that a line runs.
    pub security_patterns: Vec<String>,
}

/// Sandbox of shell commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// No sandbox.
    Off,
    /// Access to the workspace only.
    #[default]
    Workspace,
    /// Access to the workspace and the network.
    Network,
}

/// Restriction of shell commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecurityMode {
    /// All commands are allowed.
    #[default]
    Unrestricted,
    /// Only commands that match a pattern are allowed.
    #[serde(alias = "allowlist")]
    AllowList,
    /// Commands that match a pattern are rejected.
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
    /// Returns the shell options of a run.
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
