//! Creation of runtimes: the only place that depends on cargo features to decide what a runtime consists of.

mod capabilities;
mod runtime_builder;
#[cfg(test)]
#[cfg(feature = "skills")]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use meerkat_core::{Clock, Hook, Model, Redactor, ToolSource};
use meerkat_fetch::Http;
use meerkat_store::Realm;
use meerkat_tools::{Toolbox, ToolboxOptions};

use crate::Error;
use crate::clock::SystemClock;
use crate::config::{BaseConfig, ConfigAccess, ConfigService};
use crate::events::EventBus;
use crate::hooks::HookRunner;
use crate::models::{Models, Providers};
use crate::runtime::{Runtime, RuntimeParts};
use crate::secrets::SecretSource;
use crate::sessions::{ActiveRuns, ConfiguredOutput, Planner, SessionService};
use crate::tools::{Builtins, Extensions, Images, RealmToolStorage, RunExtension};

pub use capabilities::capabilities;
pub use runtime_builder::RuntimeBuilder;

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
    #[cfg(feature = "skills")]
    pub skills: Option<crate::tools::Skills>,
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

/// Shows which parts are set, without the environment and what may know secrets.
impl fmt::Debug for RuntimeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models: Vec<_> = self.models.iter().map(|model| &model.info().id).collect();
        f.debug_struct("RuntimeOptions")
            .field("models", &models)
            .field("tool_sources", &self.tool_sources.len())
            .field("instance", &self.instance)
            .field("workspace", &self.tools.workspace)
            .field("hooks", &self.hooks.keys())
            .field("config_access", &self.config_access)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Returns a builder.
    #[must_use]
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Creates a runtime for an open realm.
    #[must_use]
    pub fn new(realm: Realm, options: RuntimeOptions) -> Self {
        Self::assemble(realm, options, BaseConfig::default())
    }

    fn assemble(realm: Realm, options: RuntimeOptions, base: BaseConfig) -> Self {
        let store = realm.store();
        let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let secrets = options.secrets.unwrap_or_else(|| Arc::new(|_: &str| None));
        let redactor = options.redactor;
        let capabilities = capabilities::list();
        let config = ConfigService::new(Arc::clone(&store), redactor.clone(), base);
        let http = Http::default();
        let providers = Providers::new(Arc::clone(&secrets), redactor.clone(), http.clone());
        let models = Arc::new(Models::new(options.models, providers));
        let images = Arc::new(Images { models: Arc::clone(&models), store: Arc::clone(&store) });
        let supervisor = options.tools.supervisor.clone();
        let hooks = HookRunner::new(options.hooks, supervisor, Arc::clone(&secrets), redactor.clone(), http);
        #[cfg(feature = "mcp")]
        let hooks = hooks.with_files(options.hook_files);
        #[cfg(feature = "mcp")]
        let servers = options.servers.unwrap_or_else(|| crate::tools::McpServers::new(Default::default()));
        #[cfg(feature = "registry")]
        let registry =
            Arc::new(crate::tools::RuntimeRegistry::new(&realm, Arc::clone(&clock), config.clone()));
        #[cfg(feature = "skills")]
        let skills = crate::tools::SkillsExtension::new(
            options.skills.unwrap_or_default(),
            &realm,
            &capabilities,
            secrets,
        );
        #[cfg(all(feature = "skills", feature = "registry"))]
        let skills = skills.with_registry(&registry);
        #[cfg(feature = "skills")]
        let skills = Arc::new(skills);
        let storage = Arc::new(RealmToolStorage { store: Arc::clone(&store), redactor: redactor.clone() });
        let toolbox = Toolbox::new(&options.tools, storage, Arc::clone(&clock), redactor.clone());
        let extensions: Extensions = Vec::from([
            Arc::new(Builtins { toolbox, images: Arc::clone(&images) }) as Arc<dyn RunExtension>,
            #[cfg(feature = "mcp")]
            Arc::new(Arc::clone(&servers)),
            #[cfg(feature = "skills")]
            Arc::new(Arc::clone(&skills)),
            #[cfg(feature = "registry")]
            Arc::new(Arc::clone(&registry)),
            #[cfg(feature = "memory-store-session")]
            Arc::new(crate::tools::MemoryExtension { store: Arc::clone(&store) }),
        ]);
        let planner = Planner {
            active: ActiveRuns::new(Arc::clone(&store), Arc::clone(&clock)),
            events: EventBus::new(Arc::clone(&clock)),
            store,
            clock,
            config: config.clone(),
            models: Arc::clone(&models),
            sources: options.tool_sources,
            extensions,
            hooks: Arc::new(hooks),
            capabilities: capabilities.clone(),
            access: options.config_access,
            instance: options.instance,
            redactor,
            output: ConfiguredOutput::default(),
        };
        Self::from_parts(RuntimeParts {
            sessions: SessionService::new(planner, realm.id().clone(), realm.backend()),
            realm,
            config,
            models,
            images,
            capabilities,
            #[cfg(feature = "mcp")]
            servers,
            #[cfg(feature = "skills")]
            skills,
            #[cfg(feature = "registry")]
            registry,
        })
    }

    /// Creates a runtime in memory; its sessions exist as long as the runtime.
    ///
    /// # Errors
    /// Never fails in practice: the realm's generated id is always valid.
    pub fn ephemeral(options: RuntimeOptions) -> Result<Self, Error> {
        Ok(Self::new(Realm::ephemeral(Self::generated_realm().parse()?), options))
    }

    fn generated_realm() -> String {
        format!("realm-{}", uuid::Uuid::now_v7())
    }
}
