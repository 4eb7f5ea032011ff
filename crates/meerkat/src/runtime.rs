//! The runtime: one realm, its models and tools, and its services.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meerkat_contracts::{CapabilityReport, ImageInput, ImageReply};
use meerkat_core::{
    BlobId, Clock, EventEnvelope, Hook, HookEntry, Model, Provider, RealmId, Redactor, SessionId, Timestamp,
    ToolSource,
};
use meerkat_providers::OFFLINE_MODEL_ID;
use meerkat_store::{Blob, Realm, Store};
use meerkat_tools::{Toolbox, ToolboxOptions};
use tokio::sync::broadcast;

use crate::builtins::RealmToolStorage;
use crate::capabilities::capabilities;
use crate::clock::SystemClock;
use crate::config::{ConfigAccess, ConfigService, CurrentConfig};
use crate::events::EventBus;
use crate::hooks::HookRunner;
use crate::models::Models;
use crate::providers::{Providers, SecretSource};
use crate::session::{ActiveRuns, SessionService};
use crate::{Error, Skills, features, images};

/// Options of a runtime.
#[derive(Default)]
pub struct RuntimeOptions {
    /// Models in addition to the built-in ones, selected by id.
    pub models: Vec<Arc<dyn Model>>,
    /// Tool sources for agents.
    pub tool_sources: Vec<Arc<dyn ToolSource>>,
    /// Clock to use instead of the system clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Name of this process.
    pub instance: Option<String>,
    /// Skills for agents; if `None`, only the bundled ones.
    pub skills: Option<Skills>,
    /// MCP servers for all sessions; if `None`, a session has only the servers added to it.
    #[cfg(feature = "mcp")]
    pub servers: Option<Arc<crate::McpServers>>,
    /// Options of the built-in tools; file and shell tools need a workspace.
    pub tools: ToolboxOptions,
    /// Source of keys and tokens; if `None`, only models that need no key can be used.
    pub secrets: Option<SecretSource>,
    /// In-process hooks, by the names used in the config.
    pub hooks: BTreeMap<String, Arc<dyn Hook>>,
    /// Hook files; their hooks run before those of the config.
    #[cfg(feature = "mcp")]
    pub hook_files: Option<Arc<crate::HookFiles>>,
    /// Access level of the caller of operations. Only the owner can change where keys and tokens are sent.
    pub config_access: ConfigAccess,
    /// Redactor with the secrets of the process, applied to tool results, errors, and events.
    pub redactor: Redactor,
}

/// Runs agents in one realm.
///
/// Cloning it is cheap; all clones are the same runtime.
///
/// ```
/// use meerkat::{NewSessionOptions, RunControl, RunInput, Runtime, RuntimeOptions, TurnOptions, Content, Outcome};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), meerkat::Error> {
/// let runtime = Runtime::ephemeral(RuntimeOptions::default())?;
/// let sessions = runtime.sessions();
///
/// let say = |text: &str| TurnOptions {
///     input: RunInput { prompt: Content::text(text), ..RunInput::default() },
///     ..TurnOptions::default()
/// };
/// let first = sessions.create(NewSessionOptions::default(), say("say hello"), RunControl::default()).await?;
/// let second = sessions.start_turn(first.session_id, say("say again"), RunControl::default()).await?;
///
/// let Outcome::Completed(answer) = second.report.outcome else { unreachable!() };
/// assert_eq!(answer.text, "again");
/// assert_eq!(sessions.history(first.session_id, 0, None).await?.messages.len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) realm: Realm,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: ConfigService,
    pub(crate) models: Models,
    pub(crate) sources: Vec<Arc<dyn ToolSource>>,
    pub(crate) skills: Skills,
    /// Held while changed registered skills are added to the catalog.
    pub(crate) registering: tokio::sync::Mutex<()>,
    pub(crate) secrets: SecretSource,
    pub(crate) tools: Toolbox,
    pub(crate) servers: features::Servers,
    pub(crate) registry: features::RuntimeRegistry,
    pub(crate) hooks: HookRunner,
    pub(crate) live: ActiveRuns,
    pub(crate) events: EventBus,
    pub(crate) instance: Option<String>,
    pub(crate) config_access: ConfigAccess,
    pub(crate) redactor: Redactor,
}

