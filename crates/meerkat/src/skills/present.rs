//! Skills as agents get them: listed in the system prompt, read with tools, or written out in a prompt.
//!
//! The catalog belongs to the process. What the realm's config says about skills is laid over it each time it
//! is used, and costs nothing as long as the config is the same.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meerkat_contracts::{SkillKey, SkillsAction, SkillsRequest};
use meerkat_core::{FindLasting, ToolSource};
pub(crate) use meerkat_skills::Offered;
use meerkat_skills::view::{InspectedSkill, Inventory, SkillList};
use meerkat_skills::{
    AgentTools, Catalogue, Companion, Embedded, Limits, Policy, Problem, Roots, Source, Trust, companions,
    standard_roots, view,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::files::{Notes, SkillFiles};
use super::repositories::{Repositories, repositories};
use super::{ConfigVersion, Injected};
use crate::config::SkillsConfig;
use crate::{Error, SecretSource, help};

/// The skills of a runtime. Cloning it is cheap; all clones are the same skills.
#[derive(Clone)]
pub struct Skills {
    shared: Arc<Shared>,
}

struct Shared {
    catalogue: Catalogue,
    folders: Vec<Arc<dyn Source>>,
    embedded: Option<Arc<dyn Source>>,
    files: SkillFiles,
    cache: Option<PathBuf>,
    /// Held on threads that may wait, while the catalog is made to follow a config.
    following: Mutex<()>,
    /// Never held while a file is read or written: async tasks wait for it.
    settled: Mutex<Option<Settled>>,
    /// What programs registered; it comes last.
    registered: OnceLock<Arc<dyn Source>>,
}

/// Where skills are.
#[derive(Debug, Clone, Default)]
pub struct SkillsOptions {
    /// The conventional directories, and others.
    pub roots: Roots,
    /// Files with the keys of `skills` in the config, the first of which counts.
    pub files: Vec<PathBuf>,
    /// Where skills from elsewhere are kept; without it, there are none from elsewhere.
    pub cache: Option<PathBuf>,
    /// Whether the skills that came with the program are among them.
    pub supplied: Supplied,
}

/// Whether the skills that came with the program are among those of a runtime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Supplied {
    /// They are.
    #[default]
    Included,
    /// They are not.
    LeftOut,
}

impl SkillsOptions {
    /// Says where the rest is, given the directories: `skills.toml` in `.rkat` of the user's directory, and in that of the
    /// project if the user has trusted it; what is fetched goes beside the user's.
    #[must_use]
    pub fn of(roots: Roots) -> Self {
        let file = |folder: &PathBuf| folder.join(".rkat/skills.toml");
        let project = roots.project.as_ref().filter(|_| roots.trust == Trust::Trusted);
        let files = project.into_iter().chain(&roots.home).map(file).collect();
        let cache = roots.home.as_ref().map(|home| home.join(".rkat/skill-cache"));
        Self { roots, files, cache, supplied: Supplied::default() }
    }
}

/// What the catalog was last made to follow.
struct Settled {
    version: Option<ConfigVersion>,
    config: SkillsConfig,
    capabilities: BTreeSet<String>,
    notes: Arc<Notes>,
    /// They are kept up to date as long as they are kept.
    repositories: Repositories,
    /// Whether what programs registered is among the sources.
    registered: bool,
}

/// What the catalog is to follow.
struct Wanted {
    /// Which config it is, if a realm has it.
    version: Option<ConfigVersion>,
    config: SkillsConfig,
    capabilities: BTreeSet<String>,
}

impl Settled {
    fn wanted(&self) -> Wanted {
        let (config, capabilities) = (self.config.clone(), self.capabilities.clone());
        Wanted { version: self.version.clone(), config, capabilities }
    }

    /// Says whether it is of the same realm and newer.
    fn is_newer(&self, than: &Wanted) -> bool {
        match (&self.version, &than.version) {
            (Some((realm, known)), Some((other, wanted))) => realm == other && known > wanted,
            _ => false,
        }
    }
}

/// Every skill, or one of them in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum SkillsReply {
    List(SkillList),
    Inspect(Box<InspectedSkill>),
}

impl JsonSchema for SkillsReply {
    fn schema_name() -> Cow<'static, str> {
        "SkillsReply".into()
    }

    /// One object with the fields of both, because clients drop tools whose root is a union.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        for schema in [SkillList::json_schema(generator), InspectedSkill::json_schema(generator)] {
            let own = schema.get("properties").and_then(Value::as_object);
            properties.extend(own.into_iter().flatten().map(|(name, shape)| (name.clone(), shape.clone())));
        }
        let schema = json!({ "type": "object", "properties": properties });
        Schema::try_from(schema).unwrap_or_default()
    }
}

impl Default for Skills {
    fn default() -> Self {
        Self::new(SkillsOptions::default())
    }
}

