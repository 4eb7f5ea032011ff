//! Registered skills as a source of the catalog. It comes last, so that a worker cannot shadow skills that the user
//! put in a directory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_registry::{Registry, StoredSkill, description, title};
use meerkat_skills::{
    Digest, Invocation, Provenance, ScanResult, Scope, Skill, SkillKey, SkillLocation, SkillMetadata,
    SkillName, Source, SourceId, Transport, Trust,
};
use serde_json::json;

use super::super::Skills;

/// The skills registered by workers.
pub(super) struct RegisteredSkills {
    provenance: Arc<Provenance>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The scope that was last read, and its revision at that time.
    read: Option<(String, u64)>,
    scan: Arc<ScanResult>,
}

impl Default for RegisteredSkills {
    fn default() -> Self {
        let (id, fingerprint) = (SourceId::from_location("registry"), "registry:realm".to_owned());
        let provenance = Provenance::new(id, "registry", Transport::Registry, fingerprint);
        Self { provenance: Arc::new(provenance), state: Mutex::default() }
    }
}

impl RegisteredSkills {
    /// Reads the skills if they have changed; returns whether they did. The source is added to the catalog once it has skills.
    pub(super) async fn update(self: &Arc<Self>, registry: &Registry, skills: &Skills) -> bool {
        let scope = registry.options().scopes.skills.clone();
        let revision = registry.bus().revision(&scope).await;
        if revision == Some(0) {
            return self.clear();
        }
        let read = revision.map(|revision| (scope, revision));
        if read.is_some() && read == self.state().read {
            return false;
        }
        // Skills that cannot be read now are read before the next run.
        let Ok(mut stored) = registry.stored_skills().await else { return false };
        stored.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let scanned = stored.iter().map(|skill| Arc::new(self.skill(skill))).collect();
        *self.state() =
            State { read, scan: Arc::new(ScanResult { skills: scanned, ..ScanResult::default() }) };
        let source: Arc<dyn Source> = Arc::clone(self) as _;
        skills.add_source(&source);
        true
    }

    /// Removes the skills; returns whether there were any.
    pub(super) fn clear(&self) -> bool {
        let mut state = self.state();
        if state.scan.skills.is_empty() {
            return false;
        }
        *state = State::default();
        true
    }

    fn skill(&self, stored: &StoredSkill) -> Skill {
        let title = title(&stored.skill).filter(|title| !title.is_empty());
        let description = description(&stored.skill);
        let description = description.unwrap_or_else(|| title.unwrap_or(&stored.id).to_owned());
        // A JSON string is also a valid YAML string.
        let frontmatter =
            format!("---\nname: {}\ndescription: {}\n---\n\n", json!(stored.id), json!(description));
        let text = format!("{frontmatter}{}", stored.skill);
        Skill {
            key: SkillKey {
                source_uuid: self.provenance.source_uuid,
                skill_name: SkillName::nearest(&stored.id),
            },
            name: stored.id.clone(),
            title: title.map(str::to_owned),
            description,
            scope: Scope::User,
            source: Arc::clone(&self.provenance),
            digest: Digest::compute(text.as_bytes()),
            size: text.len() as u64,
            // Workers register slash commands as prompts, not as skills.
            traits: SkillMetadata { invocation: Invocation::Model, ..SkillMetadata::default() },
            trust: Trust::Trusted,
            place: SkillLocation::Text(Arc::from(text)),
        }
    }

    /// Locks the state. It is valid even if a thread panicked while holding the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for RegisteredSkills {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        Arc::clone(&self.state().scan)
    }
}
