//! All skills at one moment. A snapshot never changes; a change makes a new one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::Arc;

use crate::problem::{Effect, Problem};
use crate::source::Found;
use crate::{Error, Provenance, Skill, SkillKey, SkillName, path};

/// Remaps longer than this are a circle.
const MAX_HOPS: usize = 16;

/// What decides, besides the sources, which skills there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The capabilities that are available; a skill that requires another one is withheld.
    pub capabilities: BTreeSet<String>,
    /// How to turn on each capability that can be unavailable.
    pub gates: BTreeMap<String, String>,
    /// The setting by which all skills are turned off, if they are.
    pub turned_off_by: Option<String>,
    /// Keys that have become others.
    pub remaps: BTreeMap<SkillKey, SkillKey>,
}

impl Policy {
    /// Returns the first capability that a skill needs and that is not available.
    fn missing<'a>(&self, skill: &'a Skill) -> Option<&'a str> {
        skill.traits.requires.iter().map(String::as_str).find(|needed| !self.capabilities.contains(*needed))
    }

    fn gate(&self, capability: &str) -> &str {
        self.gates.get(capability).map_or("`rkat capabilities` lists what is available", String::as_str)
    }
}

/// A skill in a snapshot.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The skill.
    pub skill: Arc<Skill>,
    /// Who has taken its name, if somebody has.
    pub shadowed_by: Option<Arc<Provenance>>,
}

/// All skills at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    generation: u64,
    listed: Vec<Listed>,
    names: HashMap<String, usize>,
    keys: HashMap<SkillKey, usize>,
    sources: Vec<Arc<Provenance>>,
    problems: Vec<Problem>,
    /// Skills that need a capability that is not available.
    withheld: Vec<Arc<Skill>>,
    policy: Arc<Policy>,
}

impl Snapshot {
    /// Makes a snapshot of what the sources have, the first one winning.
    pub(crate) fn new(
        generation: u64,
        found: &[Arc<Found>],
        sources: Vec<Arc<Provenance>>,
        policy: &Arc<Policy>,
    ) -> Self {
        let mut snapshot = Self { generation, sources, policy: Arc::clone(policy), ..Self::default() };
        let mut owners: HashMap<&SkillName, &Arc<Provenance>> = HashMap::new();
        let mut seen: HashSet<&OsStr> = HashSet::new();
        snapshot.problems.extend(found.iter().flat_map(|found| found.problems.iter().cloned()));
        // The order of the sources decides. Trust only marks a skill.
        for skill in found.iter().flat_map(|found| &found.skills) {
            // Two ways to one directory are one skill.
            if let crate::Place::Folder { folder, .. } = &skill.place
                && !seen.insert(folder.as_os_str())
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
            // Names that differ in case and signs only are one name to a slash command.
            let shadowed_by = owners.get(&skill.key.skill_name).map(|owner| Arc::clone(owner));
            owners.entry(&skill.key.skill_name).or_insert(&skill.source);
            snapshot.listed.push(Listed { skill: Arc::clone(skill), shadowed_by });
        }
        snapshot.index();
        snapshot
    }

    fn index(&mut self) {
        self.listed
            .sort_by_cached_key(|listed| (listed.skill.name.to_lowercase(), listed.shadowed_by.is_some()));
        for (at, listed) in self.listed.iter().enumerate() {
            if listed.shadowed_by.is_none() {
                self.names.insert(listed.skill.name.to_lowercase(), at);
                self.keys.insert(listed.skill.key.clone(), at);
            }
        }
        // A name for people and a name of plain letters lead there too, where nobody has them as a name.
        let active = || self.listed.iter().enumerate().filter(|(_, listed)| listed.shadowed_by.is_none());
        for (at, listed) in active() {
            self.names.entry(listed.skill.key.skill_name.as_str().to_owned()).or_insert(at);
        }
        for (at, listed) in active() {
            if let Some(title) = &listed.skill.title {
                self.names.entry(title.to_lowercase()).or_insert(at);
            }
        }
        // Of several skills of one source with one key, the one that can be had by name has it.
        for (at, listed) in self.listed.iter().enumerate() {
            self.keys.entry(listed.skill.key.clone()).or_insert(at);
        }
    }

