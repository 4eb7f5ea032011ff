//! A skill in the catalog. Its text is not cached; it is read on request.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use sha2::Digest as _;

use crate::key::hex;
use crate::{SkillKey, SourceId};

/// Scope of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Built into Meerkat.
    Builtin,
    /// Part of the project.
    Project,
    /// Owned by the user.
    User,
}

impl Scope {
    /// Returns the wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// Transport of a skill source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Compiled into the binary.
    Embedded,
    /// A directory.
    Filesystem,
    /// A git repository.
    Git,
    /// An HTTP server.
    Http,
    /// A command.
    Stdio,
    /// Skills registered by workers.
    Registry,
}

/// Status of a skill source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceStatus {
    /// In use.
    Active,
    /// Disabled.
    Disabled,
    /// Replaced by another source.
    Retired,
}

/// Source of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The source's id.
    pub source_uuid: SourceId,
    /// Its display name; `name@display_name` picks a skill of this source.
    pub display_name: String,
    /// Transport that accesses the source.
    pub transport_kind: Transport,
    /// Distinguishes it from other sources with the same name.
    pub fingerprint: String,
    /// Whether the source is in use.
    pub status: SourceStatus,
}

impl Provenance {
    /// Returns the provenance of an active source.
    #[must_use]
    pub fn new(
        source_uuid: SourceId,
        display_name: &str,
        transport_kind: Transport,
        fingerprint: String,
    ) -> Self {
        let (display_name, status) = (display_name.to_owned(), SourceStatus::Active);
        Self { source_uuid, display_name, transport_kind, fingerprint, status }
    }
}

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn compute(bytes: &[u8]) -> Self {
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

/// Callers that may invoke a skill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Invocation {
    /// The model and the user.
    #[default]
    Anyone,
    /// The user only; it is not listed for the model.
    User,
    /// The model only; it is not a slash command.
    Model,
    /// Neither the model nor the user; other skills may refer to it.
    Neither,
}

impl Invocation {
    /// Returns `true` if the skill is listed for the model.
    #[must_use]
    pub const fn by_model(self) -> bool {
        matches!(self, Self::Anyone | Self::Model)
    }

    /// Returns `true` if the skill is a slash command.
    #[must_use]
    pub const fn by_user(self) -> bool {
        matches!(self, Self::Anyone | Self::User)
    }
}

/// Metadata of a skill other than name and description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillMetadata {
    /// Tools it requests to use without approval. The request is informational and grants nothing.
    pub allowed_tools: Vec<String>,
    /// Capabilities it requires.
    pub requires: Vec<String>,
    /// Hint for the arguments of the slash command.
    pub argument_hint: Option<String>,
    /// Callers that may invoke it.
    pub invocation: Invocation,
}

/// Location of a skill's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillLocation {
    /// In a directory, with its bundled files.
    Directory {
        /// The canonical path of the directory.
        dir: PathBuf,
        /// The name of the file in it, usually `SKILL.md`.
        file: &'static str,
    },
    /// In memory, without bundled files.
    Text(Arc<str>),
}

/// Trust of the user in the location of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Trusted.
    #[default]
    Trusted,
    /// Part of a directory that the user has not trusted; every view of the skill marks it.
    Untrusted,
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The identity.
    pub key: SkillKey,
    /// Its name, as its author wrote it.
    pub name: String,
    /// Its display name, if it differs from the name.
    pub title: Option<String>,
    /// Description of what it does and when to use it.
    pub description: String,
    /// Origin of the skill: built in, the project, or the user.
    pub scope: Scope,
    /// The source.
    pub source: Arc<Provenance>,
    /// The digest of its SKILL.md.
    pub digest: Digest,
    /// The size of its SKILL.md in bytes.
    pub size: u64,
    /// Its other metadata.
    pub traits: SkillMetadata,
    /// Trust in its location.
    pub trust: Trust,
    /// Location of its text.
    pub place: SkillLocation,
}

impl Skill {
    /// Returns its display name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the base directory of its relative paths, as shown to models.
    #[must_use]
    pub fn base(&self) -> String {
        match &self.place {
            SkillLocation::Directory { dir, .. } => dir.display().to_string(),
            SkillLocation::Text(_) => format!("skill://{}", self.key.skill_name),
        }
    }
}