impl Skills {
    /// Makes skills of the directories, and of those that came with the program.
    #[must_use]
    pub fn new(options: SkillsOptions) -> Self {
        let folders = standard_roots(&options.roots, Limits::default());
        let embedded = (options.supplied == Supplied::Included).then(supplied);
        let sources = folders.iter().chain(&embedded).cloned().collect();
        let policy = Policy {
            capabilities: crate::features::available(&crate::Config::default()),
            gates: crate::features::gates(),
            ..Policy::default()
        };
        let catalogue = Catalogue::new(sources, policy);
        let shared = Shared {
            catalogue,
            folders,
            embedded,
            files: SkillFiles(options.files),
            cache: options.cache,
            following: Mutex::default(),
            settled: Mutex::default(),
            registered: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the catalog.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.shared.catalogue
    }

    /// Makes the catalog follow the config, and catch up with what has changed.
    pub(crate) async fn settle(
        &self,
        version: Option<ConfigVersion>,
        config: &SkillsConfig,
        capabilities: BTreeSet<String>,
        secrets: &SecretSource,
    ) {
        let shared = &self.shared;
        let at_hand =
            shared.files.0.is_empty() && shared.folders.is_empty() && config.repositories.is_empty();
        let (skills, config, secrets) = (self.clone(), config.clone(), Arc::clone(secrets));
        let work = move || {
            skills.apply(version, &config, capabilities, &secrets);
            skills.shared.catalogue.catch_up();
        };
        if at_hand {
            return work();
        }
        // It fails only if a source panicked; what was known before stays.
        let _ = tokio::task::spawn_blocking(work).await;
    }

    /// Makes the catalog follow a config where no runtime does: skills are served from it, and nothing is run.
    pub async fn settle_alone(&self, config: &crate::Config, secrets: &SecretSource) {
        self.settle(None, &config.skills, crate::features::available(config), secrets).await;
    }

    /// Lays the files over the config, and makes the catalog follow both. It reads and writes files.
    fn apply(
        &self,
        version: Option<ConfigVersion>,
        config: &SkillsConfig,
        capabilities: BTreeSet<String>,
        secrets: &SecretSource,
    ) {
        let _following = self.shared.following.lock().unwrap_or_else(PoisonError::into_inner);
        let (config, notes) = self.shared.files.over(config);
        self.follow(Wanted { version, config, capabilities }, secrets, notes);
    }

    /// Makes the catalog follow what is wanted, unless that is older than what it follows.
    fn follow(&self, wanted: Wanted, secrets: &SecretSource, notes: Vec<Problem>) {
        let shared = &self.shared;
        let mut settled = self.settled();
        let registered = shared.registered.get().is_some();
        let Wanted { version, config, capabilities } = match &*settled {
            Some(known) if known.is_newer(&wanted) => known.wanted(),
            _ => wanted,
        };
        if let Some(known) = &mut *settled
            && known.config == config
            && known.capabilities == capabilities
            && known.notes.problems() == notes
            && known.registered == registered
        {
            known.version = version;
            return;
        }
        drop(settled);
        let config = &config;
        let notes = Notes::new(notes);
        let more = match &shared.cache {
            Some(cache) if config.enabled => {
                if !config.repositories.is_empty() {
                    // Fetching reports that it cannot be created.
                    let _ = meerkat_store::create_private_dirs(cache);
                }
                repositories(config, cache, secrets, &shared.catalogue)
            }
            _ => Repositories::default(),
        };
        let sources = match config.enabled {
            false => Vec::new(),
            true => {
                let folders = shared.folders.iter().chain(&more.sources);
                let told: Arc<dyn Source> = Arc::clone(&notes) as _;
                let told = (!notes.problems().is_empty()).then_some(told);
                folders.chain(&shared.embedded).chain(shared.registered.get()).cloned().chain(told).collect()
            }
        };
        shared.catalogue.set_sources(sources);
        shared.catalogue.set_policy(Policy {
            capabilities: capabilities.clone(),
            gates: crate::features::gates(),
            turned_off_by: (!config.enabled).then(|| "skills.enabled".to_owned()),
            remaps: remaps(config),
        });
        *self.settled() = Some(Settled {
            version,
            config: config.clone(),
            capabilities,
            notes,
            repositories: more,
            registered,
        });
    }

    /// Adds a source behind all others, from the next settling on. Only the first counts.
    #[cfg(feature = "registry")]
    pub(crate) fn join(&self, source: &Arc<dyn Source>) {
        let _ = self.shared.registered.set(Arc::clone(source));
    }

    /// Looks at the sources now.
    pub(crate) async fn look(&self) {
        let catalogue = self.shared.catalogue.clone();
        // It fails only if a source panicked; what was known before stays.
        let _ = tokio::task::spawn_blocking(move || catalogue.refresh()).await;
    }

    /// Fetches what is new in the configured repositories now, and says how it went with each.
    pub async fn update(&self) -> Vec<(String, Result<(), meerkat_skills::Error>)> {
        let remotes = match &*self.settled() {
            Some(settled) => settled.repositories.remotes.clone(),
            None => Vec::new(),
        };
        let mut outcomes = Vec::with_capacity(remotes.len());
        for remote in remotes {
            outcomes.push((remote.name().to_owned(), remote.fetch(&self.shared.catalogue).await));
        }
        outcomes
    }

    /// Returns the keys that count: those of the config and of the files.
    fn config(&self) -> SkillsConfig {
        self.settled().as_ref().map(|settled| settled.config.clone()).unwrap_or_default()
    }

    fn settled(&self) -> MutexGuard<'_, Option<Settled>> {
        self.shared.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes skills out for a prompt.
    ///
    /// # Errors
    /// Says which of them cannot be had.
    pub(crate) async fn inject(&self, keys: &[SkillKey]) -> Result<Vec<Injected>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let limit = self.config().max_injection_bytes;
        let (catalogue, keys) = (self.shared.catalogue.clone(), keys.to_vec());
        blocking(move || {
            let snapshot = catalogue.snapshot();
            let injected = |key: &SkillKey| {
                let skill = snapshot.by_key(&parsed(key)?).map_err(fault)?;
                Ok(Injected { key: key.clone(), text: view::inject(skill, limit).map_err(fault)? })
            };
            keys.iter().map(injected).collect()
        })
        .await
    }

