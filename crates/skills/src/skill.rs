//! One skill as the catalog knows it. The text is not kept; it is read when it is asked for.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use sha2::Digest as _;

use crate::key::hex;
use crate::{SkillKey, SourceId};

/// Who put a skill there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// It came with the program.
    Builtin,
    /// It belongs to the project.
    Project,
    /// It belongs to the user.
    User,
}

impl Scope {
    /// Returns the word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// How a source is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// It is compiled in.
    Embedded,
    /// It is a directory.
    Filesystem,
    /// It is a git repository.
    Git,
    /// It is a server.
    Http,
    /// It is a program.
    Stdio,
    /// Programs register what it has.
    Registry,
}

/// Whether a source is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceStatus {
    /// It is.
    Active,
    /// It is switched off.
    Disabled,
    /// It was replaced by another.
    Retired,
}

/// Where a skill comes from, as callers are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The source's id.
    pub source_uuid: SourceId,
    /// Its name for people; `name@display_name` picks a skill of this source.
    pub display_name: String,
    /// How it is reached.
    pub transport_kind: Transport,
    /// What tells it from another source of the same name.
    pub fingerprint: String,
    /// Whether it is in use.
    pub status: SourceStatus,
}

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes it.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Who may start a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invocation {
    /// The model and the user.
    Anyone,
    /// The user only; the model is not told of it.
    User,
    /// The model only; it is no slash command.
    Model,
    /// Nobody; other skills may refer to it.
    Nobody,
}

impl Invocation {
    /// Says whether the model is told of the skill.
    #[must_use]
    pub const fn by_model(self) -> bool {
        matches!(self, Self::Anyone | Self::Model)
    }

    /// Says whether the user has it as a slash command.
    #[must_use]
    pub const fn by_user(self) -> bool {
        matches!(self, Self::Anyone | Self::User)
    }
}

/// What a skill says of itself beyond name and description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traits {
    /// Tools it wants to use without asking. It is a wish; nothing is granted by it.
    pub allowed_tools: Vec<String>,
    /// Capabilities without which it is of no use.
    pub requires: Vec<String>,
    /// What to write after the slash command.
    pub argument_hint: Option<String>,
    /// Who may start it.
    pub invocation: Invocation,
}

impl Default for Traits {
    fn default() -> Self {
        Self {
            allowed_tools: Vec::new(),
            requires: Vec::new(),
            argument_hint: None,
            invocation: Invocation::Anyone,
        }
    }
}

/// Where the text of a skill is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a directory, with its bundled files.
    Folder {
        /// The directory, with all links resolved.
        folder: PathBuf,
        /// The name of the file in it, `SKILL.md` as a rule.
        file: &'static str,
    },
    /// In memory; there are no bundled files.
    Text(Arc<str>),
}

/// Whether the user has trusted the place a skill comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// It is trusted.
    #[default]
    Trusted,
    /// It came with a directory that the user has not trusted; whoever is given it is told so.
    Untrusted,
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its identity.
    pub key: SkillKey,
    /// What it is called by, as its author wrote it.
    pub name: String,
    /// Its name for people, where it has another one.
    pub title: Option<String>,
    /// When to use it.
    pub description: String,
    /// Who put it there.
    pub scope: Scope,
    /// Its source.
    pub source: Arc<Provenance>,
    /// The digest of its SKILL.md.
    pub digest: Digest,
    /// The size of its SKILL.md in bytes.
    pub size: u64,
    /// What else it says of itself.
    pub traits: Traits,
    /// Whether its place is trusted.
    pub trust: Trust,
    /// Where its text is.
    pub place: Place,
}

impl Skill {
    /// Returns its name for people.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the directory that its relative paths start from, as a model is told.
    #[must_use]
    pub fn base(&self) -> String {
        match &self.place {
            Place::Folder { folder, .. } => folder.display().to_string(),
            Place::Text(_) => format!("skill://{}", self.key.skill_name),
        }
    }
}
