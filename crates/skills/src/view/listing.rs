//! `meerkat_skills`: every skill with where it comes from, and one of them in full.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Error, Provenance, Scope, Skill, SkillKey, Snapshot, SourceId, Trust};

/// A skill in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedSkill {
    /// Its identity.
    pub key: SkillKey,
    /// Its name for people.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Who put it there.
    pub scope: Scope,
    /// Where it comes from.
    pub source: Provenance,
    /// `false` if it came with a directory that the user has not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// Whether it is the one that its name leads to.
    pub is_active: bool,
    /// Who has taken its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadowed_by: Option<Provenance>,
}

/// Every skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkillList {
    /// The skills by name, shadowed ones too.
    pub skills: Vec<ListedSkill>,
}

/// One skill in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InspectedSkill {
    /// Its identity.
    pub key: SkillKey,
    /// Its name for people.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Who put it there.
    pub scope: Scope,
    /// Where it comes from.
    pub source: Provenance,
    /// `false` if it came with a directory that the user has not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// Its text.
    pub body: String,
}

/// Only what is out of the ordinary is said.
fn trusted(skill: &Skill) -> Option<bool> {
    (skill.trust == Trust::Untrusted).then_some(false)
}

/// Lists every skill.
#[must_use]
pub fn list(snapshot: &Snapshot) -> SkillList {
    let listed = snapshot.listed().iter().map(|listed| ListedSkill {
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

/// Shows one skill. It reads the skill's file. `source` picks the source, whatever the key says.
///
/// # Errors
/// Says when there is no such skill, or it cannot be read.
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
