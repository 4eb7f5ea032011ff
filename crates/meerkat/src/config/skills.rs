//! The section `skills`: enabling skills, size limits, and additional sources.

use std::path::PathBuf;

use meerkat_contracts::SkillKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::providers::masked;

/// Skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SkillsConfig {
    /// Whether skills are enabled.
    pub enabled: bool,
    /// Maximum size of one skill in a prompt, in bytes; longer text is truncated.
    pub max_injection_bytes: usize,
    /// Maximum number of skills listed in full in a system prompt, regardless of size.
    pub inventory_threshold: usize,
    /// Maximum size of the list beyond that, in bytes; descriptions are shortened before skills are omitted.
    pub inventory_budget: usize,
    /// Additional skill repositories.
    pub repositories: Vec<SkillRepository>,
    /// Changed skill keys.
    pub identity: SkillIdentity,
}

/// Changed skill keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SkillIdentity {
    /// Mapping from old skill keys to new ones.
    pub remaps: Vec<SkillRemap>,
}

/// A changed skill key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillRemap {
    /// The old key.
    pub from: SkillKey,
    /// The new key.
    pub to: SkillKey,
}

/// A source of skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SkillRepository {
    /// A directory.
    Filesystem {
        /// Name of the repository.
        name: String,
        /// Id that identifies the repository in skill keys.
        #[schemars(with = "String")]
        source_uuid: Uuid,
        /// The directory.
        path: PathBuf,
    },
    /// A git repository.
    Git {
        /// Name of the repository.
        name: String,
        /// Id that identifies the repository in skill keys.
        #[schemars(with = "String")]
        source_uuid: Uuid,
        /// URL; `${NAME}` expands from the environment.
        url: String,
        /// Branch, tag, or commit.
        #[serde(default = "main")]
        git_ref: String,
        /// Kind of `git_ref`.
        #[serde(default)]
        ref_type: GitRefType,
        /// Directory in the repository that contains the skills [default: the whole repository].
        #[serde(default)]
        skills_root: Option<PathBuf>,
        /// Token for HTTPS; `${NAME}` expands from the environment. It is displayed as `***`; writing `***` back keeps
        /// the stored token.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "masked")]
        auth_token: Option<String>,
        /// Private key file for SSH.
        #[serde(default)]
        ssh_key: Option<PathBuf>,
        /// Interval between checks of a branch, in seconds.
        #[serde(default = "five_minutes")]
        refresh_seconds: u64,
        /// Number of commits to fetch.
        #[serde(default = "one")]
        depth: u32,
    },
    /// A server: `GET url` lists skills, `GET url/skills/NAME` returns one.
    Http {
        /// Name of the repository.
        name: String,
        /// Id that identifies the repository in skill keys.
        #[schemars(with = "String")]
        source_uuid: Uuid,
        /// URL; `${NAME}` expands from the environment.
        url: String,
        /// Header for the token [default: sent as a bearer token].
        #[serde(default)]
        auth_header: Option<String>,
        /// Token; `${NAME}` expands from the environment. It is displayed as `***`; writing `***` back keeps the stored
        /// token.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "masked")]
        auth_token: Option<String>,
        /// Interval between requests, in seconds.
        #[serde(default = "five_minutes")]
        refresh_seconds: u64,
        /// Time limit of a response, in seconds.
        #[serde(default = "fifteen")]
        timeout_seconds: u64,
    },
}

/// Kind of a git ref.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitRefType {
    /// A branch, which can move.
    #[default]
    Branch,
    /// A tag.
    Tag,
    /// A commit.
    Commit,
}

/// Reserved ids, used for bundled skills and the conventional directories.
const RESERVED: std::ops::RangeInclusive<u128> =
    0x0000_0000_0000_4b11_8111_0000_0000_0001..=0x0000_0000_0000_4b11_8111_0000_0000_0009;

fn main() -> String {
    "main".to_owned()
}

const fn one() -> u32 {
    1
}

const fn fifteen() -> u64 {
    15
}

const fn five_minutes() -> u64 {
    300
}

impl Default for SkillsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_injection_bytes: 32 * 1024,
            inventory_threshold: 12,
            inventory_budget: 8 * 1024,
            repositories: Vec::new(),
            identity: SkillIdentity::default(),
        }
    }
}

impl SkillRepository {
    /// Returns the name of the repository.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Filesystem { name, .. } | Self::Git { name, .. } | Self::Http { name, .. } => name,
        }
    }

    /// Returns the token as written in the config, if any.
    pub(super) fn auth_token(&self) -> Option<&str> {
        match self {
            Self::Filesystem { .. } => None,
            Self::Git { auth_token, .. } | Self::Http { auth_token, .. } => auth_token.as_deref(),
        }
    }

    /// Returns the id that identifies the repository in skill keys.
    #[must_use]
    pub const fn source_uuid(&self) -> Uuid {
        match self {
            Self::Filesystem { source_uuid, .. }
            | Self::Git { source_uuid, .. }
            | Self::Http { source_uuid, .. } => *source_uuid,
        }
    }
}

impl SkillsConfig {
    /// Returns a description of the first invalid value.
    pub(crate) fn find_error(&self) -> Option<String> {
        if self.max_injection_bytes == 0 {
            return Some("`skills.max_injection_bytes` must be greater than 0".to_owned());
        }
        for (index, repository) in self.repositories.iter().enumerate() {
            let before = &self.repositories[..index];
            let path = format!("`skills.repositories[{index}]");
            if before.iter().any(|other| other.source_uuid() == repository.source_uuid()) {
                return Some(format!("{path}.source_uuid` is already used by another repository"));
            }
            if RESERVED.contains(&repository.source_uuid().as_u128()) {
                return Some(format!(
                    "{path}.source_uuid` is reserved for a built-in source; generate another id"
                ));
            }
            if before.iter().any(|other| other.name() == repository.name()) {
                return Some(format!("{path}.name` is already used by another repository"));
            }
            if repository.name().trim().is_empty() {
                return Some(format!("{path}.name` must not be empty"));
            }
            if matches!(repository, SkillRepository::Filesystem { path, .. } if !path.is_absolute()) {
                return Some(format!("{path}.path` must be an absolute path"));
            }
        }
        None
    }
}