impl Runtime {
    /// Creates a runtime for an open realm.
    #[must_use]
    pub fn new(realm: Realm, options: RuntimeOptions) -> Self {
        let store = realm.store();
        let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let secrets = options.secrets.unwrap_or_else(|| Arc::new(|_: &str| None));
        let redactor = options.redactor.clone();
        let config = ConfigService::new(Arc::clone(&store), redactor.clone());
        let storage = Arc::new(RealmToolStorage { store: Arc::clone(&store), redactor: redactor.clone() });
        let shared = Shared {
            tools: Toolbox::new(&options.tools, storage, Arc::clone(&clock), redactor),
            live: ActiveRuns::new(Arc::clone(&store), Arc::clone(&clock)),
            events: EventBus::new(Arc::clone(&clock)),
            models: Models::new(
                options.models,
                Providers::new(Arc::clone(&secrets), options.redactor.clone()),
            ),
            skills: options.skills.unwrap_or_default(),
            registering: tokio::sync::Mutex::default(),
            secrets,
            #[cfg(feature = "mcp")]
            hooks: HookRunner::new(options.hooks, options.tools.supervisor).with_files(options.hook_files),
            #[cfg(not(feature = "mcp"))]
            hooks: HookRunner::new(options.hooks, options.tools.supervisor),
            sources: options.tool_sources,
            #[cfg(feature = "mcp")]
            servers: features::Servers::new(options.servers),
            #[cfg(not(feature = "mcp"))]
            servers: features::Servers,
            #[cfg(feature = "registry")]
            registry: features::RuntimeRegistry::new(&realm, Arc::clone(&clock), config.clone()),
            #[cfg(not(feature = "registry"))]
            registry: features::RuntimeRegistry,
            config,
            instance: options.instance,
            config_access: options.config_access,
            redactor: options.redactor,
            realm,
            store,
            clock,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Creates a runtime in memory; its sessions exist as long as the runtime.
    ///
    /// # Errors
    /// Never fails in practice: the realm's generated id is always valid.
    pub fn ephemeral(options: RuntimeOptions) -> Result<Self, Error> {
        let id: RealmId = format!("realm-{}", uuid::Uuid::now_v7()).parse()?;
        Ok(Self::new(Realm::ephemeral(id), options))
    }

    /// Returns the realm.
    #[must_use]
    pub fn realm(&self) -> &Realm {
        &self.shared.realm
    }

    /// Returns the session service.
    #[must_use]
    pub fn sessions(&self) -> SessionService {
        SessionService::new(Arc::clone(&self.shared))
    }

    /// Returns the realm's config.
    #[must_use]
    pub fn config(&self) -> ConfigService {
        self.shared.config.clone()
    }

    /// Returns the access level of the caller of operations.
    #[must_use]
    pub fn config_access(&self) -> ConfigAccess {
        self.shared.config_access
    }

    /// Returns the name of this process, if set.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.shared.instance.as_deref()
    }

    /// Subscribes to the events of all sessions that this process runs, from now on. A receiver that lags behind by
    /// thousands of events loses the oldest ones and gets the number of lost events.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<EventEnvelope>> {
        self.shared.events.subscribe()
    }

