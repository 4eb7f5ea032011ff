//! All skills at one moment. A snapshot is immutable; a change creates a new one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::Arc;

use crate::problem::{Effect, Problem};
use crate::source::ScanResult;
use crate::{Error, Provenance, Scope, Skill, SkillKey, SkillName, path};
use meerkat_core::excerpt;

/// Maximum length of a remap chain. A longer one is treated as cyclic.
const MAX_HOPS: usize = 16;

/// Settings that decide, together with the sources, which skills are available.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Available capabilities; a skill that requires another one is withheld.
    pub capabilities: BTreeSet<String>,
    /// Instructions for enabling each capability that can be unavailable.
    pub gates: BTreeMap<String, String>,
    /// Setting that disables all skills, if they are disabled.
    pub turned_off_by: Option<String>,
    /// Replaced keys, with their replacements.
    pub remaps: BTreeMap<SkillKey, SkillKey>,
}

impl Policy {
    /// Returns the first capability that a skill requires and that is not available.
    fn missing<'a>(&self, skill: &'a Skill) -> Option<&'a str> {
        skill.traits.requires.iter().map(String::as_str).find(|needed| !self.capabilities.contains(*needed))
    }

    fn gate(&self, capability: &str) -> &str {
        self.gates.get(capability).map_or("`rkat capabilities` lists what is available", String::as_str)
    }
}

/// Skills to list for an agent. Every skill can be read by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SkillFilter {
    /// All skills.
    #[default]
    All,
    /// Skills of the user and the project, without built-in ones.
    ExcludeBuiltin,
}

/// A skill in a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotEntry {
    /// The skill.
    pub skill: Arc<Skill>,
    /// Source of the skill that shadows it, if any.
    pub shadowed_by: Option<Arc<Provenance>>,
}

/// All skills at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    generation: u64,
    entries: Vec<SnapshotEntry>,
    names: HashMap<String, usize>,
    keys: HashMap<SkillKey, usize>,
    sources: Vec<Arc<Provenance>>,
    problems: Vec<Problem>,
    /// Skills that need a capability that is not available.
    withheld: Vec<Arc<Skill>>,
    policy: Arc<Policy>,
}

impl Snapshot {
    /// Creates a snapshot of the sources' skills; earlier sources take precedence.
    pub(crate) fn new(
        generation: u64,
        found: &[Arc<ScanResult>],
        sources: Vec<Arc<Provenance>>,
        policy: &Arc<Policy>,
    ) -> Self {
        let mut snapshot = Self { generation, sources, policy: Arc::clone(policy), ..Self::default() };
        let mut owners: HashMap<&SkillName, &Arc<Provenance>> = HashMap::new();
        let mut seen: HashSet<&OsStr> = HashSet::new();
        snapshot.problems.extend(found.iter().flat_map(|found| found.problems.iter().cloned()));
        // Only the order of the sources sets the precedence. Trust only marks a skill.
        for skill in found.iter().flat_map(|found| &found.skills) {
            // A directory that is reachable by two paths is one skill.
            if let crate::SkillLocation::Directory { dir, .. } = &skill.place
                && !seen.insert(dir.as_os_str())
            {
                continue;
            }
            if let Some(missing) = policy.missing(skill) {
                let reason = format!("needs the capability `{missing}`, which is not available");
                let fix = policy.gate(missing);
                snapshot.problems.push(Problem::new(Effect::Withheld, skill.base(), reason, fix));
                snapshot.withheld.push(Arc::clone(skill));
                continue;
            }
            // Slash commands do not distinguish names that differ only in case and punctuation.
            let shadowed_by = owners.get(&skill.key.skill_name).map(|owner| Arc::clone(owner));
            owners.entry(&skill.key.skill_name).or_insert(&skill.source);
            snapshot.entries.push(SnapshotEntry { skill: Arc::clone(skill), shadowed_by });
        }
        snapshot.index();
        snapshot
    }

