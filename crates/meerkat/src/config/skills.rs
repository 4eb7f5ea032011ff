//! The keys of `skills`: whether agents have skills, how much of them a prompt may hold, and where else they are.

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
    /// Whether there are skills at all.
    pub enabled: bool,
    /// How many bytes of one skill a prompt may hold; what is longer is cut.
    pub max_injection_bytes: usize,
    /// Up to how many skills are listed in full in a system prompt, whatever their size.
    pub inventory_threshold: usize,
    /// How many bytes the list may have beyond that; descriptions are shortened before any is left out.
    pub inventory_budget: usize,
    /// Further places that skills come from.
    pub repositories: Vec<SkillRepository>,
    /// Names of skills that have changed.
    pub identity: SkillIdentity,
}

/// Names of skills that have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SkillIdentity {
    /// Skills that are found under another key than they used to be.
    pub remaps: Vec<SkillRemap>,
}

/// A skill that has another key now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillRemap {
    /// The key it had.
    pub from: SkillKey,
    /// The key it has.
    pub to: SkillKey,
}

/// A place that skills come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SkillRepository {
    /// A directory.
    Filesystem {
        /// What it is called.
        name: String,
        /// The id that its skills are known by.
        #[schemars(with = "String")]
        source_uuid: Uuid,
        /// The directory.
        path: PathBuf,
    },
    /// A git repository.
    Git {
        /// What it is called.
        name: String,
        /// The id that its skills are known by.
        #[schemars(with = "String")]
        source_uuid: Uuid,
        /// Its address; `${NAME}` stands for a variable.
        url: String,
        /// The branch, tag or commit.
        #[serde(default = "main")]
        git_ref: String,
        /// Which of them it is.
        #[serde(default)]
        ref_type: GitRefType,
        /// The directory of skills in it; without it, all of it.
        #[serde(default)]
        skills_root: Option<PathBuf>,
        /// A token for HTTPS; `${NAME}` stands for a variable. It is shown as `***`, which
        /// stands for the token when it is given back.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "masked")]
        auth_token: Option<String>,
        /// A private key for SSH.
        #[serde(default)]
        ssh_key: Option<PathBuf>,
        /// How often a branch is looked at, in seconds.
        #[serde(default = "five_minutes")]
        refresh_seconds: u64,
        /// How many commits are fetched.
        #[serde(default = "one")]
        depth: u32,
    },
    /// A server: `GET url` lists skills, `GET url/skills/NAME` gives one.
    Http {
        /// What it is called.
        name: String,
        /// The id that its skills are known by.
        #[schemars(with = "String")]
        source_uuid: Uuid,
        /// Its address; `${NAME}` stands for a variable.
        url: String,
        /// The header that the token goes into; without it, as a bearer token.
        #[serde(default)]
        auth_header: Option<String>,
        /// A token; `${NAME}` stands for a variable. It is shown as `***`, which
        /// stands for the token when it is given back.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "masked")]
        auth_token: Option<String>,
        /// How often it is asked, in seconds.
        #[serde(default = "five_minutes")]
        refresh_seconds: u64,
        /// How long it may take to answer, in seconds.
        #[serde(default = "fifteen")]
        timeout_seconds: u64,
    },
}

/// What a git ref is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitRefType {
    /// A branch; it moves.
    #[default]
    Branch,
    /// A tag.
    Tag,
    /// A commit.
    Commit,
}

/// The ids of the skills that are compiled in and of the conventional directories.
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
    /// Returns what it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Filesystem { name, .. } | Self::Git { name, .. } | Self::Http { name, .. } => name,
        }
    }

    /// Returns its token as it is written, if it has one.
    pub(super) fn auth_token(&self) -> Option<&str> {
        match self {
            Self::Filesystem { .. } => None,
            Self::Git { auth_token, .. } | Self::Http { auth_token, .. } => auth_token.as_deref(),
        }
    }

    /// Returns the id that its skills are known by.
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
    /// Says what makes no sense.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.max_injection_bytes == 0 {
            return Some("`skills.max_injection_bytes` must be greater than 0".to_owned());
        }
        for (index, repository) in self.repositories.iter().enumerate() {
            let before = &self.repositories[..index];
            let place = format!("`skills.repositories[{index}]");
            if before.iter().any(|other| other.source_uuid() == repository.source_uuid()) {
                return Some(format!("{place}.source_uuid` is that of another repository"));
            }
            if RESERVED.contains(&repository.source_uuid().as_u128()) {
                return Some(format!(
                    "{place}.source_uuid` is that of a place that is always there; make another one"
                ));
            }
            if before.iter().any(|other| other.name() == repository.name()) {
                return Some(format!("{place}.name` is that of another repository"));
            }
            if repository.name().trim().is_empty() {
                return Some(format!("{place}.name` must not be empty"));
            }
            if matches!(repository, SkillRepository::Filesystem { path, .. } if !path.is_absolute()) {
                return Some(format!("{place}.path` must be a full path"));
            }
        }
        None
    }
}
