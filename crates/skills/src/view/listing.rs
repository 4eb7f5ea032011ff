//! `meerkat_skills`: all skills with their sources, and the details of one.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Error, Provenance, Scope, Skill, SkillKey, Snapshot, SourceId, Trust};

/// A skill in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedSkill {
    /// The identity.
    pub key: SkillKey,
    /// Its display name.
    pub name: String,
    /// Description of what it does and when to use it.
    pub description: String,
    /// Origin of the skill: built in, the project, or the user.
    pub scope: Scope,
    /// The source.
    pub source: Provenance,
    /// `false` if it came with a directory that the user has not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// Whether it is the skill that its name selects; `false` if it is shadowed.
    pub is_active: bool,
    /// Source of the skill that shadows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadowed_by: Option<Provenance>,
}

/// All skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkillList {
    /// The skills by name, including shadowed ones.
    pub skills: Vec<ListedSkill>,
}

/// One skill in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InspectedSkill {
    /// The identity.
    pub key: SkillKey,
    /// Its display name.
    pub name: String,
    /// Description of what it does and when to use it.
    pub description: String,
    /// Origin of the skill: built in, the project, or the user.
    pub scope: Scope,
    /// The source.
    pub source: Provenance,
    /// `false` if it came with a directory that the user has not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// The text.
    pub body: String,
}

/// Returns `Some(false)` for untrusted skills; the default is omitted.
fn trusted(skill: &Skill) -> Option<bool> {
    (skill.trust == Trust::Untrusted).then_some(false)
}

/// Lists all skills.
#[must_use]
pub fn list(snapshot: &Snapshot) -> SkillList {
    let listed = snapshot.entries().iter().map(|listed| ListedSkill {
        key: listed.skill.key.clone(),
        name: listed.skill.display_name().to_owned(),
        description: listed.skill.description.clone(),
        scope: listed.skill.scope,
        source: Provenance::clone(&listed.skill.source),
        trusted: trusted(&listed.skill),
        is_active: listed.shadowed_by.is_none(),
        shadowed_by: listed.shadowed_by.as_deref().cloned(),
    });
    SkillList { skills: listed.collect() }
}

/// Returns the details of one skill. It reads the skill's file. `source` overrides the source in the key.
///
/// # Errors
/// Returns an error if the skill does not exist or cannot be read.
pub fn inspect(
    snapshot: &Snapshot,
    key: &SkillKey,
    source: Option<SourceId>,
) -> Result<InspectedSkill, Error> {
    let skill = match source {
        None => snapshot.by_key(key)?,
        Some(source) => {
            if !snapshot.sources().iter().any(|known| known.source_uuid == source) {
                return Err(Error::NoSuchSource(source));
            }
            snapshot.by_key(&SkillKey { source_uuid: source, skill_name: key.skill_name.clone() })?
        }
    };
    Ok(InspectedSkill {
        key: skill.key.clone(),
        name: skill.display_name().to_owned(),
        description: skill.description.clone(),
        scope: skill.scope,
        source: Provenance::clone(&skill.source),
        trusted: trusted(skill),
        body: skill.read()?.body().to_owned(),
    })
}
