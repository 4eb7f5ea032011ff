//! Skills for agents: listed in the system prompt, read with tools, or injected into a prompt.
//!
//! The catalog belongs to the process. The realm's config is applied to it before each use, which costs nothing if the
//! config is unchanged.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use meerkat_contracts::{SkillKey, SkillsAction, SkillsRequest};
use meerkat_core::{FindPinned, ToolSource};
use meerkat_skills::view::{InspectedSkill, Inventory, SkillList};
use meerkat_skills::{
    AgentTools, Catalog, Companion, Embedded, Limits, Policy, Problem, Refreshed, Roots, SkillFilter, Source,
    Trust, companions, standard_roots, view,
};
use meerkat_store::Backend;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::super::ToolsError;
use super::files::{ProblemSource, SkillFiles};
use super::repositories::{Repositories, repositories};
use super::{ConfigVersion, Injected};
use crate::capabilities::Capabilities;
use crate::config::{Config, SkillsConfig};
use crate::help;
use crate::request_error::RequestError;
use crate::secrets::SecretSource;

/// The skills of a runtime. Cloning is cheap; all clones share the same skills.
#[derive(Clone)]
pub struct Skills {
    shared: Arc<Shared>,
}

struct Shared {
    catalog: Catalog,
    dirs: Vec<Arc<dyn Source>>,
    embedded: Option<Arc<dyn Source>>,
    files: SkillFiles,
    cache: Option<PathBuf>,
    /// Instructions for enabling each capability.
    gates: BTreeMap<String, String>,
    /// Held on blocking threads while a config is applied to the catalog.
    apply_lock: Mutex<()>,
    /// Never held during file access: async tasks wait for it.
    applied_state: Mutex<Option<AppliedState>>,
    /// Skills registered by workers; this source comes last.
    registered: OnceLock<Arc<dyn Source>>,
    scan_limit: Duration,
    /// Held during a scan, by the thread that scans.
    scanning: Arc<tokio::sync::Mutex<()>>,
    /// Whether a run has stopped waiting for the current scan.
    is_overdue: AtomicBool,
}

/// Maximum duration of waiting for a scan.
#[derive(Clone, Copy)]
pub(super) enum ScanWait {
    /// Until it is complete.
    Complete,
    /// Up to the limit for runs; then it continues in the background.
    Limited,
}

/// Time that a run waits for a scan if it names a skill that was not found before.
const NAMED_SCAN_LIMIT: Duration = Duration::from_secs(30);
/// Default time that a run waits for a scan.
const SCAN_LIMIT: Duration = Duration::from_secs(1);

/// Locations of skills.
#[derive(Debug, Clone)]
pub struct SkillsOptions {
    /// The standard directories, and others.
    pub roots: Roots,
    /// Files with the config's `skills` keys, in order of precedence.
    pub files: Vec<PathBuf>,
    /// Cache of fetched skills; without it, skill repositories are disabled.
    pub cache: Option<PathBuf>,
    /// Whether the bundled skills are included.
    pub bundled: BundledSkills,
    /// Maximum time that a run waits for a scan of the directories; then it uses the skills found before.
    pub scan_limit: Duration,
}

impl Default for SkillsOptions {
    fn default() -> Self {
        Self {
            roots: Roots::default(),
            files: Vec::new(),
            cache: None,
            bundled: BundledSkills::default(),
            scan_limit: SCAN_LIMIT,
        }
    }
}

/// Inclusion of the bundled skills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BundledSkills {
    /// Include the bundled skills.
    #[default]
    Included,
    /// Exclude the bundled skills.
    Excluded,
}

impl SkillsOptions {
    /// Derives the other locations from the directories: `skills.toml` in the user's `.rkat`, and in the project's if
    /// the project is trusted; fetched skills are cached in the user's `.rkat`.
    #[must_use]
    pub fn from_roots(roots: Roots) -> Self {
        let file = |dir: &PathBuf| dir.join(".rkat/skills.toml");
        let project = roots.project.as_ref().filter(|_| roots.trust == Trust::Trusted);
        let files = project.into_iter().chain(&roots.home).map(file).collect();
        let cache = roots.home.as_ref().map(|home| home.join(".rkat/skill-cache"));
        Self { roots, files, cache, ..Self::default() }
    }
}

/// State that was last applied to the catalog.
struct AppliedState {
    version: Option<ConfigVersion>,
    config: SkillsConfig,
    capabilities: BTreeSet<String>,
    notes: Arc<ProblemSource>,
    /// Updated in the background until dropped.
    repositories: Repositories,
    /// Whether the skills registered by workers are among the sources.
    registered: bool,
}