    /// Reads a blob: an image, or text that was too long for a reply.
    ///
    /// # Errors
    /// Returns an error if no blob has this id.
    pub async fn blob(&self, id: &BlobId) -> Result<Blob, Error> {
        let blob = self.shared.store.blob(id.clone()).await?;
        blob.ok_or_else(|| Error::BlobNotFound(id.clone()))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Returns `true` if the offline model would serve such a request.
    pub(crate) async fn is_offline(
        &self,
        model: Option<&str>,
        provider: Option<Provider>,
    ) -> Result<bool, Error> {
        let config = self.shared.config.get().await?.config;
        let resolved = self.shared.models.resolve(model, provider, &config);
        Ok(resolved.is_ok_and(|resolved| resolved.model.info().id == OFFLINE_MODEL_ID))
    }

    #[cfg(feature = "mcp")]
    pub(crate) fn servers(&self) -> &crate::McpServers {
        &self.shared.servers
    }

    #[cfg(feature = "registry")]
    pub(crate) fn runtime_registry(&self) -> &features::RuntimeRegistry {
        &self.shared.registry
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.shared.redactor
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shared.store
    }

    /// Returns a session's id together with its realm's.
    #[must_use]
    pub fn reference(&self, session: SessionId) -> String {
        self.shared.reference(session)
    }

    /// Generates an image and stores it as a blob of the realm.
    ///
    /// # Errors
    /// Returns `INVALID_PARAMS` if the request is invalid, and `PROVIDER_ERROR` if no provider is available or the
    /// provider fails.
    pub async fn generate_image(&self, input: ImageInput) -> Result<ImageReply, Error> {
        let config = self.shared.config.get().await?.config;
        Ok(images::generate(&self.shared, &config, input, None).await?.reply)
    }

    /// Returns the agents' skills.
    #[must_use]
    pub fn skills(&self) -> &Skills {
        &self.shared.skills
    }

    /// Refreshes the skills from the realm's config. Runs and operations do this automatically; call it before reading
    /// the catalog directly.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read.
    pub async fn refresh_skills(&self) -> Result<(), Error> {
        let current = self.shared.config.get().await?;
        self.shared.refresh_skills(&current).await;
        Ok(())
    }

    /// Returns the capabilities of this build under the realm's config.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read.
    pub async fn capabilities(&self) -> Result<CapabilityReport, Error> {
        let config = self.shared.config.get().await?.config;
        Ok(capabilities(&config, self.shared.realm.backend()))
    }

    /// Returns the hooks that apply to every run.
    pub(crate) async fn hook_entries(
        &self,
        config: &crate::config::HooksConfig,
    ) -> Result<Vec<HookEntry>, Error> {
        self.shared.hooks.entries(config).await
    }

    /// Interrupts every run, and waits until all runs are committed, background hooks have finished, and the MCP
    /// servers have exited, or until the timeout. Servers that are still running then are stopped by their supervisors.
    /// Event streams are closed.
    pub async fn shutdown(&self, timeout: Duration) {
        self.shared.live.close();
        self.shared.tools.close();
        self.shared.events.close_all();
        let wait = async {
            while self.shared.live.count() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::join!(self.shared.hooks.close(timeout), self.shared.servers.close(timeout));
        };
        let _ = tokio::time::timeout(timeout, wait).await;
    }
}

impl Shared {
    fn is_in_memory(&self) -> bool {
        self.realm.backend() == meerkat_store::Backend::Memory
    }

    /// Refreshes the skills from the config, or from a newer one that another caller has already applied.
    pub(crate) async fn refresh_skills(&self, current: &CurrentConfig) {
        let CurrentConfig { config, generation } = current;
        let mut available = features::available(config);
        if self.is_in_memory() {
            available.remove(meerkat_capabilities::CapabilityId::SessionStore.as_str());
        }
        let version = (self.realm.id().clone(), *generation);
        let registering = self.registering.lock().await;
        let changed = self.registry.skills(current, &self.skills).await;
        // Another caller that finds no changes uses the catalog at once, so the changes must be in it by then.
        let _registering = (changed == features::Changed::Yes).then_some(registering);
        self.skills.refresh(Some(version), &config.skills, available, &self.secrets).await;
        if changed == features::Changed::Yes {
            self.skills.rescan().await;
        }
    }

    pub(crate) fn reference(&self, session: SessionId) -> String {
        format!("{}:{session}", self.realm.id())
    }
}

#[cfg(test)]
#[cfg(feature = "skills")]
mod tests;