    fn index(&mut self) {
        self.entries
            .sort_by_cached_key(|entry| (entry.skill.name.to_lowercase(), entry.shadowed_by.is_some()));
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.shadowed_by.is_none() {
                self.names.insert(entry.skill.name.to_lowercase(), at);
                self.keys.insert(entry.skill.key.clone(), at);
            }
        }
        // The key's name and the title also resolve to a skill, unless another skill has them as its name.
        let active = || self.entries.iter().enumerate().filter(|(_, entry)| entry.shadowed_by.is_none());
        for (at, entry) in active() {
            self.names.entry(entry.skill.key.skill_name.as_str().to_owned()).or_insert(at);
        }
        for (at, entry) in active() {
            if let Some(title) = &entry.skill.title {
                self.names.entry(title.to_lowercase()).or_insert(at);
            }
        }
        // If several skills of a source share a key, it resolves to the one that is available by name.
        for (at, entry) in self.entries.iter().enumerate() {
            self.keys.entry(entry.skill.key.clone()).or_insert(at);
        }
    }

    /// Returns a number that increases with each change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Lists all skills by name, including shadowed ones.
    #[must_use]
    pub fn entries(&self) -> &[SnapshotEntry] {
        &self.entries
    }

    /// Lists the skills that are available by name.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.entries.iter().filter(|entry| entry.shadowed_by.is_none()).map(|entry| &entry.skill)
    }

    /// Lists the skills that are shown to models.
    pub fn for_model(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.active().filter(|skill| skill.traits.invocation.by_model())
    }

    /// Lists the skills that are shown to an agent.
    pub(crate) fn for_agent(&self, filter: SkillFilter) -> impl Iterator<Item = &Arc<Skill>> {
        self.for_model().filter(move |skill| filter == SkillFilter::All || skill.scope != Scope::Builtin)
    }

    /// Lists the problems of skills and sources.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Lists the sources in order of precedence.
    #[must_use]
    pub fn sources(&self) -> &[Arc<Provenance>] {
        &self.sources
    }

    /// Lists the shadowed skills whose text differs from the skill that shadows them, which comes second.
    pub fn collisions(&self) -> impl Iterator<Item = (&SnapshotEntry, &Arc<Skill>)> {
        self.entries.iter().filter(|entry| entry.shadowed_by.is_some()).filter_map(|entry| {
            let winner = self.names.get(entry.skill.key.skill_name.as_str())?;
            let winner = &self.entries[*winner].skill;
            (winner.digest != entry.skill.digest).then_some((entry, winner))
        })
    }

    /// Finds a skill by name or by `name@source`, ignoring case.
    ///
    /// # Errors
    /// Returns an error if no skill has the name, and a different one if the name also looks like a path.
    pub fn by_name(&self, name: &str) -> Result<&Arc<Skill>, Error> {
        let wanted = name.trim().to_lowercase();
        if let Some(at) = self.names.get(&wanted) {
            return Ok(&self.entries[*at].skill);
        }
        let found = wanted.rsplit_once('@').and_then(|(name, source)| self.find_in_source(name, source));
        // A name may have any characters, so only an unknown name is checked for those of a path.
        found.ok_or_else(|| self.missing(name))
    }

    /// Returns the error for a name that no skill has.
    fn missing(&self, name: &str) -> Error {
        let bounded = || excerpt(name);
        let wanted = name.trim().to_lowercase();
        let names = [Some(wanted.as_str()), wanted.rsplit_once('@').map(|(name, _)| name)];
        let matches = |text: &str| names.contains(&Some(text));
        let withheld = self.missing_capability(bounded(), |skill| {
            let titled = || skill.title.as_ref().is_some_and(|title| matches(&title.to_lowercase()));
            matches(&skill.name.to_lowercase()) || matches(skill.key.skill_name.as_str()) || titled()
        });
        match (withheld, path::name_error(name)) {
            (Some(withheld), _) => withheld,
            (None, Some(why)) => Error::BadName { name: bounded(), why },
            (None, None) => self.turned_off(bounded()).unwrap_or_else(|| Error::NoSuchName(bounded())),
        }
    }

    /// Returns an error with the missing capability, if that is why a skill is unavailable.
    fn missing_capability(&self, name: String, matches: impl Fn(&Skill) -> bool) -> Option<Error> {
        let skill = self.withheld.iter().find(|skill| matches(skill))?;
        let missing = self.policy.missing(skill)?;
        let why = format!("it needs the capability `{missing}`");
        Some(Error::Hidden { name, why, fix: self.policy.gate(missing).to_owned() })
    }

    /// Returns an error with the setting that enables skills, if they are disabled.
    fn turned_off(&self, name: String) -> Option<Error> {
        let key = self.policy.turned_off_by.as_ref()?;
        let why = "skills are turned off".to_owned();
        Some(Error::Hidden { name, why, fix: format!("set `{key}` to `true`") })
    }

    /// Returns the name that resolves to a skill: its own, or `name@source` if it is shadowed. If a source has two
    /// skills of one name, the second has no such name.
    #[must_use]
    pub fn lookup_name(&self, entry: &SnapshotEntry) -> Option<String> {
        let name = &entry.skill.name;
        if entry.shadowed_by.is_none() {
            return Some(name.clone());
        }
        let qualified = format!("{name}@{}", entry.skill.source.display_name);
        let resolves = self.by_name(&qualified).is_ok_and(|found| Arc::ptr_eq(found, &entry.skill));
        resolves.then_some(qualified)
    }

    /// Finds a skill in a source, given by its display name, id, or scope.
    fn find_in_source(&self, name: &str, source: &str) -> Option<&Arc<Skill>> {
        let exact = |skill: &Skill| skill.name.to_lowercase() == name;
        let near = |skill: &Skill| skill.key.skill_name.as_str() == name;
        let with = |fits: &dyn Fn(&Skill) -> bool| {
            let find = |called: &dyn Fn(&Skill) -> bool| {
                self.entries.iter().map(|entry| &entry.skill).find(|skill| called(skill) && fits(skill))
            };
            find(&exact).or_else(|| find(&near))
        };
        with(&|skill| skill.source.display_name.to_lowercase() == source)
            .or_else(|| with(&|skill| skill.source.source_uuid.to_string() == source))
            .or_else(|| with(&|skill| skill.scope.as_str() == source))
    }

    /// Finds a skill by key, after remaps. Shadowed skills are found too.
    ///
    /// # Errors
    /// Returns an error if the skill does not exist, or its remaps are cyclic.
    pub fn by_key(&self, key: &SkillKey) -> Result<&Arc<Skill>, Error> {
        let mut wanted = key;
        for _ in 0..MAX_HOPS {
            match self.policy.remaps.get(wanted) {
                Some(next) => wanted = next,
                None => {
                    let missing = || {
                        let withheld = self.missing_capability(key.to_string(), |skill| skill.key == *wanted);
                        let hidden = withheld.or_else(|| self.turned_off(key.to_string()));
                        hidden.unwrap_or_else(|| Error::NoSuchKey(key.clone()))
                    };
                    return self.keys.get(wanted).map(|at| &self.entries[*at].skill).ok_or_else(missing);
                }
            }
        }
        Err(Error::CyclicRemap(key.clone()))
    }
}