/// State to apply to the catalog.
pub(super) struct DesiredState {
    /// Version of the config, if it belongs to a realm.
    pub(super) version: Option<ConfigVersion>,
    pub(super) config: SkillsConfig,
    pub(super) capabilities: BTreeSet<String>,
}

impl AppliedState {
    fn desired(&self) -> DesiredState {
        let (config, capabilities) = (self.config.clone(), self.capabilities.clone());
        DesiredState { version: self.version.clone(), config, capabilities }
    }

    /// Returns `true` if it is newer than `desired` and of the same realm.
    fn is_newer(&self, desired: &DesiredState) -> bool {
        match (&self.version, &desired.version) {
            (Some((realm, applied)), Some((other, desired))) => realm == other && applied > desired,
            _ => false,
        }
    }
}

/// All skills, or one of them in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SkillsReply {
    /// All skills.
    List(SkillList),
    /// One skill.
    Inspect(Box<InspectedSkill>),
}

impl JsonSchema for SkillsReply {
    fn schema_name() -> Cow<'static, str> {
        "SkillsReply".into()
    }

    /// Returns one object with the fields of both variants, because clients drop tools whose root is a union.
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

impl Skills {
    /// Creates the skills from the directories and the bundled skills, with the capabilities of this build.
    pub(crate) fn with_capabilities(options: SkillsOptions, capabilities: &Capabilities) -> Self {
        let dirs = standard_roots(&options.roots, Limits::default());
        let embedded = (options.bundled == BundledSkills::Included).then(bundled_skills);
        let sources = dirs.iter().chain(&embedded).cloned().collect();
        let gates = capabilities.enable_hints();
        let available = capabilities.available(&Config::default(), Backend::Sqlite);
        let policy = Policy { capabilities: available, gates: gates.clone(), ..Policy::default() };
        let shared = Shared {
            catalog: Catalog::new(sources, policy),
            dirs,
            embedded,
            files: SkillFiles(options.files),
            cache: options.cache,
            gates,
            apply_lock: Mutex::default(),
            applied_state: Mutex::default(),
            registered: OnceLock::new(),
            scan_limit: options.scan_limit,
            scanning: Arc::default(),
            is_overdue: AtomicBool::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the catalog.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// Applies a config that belongs to no realm to the catalog, and picks up changes in its sources.
    pub(crate) async fn refresh(
        &self,
        config: &SkillsConfig,
        capabilities: BTreeSet<String>,
        secrets: &SecretSource,
    ) {
        let desired = DesiredState { version: None, config: config.clone(), capabilities };
        self.apply_and_scan(desired, secrets, Catalog::refresh_if_stale, ScanWait::Complete).await;
    }

    /// Applies the config to the catalog, and scans its sources with a function of the catalog.
    pub(super) async fn apply_and_scan(
        &self,
        desired: DesiredState,
        secrets: &SecretSource,
        scan: fn(&Catalog) -> Refreshed,
        wait: ScanWait,
    ) {
        let shared = &self.shared;
        let is_in_memory =
            shared.files.0.is_empty() && shared.dirs.is_empty() && desired.config.repositories.is_empty();
        if is_in_memory {
            self.apply(desired, secrets);
            scan(&shared.catalog);
            return;
        }
        let (skills, secrets) = (self.clone(), Arc::clone(secrets));
        // This fails only if a source panicked; the catalog then stays unchanged.
        let _ = tokio::task::spawn_blocking(move || skills.apply(desired, &secrets)).await;
        match wait {
            ScanWait::Complete => self.scan(scan).await,
            ScanWait::Limited => {
                let is_late = timeout(shared.scan_limit, self.scan(scan)).await.is_err();
                shared.is_overdue.fetch_or(is_late, Ordering::Relaxed);
            }
        }
    }

    /// Waits for the current scan, and scans on a blocking thread.
    async fn scan(&self, scan: fn(&Catalog) -> Refreshed) {
        let shared = Arc::clone(&self.shared);
        let scanning = Arc::clone(&shared.scanning).lock_owned().await;
        let work = move || {
            scan(&shared.catalog);
            shared.is_overdue.store(false, Ordering::Relaxed);
            drop(scanning);
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }

    /// Returns `true` if a scan takes longer than runs wait for it.
    fn is_scan_overdue(&self) -> bool {
        self.shared.is_overdue.load(Ordering::Relaxed) && self.shared.scanning.try_lock().is_err()
    }

    /// Returns a warning for a run that does not wait for the current scan.
    pub(crate) fn scan_warning(&self) -> Option<String> {
        let found = self.shared.catalog.latest().active().count();
        self.is_scan_overdue().then(|| {
            format!(
                "the scan for skills takes long: this run starts with the {found} found before, and its skill tools \
                 find the others once the scan is done"
            )
        })
    }

    /// Merges the files into the config and applies the result to the catalog. Reads and writes files.
    fn apply(&self, desired: DesiredState, secrets: &SecretSource) {
        let _guard = self.shared.apply_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let (config, problems) = self.shared.files.over(&desired.config);
        self.apply_state(DesiredState { config, ..desired }, secrets, problems);
    }

    /// Applies the desired state to the catalog, unless a newer one is already applied.
    fn apply_state(&self, desired: DesiredState, secrets: &SecretSource, problems: Vec<Problem>) {
        let shared = &self.shared;
        let mut current = self.applied_state();
        let registered = shared.registered.get().is_some();
        let DesiredState { version, config, capabilities } = match &*current {
            Some(applied) if applied.is_newer(&desired) => applied.desired(),
            _ => desired,
        };
        if let Some(applied) = &mut *current
            && applied.config == config
            && applied.capabilities == capabilities
            && applied.notes.problems() == problems
            && applied.registered == registered
        {
            applied.version = version;
            return;
        }
        drop(current);
        let config = &config;
        let notes = ProblemSource::new(problems);
        let repositories = match &shared.cache {
            Some(cache) if config.enabled => {
                if !config.repositories.is_empty() {
                    // If this fails, fetching reports the error.
                    let _ = meerkat_store::create_private_dirs(cache);
                }
                repositories(config, cache, secrets, &shared.catalog)
            }
            _ => Repositories::default(),
        };
        let sources = match config.enabled {
            false => Vec::new(),
            true => {
                let dirs = shared.dirs.iter().chain(&repositories.sources);
                let noted: Arc<dyn Source> = Arc::clone(&notes) as _;
                let noted = (!notes.problems().is_empty()).then_some(noted);
                dirs.chain(&shared.embedded).chain(shared.registered.get()).cloned().chain(noted).collect()
            }
        };
        shared.catalog.set_sources(sources);
        shared.catalog.set_policy(Policy {
            capabilities: capabilities.clone(),
            gates: shared.gates.clone(),
            turned_off_by: (!config.enabled).then(|| "skills.enabled".to_owned()),
            remaps: remaps(config),
        });
        *self.applied_state() = Some(AppliedState {
            version,
            config: config.clone(),
            capabilities,
            notes,
            repositories,
            registered,
        });
    }

    /// Adds a source after all others, effective at the next refresh. Only the first call has an effect.
    #[cfg(feature = "registry")]
    pub(crate) fn add_source(&self, source: &Arc<dyn Source>) {
        let _ = self.shared.registered.set(Arc::clone(source));
    }

    /// Updates all configured repositories now and returns the outcome for each.
    pub async fn update(&self) -> Vec<(String, Result<(), meerkat_skills::Error>)> {
        let remotes = match &*self.applied_state() {
            Some(applied) => applied.repositories.remotes.clone(),
            None => Vec::new(),
        };
        let mut outcomes = Vec::with_capacity(remotes.len());
        for remote in remotes {
            outcomes.push((remote.name().to_owned(), remote.fetch(&self.shared.catalog).await));
        }
        outcomes
    }

    /// Returns the effective config: the realm's config merged with the files.
    pub(super) fn config(&self) -> SkillsConfig {
        self.applied_state().as_ref().map(|applied| applied.config.clone()).unwrap_or_default()
    }

    fn applied_state(&self) -> MutexGuard<'_, Option<AppliedState>> {
        self.shared.applied_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renders skills for a prompt. Waits for a scan, up to a limit, if a skill has not been found before.
    ///
    /// # Errors
    /// Returns an error that names the first skill that cannot be loaded.
    pub(crate) async fn inject(&self, keys: &[SkillKey]) -> Result<Vec<Injected>, ToolsError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let may_find_more = self.is_scan_overdue();
        let rendered = self.render(keys).await;
        if rendered.is_ok() || !may_find_more {
            return rendered;
        }
        let _ = timeout(NAMED_SCAN_LIMIT, self.shared.scanning.lock()).await;
        self.render(keys).await
    }

    async fn render(&self, keys: &[SkillKey]) -> Result<Vec<Injected>, ToolsError> {
        let limit = self.config().max_injection_bytes;
        let (catalog, keys) = (&self.shared.catalog, keys.to_vec());
        let snapshot = catalog.load_within(self.shared.scan_limit).await.unwrap_or_else(|| catalog.latest());
        blocking(move || {
            let injected = |key: &SkillKey| {
                let skill = snapshot.by_key(&parse_key(key)?).map_err(to_error)?;
                Ok(Injected { key: key.clone(), text: view::inject(skill, limit).map_err(to_error)? })
            };
            keys.iter().map(injected).collect()
        })
        .await
    }

    /// Renders the list of skills found so far for a system prompt; returns `None` if there are none.
    pub(crate) fn inventory(&self, filter: SkillFilter) -> Option<String> {
        let config = self.config();
        let inventory = Inventory { threshold: config.inventory_threshold, budget: config.inventory_budget };
        inventory.render(&self.shared.catalog.latest(), filter)
    }

    /// Returns the tools for reading skills.
    pub(crate) fn tools(&self, filter: SkillFilter) -> Arc<dyn ToolSource> {
        Arc::new(AgentTools::new(self.shared.catalog.clone(), filter))
    }

    /// Lists all skills, or inspects one.
    pub(crate) async fn handle(&self, request: SkillsRequest) -> Result<SkillsReply, ToolsError> {
        if !self.config().enabled {
            return Err(RequestError::Disabled { what: "skills", key: "skills.enabled" }.into());
        }
        let catalog = self.shared.catalog.clone();
        blocking(move || match request.action {
            SkillsAction::List => Ok(SkillsReply::List(view::list(&catalog.snapshot()))),
            SkillsAction::Inspect => {
                let missing = || RequestError::Arguments("`skill_key` is missing".to_owned());
                let key = request.skill_key.ok_or_else(missing)?;
                let key = parse_key(&key)
                    .map_err(|error| RequestError::Arguments(format!("`skill_key`: {error}")))?;
                let source = request.source.as_deref().map(str::parse).transpose();
                let source = source.map_err(|error: meerkat_skills::KeyError| {
                    RequestError::Arguments(format!("`source`: {error}"))
                })?;
                let skill = view::inspect(&catalog.snapshot(), &key, source).map_err(to_error)?;
                Ok(SkillsReply::Inspect(Box::new(skill)))
            }
        })
        .await
    }
}

/// Returns the source of the bundled skills.
fn bundled_skills() -> Arc<dyn Source> {
    let mut bundled: Vec<Companion> = companions().to_vec();
    bundled.extend(help::companions());
    Arc::new(Embedded::new(&bundled))
}

/// Finds the skills to keep in context when a conversation is compacted.
pub(crate) const FIND_PINNED: FindPinned = view::pinned_skills;

/// Rejects invalid skill keys; `field` names the field that contains them.
pub(crate) fn check(field: &str, keys: &[SkillKey]) -> Result<(), RequestError> {
    for (index, key) in keys.iter().enumerate() {
        parse_key(key).map_err(|error| RequestError::Arguments(format!("`{field}[{index}]`: {error}")))?;
    }
    Ok(())
}

fn parse_key(key: &SkillKey) -> Result<meerkat_skills::SkillKey, RequestError> {
    let invalid = |error: meerkat_skills::KeyError| RequestError::Arguments(error.to_string());
    Ok(meerkat_skills::SkillKey {
        source_uuid: key.source_uuid.parse().map_err(invalid)?,
        skill_name: key.skill_name.parse().map_err(invalid)?,
    })
}

fn to_error(error: meerkat_skills::Error) -> ToolsError {
    ToolsError::Skill { kind: error.kind(), source: Box::new(error) }
}

/// Returns the configured remaps. Remaps with invalid keys are ignored; for duplicate keys, the first remap applies.
fn remaps(config: &SkillsConfig) -> BTreeMap<meerkat_skills::SkillKey, meerkat_skills::SkillKey> {
    let remaps = config.identity.remaps.iter();
    let mut result = BTreeMap::new();
    for (from, to) in
        remaps.filter_map(|remap| Some((parse_key(&remap.from).ok()?, parse_key(&remap.to).ok()?)))
    {
        result.entry(from).or_insert(to);
    }
    result
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolsError> + Send + 'static,
) -> Result<T, ToolsError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
}