    /// Writes the list of skills for a system prompt; nothing if there are none.
    pub(crate) fn inventory(&self, offered: Offered) -> Option<String> {
        let config = self.config();
        let inventory = Inventory { threshold: config.inventory_threshold, budget: config.inventory_budget };
        inventory.render(&self.shared.catalogue.snapshot(), offered)
    }

    /// Returns the tools that go with the list.
    pub(crate) fn tools(&self, offered: Offered) -> Option<Arc<dyn ToolSource>> {
        Some(Arc::new(AgentTools::new(self.shared.catalogue.clone(), offered)))
    }

    /// Lists every skill, or shows one.
    pub(crate) async fn answer(&self, request: SkillsRequest) -> Result<SkillsReply, Error> {
        if !self.config().enabled {
            return Err(Error::Disabled { what: "skills", key: "skills.enabled" });
        }
        let catalogue = self.shared.catalogue.clone();
        blocking(move || match request.action {
            SkillsAction::List => Ok(SkillsReply::List(view::list(&catalogue.snapshot()))),
            SkillsAction::Inspect => {
                let missing = || Error::Arguments("`skill_key` is missing".to_owned());
                let key = request.skill_key.ok_or_else(missing)?;
                let key = parsed(&key).map_err(|error| Error::Arguments(format!("`skill_key`: {error}")))?;
                let source = request.source.as_deref().map(str::parse).transpose();
                let source = source.map_err(|error: meerkat_skills::KeyError| {
                    Error::Arguments(format!("`source`: {error}"))
                })?;
                let shown = view::inspect(&catalogue.snapshot(), &key, source).map_err(fault)?;
                Ok(SkillsReply::Inspect(Box::new(shown)))
            }
        })
        .await
    }
}

/// The skills that came with the program.
fn supplied() -> Arc<dyn Source> {
    let mut known: Vec<Companion> = companions().to_vec();
    known.extend(help::companions());
    Arc::new(Embedded::new(&known))
}

/// Finds the skills that an agent goes on reading when its conversation is shortened.
pub(crate) const LASTING: FindLasting = view::in_use;

/// Refuses keys that cannot be those of skills; `place` is where they stand.
pub(crate) fn check(place: &str, keys: &[SkillKey]) -> Result<(), Error> {
    for (index, key) in keys.iter().enumerate() {
        parsed(key).map_err(|error| Error::Arguments(format!("`{place}[{index}]`: {error}")))?;
    }
    Ok(())
}

fn parsed(key: &SkillKey) -> Result<meerkat_skills::SkillKey, Error> {
    let wrong = |error: meerkat_skills::KeyError| Error::Arguments(error.to_string());
    Ok(meerkat_skills::SkillKey {
        source_uuid: key.source_uuid.parse().map_err(wrong)?,
        skill_name: key.skill_name.parse().map_err(wrong)?,
    })
}

fn fault(error: meerkat_skills::Error) -> Error {
    Error::Skill { kind: error.kind(), source: Box::new(error) }
}

/// Remaps that name no possible skill lead nowhere. Of several for one key the first counts.
fn remaps(config: &SkillsConfig) -> BTreeMap<meerkat_skills::SkillKey, meerkat_skills::SkillKey> {
    let remaps = config.identity.remaps.iter();
    let mut known = BTreeMap::new();
    for (from, to) in remaps.filter_map(|remap| Some((parsed(&remap.from).ok()?, parsed(&remap.to).ok()?))) {
        known.entry(from).or_insert(to);
    }
    known
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}
