//! What is registered, read once for each revision and kept in the order of ids.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize as _;
use serde_json::Value;

use crate::{BusError, StoredPrompt, StoredSkill, markdown};

const HEAD: &str =
    "# Skills\n\nRead each skill's resource for orientation on when and why to call its functions.\n\n";

/// What is said of a skill where its text is not given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SkillSummary {
    /// Its id.
    pub id: String,
    /// Its first heading, or its id.
    pub title: String,
    /// Its first paragraph, cut if need be.
    pub description: Option<String>,
    /// The size of its text in bytes.
    pub bytes: usize,
    /// When it was registered.
    pub registered_at: String,
}

/// All skills, by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills(pub Vec<SkillSummary>);

/// All prompts, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts(pub Vec<StoredPrompt>);

impl Skills {
    /// Makes the listing; what is no skill is left out.
    pub(crate) fn new(values: &[Value]) -> Self {
        let mut skills: Vec<_> = values.iter().filter_map(|value| summary(value).ok()).collect();
        skills.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Self(skills)
    }

    /// Writes the index.
    pub(crate) fn index(&self) -> String {
        let mut text = HEAD.to_owned();
        if self.0.is_empty() {
            text.push_str("_No skills are currently registered._\n");
        }
        for SkillSummary { id, title, description, .. } in &self.0 {
            // Writing to a text cannot fail.
            let _ = write!(text, "- [`{id}`](iii://{id}) — {title}");
            if let Some(description) = description {
                let _ = write!(text, " — {description}");
            }
            text.push('\n');
        }
        text
    }
}

/// Writes the index that says why there is none.
pub(crate) fn failed_index(error: &BusError) -> String {
    format!("# Skills\n\n_Error reading skills index: {error}_\n")
}

fn summary(value: &Value) -> Result<SkillSummary, serde_json::Error> {
    let StoredSkill { id, skill, registered_at } = StoredSkill::deserialize(value)?;
    Ok(SkillSummary {
        title: markdown::title(&skill).unwrap_or(&id).to_owned(),
        description: markdown::description(&skill),
        bytes: skill.len(),
        id,
        registered_at,
    })
}

impl Prompts {
    /// Makes the listing; what is no prompt is left out.
    pub(crate) fn new(values: &[Value]) -> Self {
        let mut prompts: Vec<_> =
            values.iter().filter_map(|value| StoredPrompt::deserialize(value).ok()).collect();
        prompts.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Self(prompts)
    }
}

/// A listing and the revision at which it was read.
pub(crate) struct Cache<T>(Mutex<Option<(u64, Arc<T>)>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Cache<T> {
    pub(crate) fn get(&self, revision: Option<u64>) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(at, _)| Some(*at) == revision).map(|(_, listing)| Arc::clone(listing))
    }

    pub(crate) fn put(&self, revision: Option<u64>, listing: &Arc<T>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A reader that was slower than others must not bring back what they have replaced.
        let is_newer = |at: u64| kept.as_ref().is_none_or(|(known, _)| at > *known);
        if let Some(revision) = revision.filter(|at| is_newer(*at)) {
            *kept = Some((revision, Arc::clone(listing)));
        }
    }
}
