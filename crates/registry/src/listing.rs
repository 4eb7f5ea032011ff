//! What is registered, kept in the order of ids. Of what changed since it was read, only that is read again.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize as _;
use serde_json::Value;

use crate::{BusError, Changes, StoredPrompt, StoredSkill, markdown};

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
pub struct Skills(pub Vec<Arc<SkillSummary>>);

/// All prompts, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts(pub Vec<StoredPrompt>);

impl From<Vec<Arc<SkillSummary>>> for Skills {
    fn from(skills: Vec<Arc<SkillSummary>>) -> Self {
        Self(skills)
    }
}

impl From<Vec<Arc<StoredPrompt>>> for Prompts {
    fn from(prompts: Vec<Arc<StoredPrompt>>) -> Self {
        Self(prompts.into_iter().map(Arc::unwrap_or_clone).collect())
    }
}

impl Skills {
    /// Writes the index.
    pub(crate) fn index(&self) -> String {
        let mut text = HEAD.to_owned();
        if self.0.is_empty() {
            text.push_str("_No skills are currently registered._\n");
        }
        for skill in &self.0 {
            text.extend(["- [`", &skill.id, "`](iii://", &skill.id, ") — ", &skill.title]);
            if let Some(description) = &skill.description {
                text.extend([" — ", description]);
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

/// What a listing has an entry of for each value.
pub(crate) trait Entry: Sized {
    /// All entries, in their order.
    type List: Default + From<Vec<Arc<Self>>>;

    /// Reads a value; `None` if it is something else.
    fn read(value: &Value) -> Option<Self>;

    /// What the order is by.
    fn name(&self) -> &str;
}

impl Entry for SkillSummary {
    type List = Skills;

    fn read(value: &Value) -> Option<Self> {
        summary(value).ok()
    }

    fn name(&self) -> &str {
        &self.id
    }
}

impl Entry for StoredPrompt {
    type List = Prompts;

    fn read(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Makes a listing; what is nothing of the kind is left out.
pub(crate) fn listed<E: Entry>(values: &[Value]) -> E::List {
    ordered(values.iter().filter_map(E::read).map(Arc::new).collect())
}

fn ordered<E: Entry>(mut entries: Vec<Arc<E>>) -> E::List {
    entries.sort_by(|one, other| one.name().cmp(other.name()));
    entries.into()
}

/// A listing that is kept up with what is stored, at the cost of what changed.
pub(crate) struct Kept<E: Entry>(Mutex<Known<E>>);

struct Known<E: Entry> {
    scope: String,
    revision: u64,
    /// By the keys of the values, which need not be the names in them.
    entries: BTreeMap<String, Arc<E>>,
    list: Arc<E::List>,
}

impl<E: Entry> Default for Kept<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E: Entry> Default for Known<E> {
    fn default() -> Self {
        Self { scope: String::new(), revision: 0, entries: BTreeMap::new(), list: Arc::default() }
    }
}

impl<E: Entry> Kept<E> {
    /// The revision of a scope that the listing is of.
    pub(crate) fn revision(&self, scope: &str) -> u64 {
        Some(self.known()).filter(|known| known.scope == scope).map_or(0, |known| known.revision)
    }

    /// Takes in what changed in a scope since a revision that the listing had. Returns `None` if it is of another
    /// scope by now, so that all of this one has to be read.
    pub(crate) fn update(&self, scope: &str, since: u64, changes: Changes) -> Option<Arc<E::List>> {
        let mut known = self.known();
        if known.scope != scope {
            if since > 0 {
                return None;
            }
            *known = Known { scope: scope.to_owned(), ..Known::default() };
        }
        // A reader that was slower than others must not bring back what they have replaced.
        if changes.revision > known.revision {
            known.apply(changes);
        }
        Some(Arc::clone(&known.list))
    }

    /// It is whole whatever panicked while it was locked.
    fn known(&self) -> MutexGuard<'_, Known<E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Entry> Known<E> {
    fn apply(&mut self, changes: Changes) {
        if let Some(keys) = changes.keys {
            let left: HashSet<String> = keys.into_iter().collect();
            self.entries.retain(|key, _| left.contains(key));
        }
        for (key, value) in changes.put {
            match E::read(&value) {
                Some(entry) => self.entries.insert(key, Arc::new(entry)),
                None => self.entries.remove(&key),
            };
        }
        self.list = Arc::new(ordered(self.entries.values().cloned().collect()));
        self.revision = changes.revision;
    }
}