    /// Returns a number that grows with each change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Lists every skill by name, shadowed ones too.
    #[must_use]
    pub fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// Lists the skills that can be had by name.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.listed.iter().filter(|listed| listed.shadowed_by.is_none()).map(|listed| &listed.skill)
    }

    /// Lists the skills that a model is told of.
    pub fn for_model(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.active().filter(|skill| skill.traits.invocation.by_model())
    }

    /// Lists what is wrong.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Lists the sources in the order in which they count.
    #[must_use]
    pub fn sources(&self) -> &[Arc<Provenance>] {
        &self.sources
    }

    /// Lists the skills that lost their name to one that says something else.
    pub fn collisions(&self) -> impl Iterator<Item = (&Listed, &Arc<Skill>)> {
        self.listed.iter().filter(|listed| listed.shadowed_by.is_some()).filter_map(|listed| {
            let winner = self.names.get(listed.skill.key.skill_name.as_str())?;
            let winner = &self.listed[*winner].skill;
            (winner.digest != listed.skill.digest).then_some((listed, winner))
        })
    }

    /// Finds a skill by name, in any case, or by `name@source`.
    ///
    /// # Errors
    /// Returns an error if no skill has the name, and another one if the name also looks like a path.
    pub fn by_name(&self, name: &str) -> Result<&Arc<Skill>, Error> {
        let wanted = name.trim().to_lowercase();
        if let Some(at) = self.names.get(&wanted) {
            return Ok(&self.listed[*at].skill);
        }
        let of_source = wanted.rsplit_once('@').and_then(|(name, source)| self.of_source(name, source));
        // A name may have any characters, so only a name that no skill has is checked for those of a path.
        of_source.ok_or_else(|| self.missing(name))
    }

    /// Explains why no skill has this name.
    fn missing(&self, name: &str) -> Error {
        let bounded = || name.chars().take(80).collect();
        let wanted = name.trim().to_lowercase();
        let names = [Some(wanted.as_str()), wanted.rsplit_once('@').map(|(name, _)| name)];
        let is_asked_for = |text: &str| names.contains(&Some(text));
        let withheld = self.withheld(bounded(), |skill| {
            let titled = || skill.title.as_ref().is_some_and(|title| is_asked_for(&title.to_lowercase()));
            is_asked_for(&skill.name.to_lowercase())
                || is_asked_for(skill.key.skill_name.as_str())
                || titled()
        });
        match (withheld, path::bad_name(name)) {
            (Some(withheld), _) => withheld,
            (None, Some(why)) => Error::BadName { name: bounded(), why },
            (None, None) => self.turned_off(bounded()).unwrap_or_else(|| Error::NoSuchName(bounded())),
        }
    }

    /// Explains which capability a skill needs, if that is why it is not there.
    fn withheld(&self, name: String, is_asked_for: impl Fn(&Skill) -> bool) -> Option<Error> {
        let skill = self.withheld.iter().find(|skill| is_asked_for(skill))?;
        let missing = self.policy.missing(skill)?;
        let why = format!("it needs the capability `{missing}`");
        Some(Error::Hidden { name, why, fix: self.policy.gate(missing).to_owned() })
    }

    /// Explains how to turn skills on, if they are off.
    fn turned_off(&self, name: String) -> Option<Error> {
        let key = self.policy.turned_off_by.as_ref()?;
        let why = "skills are turned off".to_owned();
        Some(Error::Hidden { name, why, fix: format!("set `{key}` to `true`") })
    }

    /// Says under which name a skill can be had: its own, or `name@source` if another skill has taken it. Of two with
    /// one name in one source, the second cannot be had at all.
    #[must_use]
    pub fn way_to(&self, listed: &Listed) -> Option<String> {
        let name = &listed.skill.name;
        if listed.shadowed_by.is_none() {
            return Some(name.clone());
        }
        let way = format!("{name}@{}", listed.skill.source.display_name);
        let leads = self.by_name(&way).is_ok_and(|found| Arc::ptr_eq(found, &listed.skill));
        leads.then_some(way)
    }

    /// A source is named by its name, its scope or its id.
    fn of_source(&self, name: &str, source: &str) -> Option<&Arc<Skill>> {
        let exact = |skill: &Skill| skill.name.to_lowercase() == name;
        let near = |skill: &Skill| skill.key.skill_name.as_str() == name;
        let with = |fits: &dyn Fn(&Skill) -> bool| {
            let find = |called: &dyn Fn(&Skill) -> bool| {
                self.listed.iter().map(|listed| &listed.skill).find(|skill| called(skill) && fits(skill))
            };
            find(&exact).or_else(|| find(&near))
        };
        with(&|skill| skill.source.display_name.to_lowercase() == source)
            .or_else(|| with(&|skill| skill.source.source_uuid.to_string() == source))
            .or_else(|| with(&|skill| skill.scope.as_str() == source))
    }

    /// Finds a skill by key, after remaps; a shadowed one is found too.
    ///
    /// # Errors
    /// Says when there is no such skill or the remaps lead in a circle.
    pub fn by_key(&self, key: &SkillKey) -> Result<&Arc<Skill>, Error> {
        let mut wanted = key;
        for _ in 0..MAX_HOPS {
            match self.policy.remaps.get(wanted) {
                Some(next) => wanted = next,
                None => {
                    let missing = || {
                        let withheld = self.withheld(key.to_string(), |skill| skill.key == *wanted);
                        let hidden = withheld.or_else(|| self.turned_off(key.to_string()));
                        hidden.unwrap_or_else(|| Error::NoSuchKey(key.clone()))
                    };
                    return self.keys.get(wanted).map(|at| &self.listed[*at].skill).ok_or_else(missing);
                }
            }
        }
        Err(Error::Circle(key.clone()))
    }
}
