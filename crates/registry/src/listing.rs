//! Cached listings of registered content, ordered by id. Only the changes since the last read are read again.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize as _;
use serde_json::Value;

use crate::{BusError, Changes, StoredPrompt, StoredSkill, markdown};

const HEAD: &str =
    "# Skills\n\nRead each skill's resource for orientation on when and why to call its functions.\n\n";

/// Summary of a skill, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SkillSummary {
    /// Id of the skill.
    pub id: String,
    /// First heading of the skill, or its id.
    pub title: String,
    /// First paragraph of the skill, truncated if too long.
    pub description: Option<String>,
    /// Size of its text in bytes.
    pub bytes: usize,
    /// Time of registration.
    pub registered_at: String,
}

/// All skills, ordered by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills(pub Vec<Arc<SkillSummary>>);

/// All prompts, ordered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts(pub Vec<StoredPrompt>);

impl Skills {
    /// Returns the index as Markdown.
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

/// Returns an index that reports the error.
pub(crate) fn failed_index(error: &BusError) -> String {
    format!("# Skills\n\n_Error reading skills index: {error}_\n")
}

/// Entry of a listing.
pub(crate) trait Entry: Sized {
    /// List of entries, ordered by name.
    type List: Default;

    /// Reads a value; returns `None` if it is not an entry of this type.
    fn read(value: &Value) -> Option<Self>;

    /// Returns the name, which determines the order.
    fn name(&self) -> &str;

    /// Converts entries in order to a list.
    fn list(entries: Vec<Arc<Self>>) -> Self::List;
}

impl Entry for SkillSummary {
    type List = Skills;

    fn read(value: &Value) -> Option<Self> {
        let StoredSkill { id, skill, registered_at } = StoredSkill::deserialize(value).ok()?;
        let title = markdown::title(&skill).unwrap_or(&id).to_owned();
        let (description, bytes) = (markdown::description(&skill), skill.len());
        Some(Self { id, title, description, bytes, registered_at })
    }

    fn name(&self) -> &str {
        &self.id
    }

    fn list(entries: Vec<Arc<Self>>) -> Skills {
        Skills(entries)
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

    fn list(entries: Vec<Arc<Self>>) -> Prompts {
        Prompts(entries.into_iter().map(Arc::unwrap_or_clone).collect())
    }
}

/// Builds a listing; values that are not entries of this type are skipped.
pub(crate) fn build_list<E: Entry>(values: &[Value]) -> E::List {
    ordered(values.iter().filter_map(E::read).map(Arc::new).collect())
}

fn ordered<E: Entry>(mut entries: Vec<Arc<E>>) -> E::List {
    entries.sort_by(|one, other| one.name().cmp(other.name()));
    E::list(entries)
}

/// A cached listing, updated incrementally from changes to the stored values.
pub(crate) struct CachedListing<E: Entry>(Mutex<CacheState<E>>);

struct CacheState<E: Entry> {
    scope: String,
    revision: u64,
    /// Entries by storage key, which may differ from the entry's name.
    entries: BTreeMap<String, Arc<E>>,
    list: Arc<E::List>,
}

impl<E: Entry> Default for CachedListing<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E: Entry> Default for CacheState<E> {
    fn default() -> Self {
        Self { scope: String::new(), revision: 0, entries: BTreeMap::new(), list: Arc::default() }
    }
}

impl<E: Entry> CachedListing<E> {
    /// Returns the cached revision of a scope.
    pub(crate) fn revision(&self, scope: &str) -> u64 {
        Some(self.state()).filter(|state| state.scope == scope).map_or(0, |state| state.revision)
    }

    /// Applies the changes to a scope since a revision that the listing had. Returns `None` if the listing has since
    /// moved to another scope, so that this scope must be read in full.
    pub(crate) fn update(&self, scope: &str, since: u64, changes: Changes) -> Option<Arc<E::List>> {
        let mut state = self.state();
        if state.scope != scope {
            if since > 0 {
                return None;
            }
            *state = CacheState { scope: scope.to_owned(), ..CacheState::default() };
        }
        // A slow reader must not restore values that faster readers have replaced.
        if changes.revision > state.revision {
            state.apply(changes);
        }
        Some(Arc::clone(&state.list))
    }

    /// Locks the state. It is valid even if a thread panicked while holding the lock.
    fn state(&self) -> MutexGuard<'_, CacheState<E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Entry> CacheState<E> {
    fn apply(&mut self, changes: Changes) {
        if let Some(keys) = changes.keys {
            let remaining: HashSet<String> = keys.into_iter().collect();
            self.entries.retain(|key, _| remaining.contains(key));
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
