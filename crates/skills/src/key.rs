//! Keys of skills: a source and a plain name within it.

use std::fmt;
use std::str::FromStr;

use meerkat_core::excerpt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Permanent id of a skill source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SourceId(#[schemars(with = "String")] Uuid);

impl SourceId {
    /// The skills that are compiled in.
    pub const EMBEDDED: Self = Self::fixed(1);
    /// The project's `.rkat/skills`.
    pub const PROJECT: Self = Self::fixed(2);
    /// The user's `~/.rkat/skills`.
    pub const USER: Self = Self::fixed(3);

    /// Wraps a UUID that a config chose.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Creates one of the ids reserved for Meerkat.
    pub(crate) const fn fixed(number: u128) -> Self {
        Self(Uuid::from_u128(0x0000_0000_0000_4b11_8111_0000_0000_0000 | number))
    }

    /// Derives a stable id from a location that has no configured one.
    #[must_use]
    pub fn from_location(place: &str) -> Self {
        let digest = Sha256::digest(place.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        let builder = uuid::Builder::from_bytes(bytes).with_version(uuid::Version::Custom);
        Self(builder.with_variant(uuid::Variant::RFC4122).into_uuid())
    }

    /// Returns the UUID.
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SourceId {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Uuid::try_parse(text).map(Self).map_err(|_| KeyError::Source(excerpt(text)))
    }
}

/// The name of a skill inside its source: `a-z`, `0-9` and single hyphens between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct SkillName(String);

impl SkillName {
    /// Creates the nearest valid name for what an author wrote, or one from its digest if it has no ASCII letters or
    /// digits.
    #[must_use]
    pub fn nearest(text: &str) -> Self {
        let mut name = String::with_capacity(text.len());
        for c in text.chars().flat_map(char::to_lowercase) {
            if c.is_ascii_alphanumeric() {
                name.push(c);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        name.truncate(name.trim_end_matches('-').len());
        if name.is_empty() {
            let digest = Sha256::digest(text.as_bytes());
            return Self(format!("skill-{}", hex(&digest[..4])));
        }
        Self(name)
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SkillName {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let edges = text.starts_with('-') || text.ends_with('-') || text.contains("--");
        if text.is_empty() || edges || !text.bytes().all(plain) {
            return Err(KeyError::Name(excerpt(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for SkillName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Identity of a skill in a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillKey {
    /// Id of the source.
    pub source_uuid: SourceId,
    /// Name of the skill within its source.
    pub skill_name: SkillName,
}

impl fmt::Display for SkillKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.source_uuid, self.skill_name)
    }
}

/// Error of parsing a part of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not a UUID.
    #[error("`{0}` is not the id of a skill source; expected a UUID, as listed by `meerkat_skills`")]
    Source(String),
    /// The text is not a valid name.
    #[error("`{0}` is not a skill name; expected lowercase letters, digits, and single hyphens between them")]
    Name(String),
}

/// Formats bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nearest_name_is_derived_from_text() {
        for (written, name) in [
            ("pdf", "pdf"),
            ("My Skill!", "my-skill"),
            ("--a__b--", "a-b"),
            ("ms-office-suite:pdf", "ms-office-suite-pdf"),
            ("Überblick", "berblick"),
        ] {
            assert_eq!(SkillName::nearest(written).as_str(), name);
        }
        assert_eq!(SkillName::nearest("技能"), SkillName::nearest("技能"));
        assert!(SkillName::nearest("技能").as_str().starts_with("skill-"));
    }

    #[test]
    fn keys_round_trip_through_json() {
        let key =
            SkillKey { source_uuid: SourceId::EMBEDDED, skill_name: SkillName::nearest("Task Workflow") };
        let wire = json!({
            "source_uuid": "00000000-0000-4b11-8111-000000000001",
            "skill_name": "task-workflow",
        });
        assert_eq!(serde_json::to_value(&key).unwrap(), wire);
        assert_eq!(serde_json::from_value::<SkillKey>(wire).unwrap(), key);
        for bad in ["", "-a", "a-", "a--b", "A", "a/b", "..", "a b"] {
            assert!(bad.parse::<SkillName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn location_has_a_stable_id() {
        assert_eq!(SourceId::from_location("/srv/skills"), SourceId::from_location("/srv/skills"));
        assert_ne!(SourceId::from_location("/srv/skills"), SourceId::from_location("/srv/other"));
    }
}
