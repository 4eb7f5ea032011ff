//! Access to the skills, prompts, and functions registered in a realm.
//!
//! Registered content is read from the realm's store, regardless of which process wrote it. Functions are called
//! through the realm's hub: the one in this process, or else the one run by another process of the realm. Without a
//! hub, stored content can still be read and changed.

mod bus;
mod host;
mod link;
mod live;
#[cfg(feature = "skills")]
mod source;
mod state;
mod tools;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{BoxFuture, Clock, ErrorKind, ToolSource};
use meerkat_registry::{BusError, Kind, Registry, is_reserved};
use meerkat_store::{Realm, Store};
use serde_json::Value;

use self::bus::RealmBus;
use self::link::HubLink;
use self::live::LiveRegistry;
use self::watcher::RegistryWatcher;
use super::{Contribution, RunExtension, RunView, ToolsError};
use crate::config::{Config, ConfigService, RegistryConfig};
use crate::request_error::RequestError;
#[cfg(feature = "skills")]
use {super::Skills, crate::config::CurrentConfig};

pub use host::HostedHub;
pub use link::HubEndpoint;
pub use watcher::RegistryContents;

/// The registry of a runtime.
pub(crate) struct RuntimeRegistry {
    store: Arc<dyn Store>,
    live: Arc<LiveRegistry>,
    registry: RealmRegistry,
    #[cfg(feature = "skills")]
    source: Arc<source::RegisteredSkills>,
}

/// The registry of a realm. Cloning is cheap; all clones share the same registry.
#[derive(Clone)]
pub struct RealmRegistry {
    registry: Registry,
    link: Arc<HubLink>,
    watcher: Arc<RegistryWatcher>,
}

impl RuntimeRegistry {
    pub(crate) fn new(realm: &Realm, clock: Arc<dyn Clock>, config: ConfigService) -> Self {
        let store = realm.store();
        let link = Arc::new(HubLink::new(realm.paths().map(|paths| paths.hub.clone())));
        let bus = RealmBus::new(Arc::clone(&store), Arc::clone(&link));
        // A single registry keeps the subscriptions across config changes.
        let registry = Registry::new(Arc::new(bus), clock, live::options(&RegistryConfig::default()));
        let live = Arc::new(LiveRegistry::new(registry.clone(), config));
        let watcher = Arc::new(RegistryWatcher::new(Arc::clone(&live)));
        Self {
            store,
            live,
            registry: RealmRegistry { registry, link, watcher },
            #[cfg(feature = "skills")]
            source: Arc::default(),
        }
    }

    /// Returns the realm's registry.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read or disables the registry.
    pub(crate) async fn open(&self) -> Result<RealmRegistry, ToolsError> {
        self.live.refresh().await?;
        let disabled =
            RequestError::Disabled { what: "registered skills and prompts", key: "registry.enabled" };
        Ok(self.live.current().map(|_| self.registry.clone()).ok_or(disabled)?)
    }

    /// Refreshes the registered skills from the store; returns whether they changed.
    #[cfg(feature = "skills")]
    pub(crate) async fn refresh_skills(&self, current: &CurrentConfig, skills: &Skills) -> bool {
        self.live.apply(current.generation, &current.config.registry);
        match self.live.current() {
            Some(registry) => self.source.update(&registry, skills).await,
            None => self.source.clear(),
        }
    }

    /// Returns tools for the functions that agents may call.
    pub(crate) async fn tools(&self, config: &Config) -> Option<Arc<dyn ToolSource>> {
        if !config.registry.enabled || config.registry.tools.is_empty() {
            return None;
        }
        // A run keeps the config it started with, without affecting others.
        let registry = self.registry.registry.with_options(live::options(&config.registry));
        tools::source(&RealmRegistry { registry, ..self.registry.clone() }, &config.registry).await
    }
}

impl RunExtension for Arc<RuntimeRegistry> {
    fn contribute<'a>(&'a self, run: &'a RunView<'a>) -> BoxFuture<'a, Contribution> {
        Box::pin(async {
            let tools = if run.overlay.allows_none() { None } else { self.tools(run.config).await };
            Contribution { sources: tools.into_iter().collect(), ..Contribution::default() }
        })
    }
}

impl RealmRegistry {
    /// Returns the registry itself, over the realm's store.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Calls a function of the registry or of a worker.
    ///
    /// # Errors
    /// Returns the function's error, or an error if no worker can be reached.
    pub async fn call(&self, function: &str, data: Value) -> Result<Value, ToolsError> {
        let is_registry_function = meerkat_registry::functions().iter().any(|known| known.id == function);
        // Changes go through a remote hub, if one is running, so that it notifies its subscribers.
        let is_change = function.ends_with("::register") || function.ends_with("::unregister");
        let remote = if is_registry_function && is_change { self.link.remote().await } else { None };
        if is_registry_function && remote.is_none() {
            return Ok(self.registry.call(function, data).await?);
        }
        meerkat_registry::check(function, &data)?;
        let result = match remote {
            Some(peer) => peer.call(function, data, self.timeout()).await,
            None => self.link.call(function, data, self.timeout()).await,
        };
        result.map_err(|source| ToolsError::Function { function: function.to_owned(), source })
    }

    /// Returns the endpoint of the realm's hub, if one is running.
    #[must_use]
    pub fn hub(&self) -> Option<HubEndpoint> {
        self.link.hub()
    }

    /// Lists the functions of workers, without those of the hub itself.
    ///
    /// # Errors
    /// Returns an error if no hub is running or it does not respond.
    pub async fn functions(&self) -> Result<Vec<Value>, ToolsError> {
        let functions = self.link.functions(self.timeout()).await;
        let mut functions = functions.map_err(|source| {
            let function = "engine::functions::list".to_owned();
            ToolsError::Function { function, source }
        })?;
        functions.retain(|function| tools::function_id(function).is_some_and(|id| !is_reserved(id)));
        Ok(functions)
    }

    /// Reads the current contents under the current config; empty if the config disables the registry.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn contents(&self) -> Result<Arc<RegistryContents>, ToolsError> {
        self.watcher.refresh().await.map_err(|error| ToolsError::Registry(error.into()))
    }

    /// Subscribes to the contents. Receivers are notified of changes by any process within half a second.
    #[must_use]
    pub fn follow(&self) -> tokio::sync::watch::Receiver<Arc<RegistryContents>> {
        self.watcher.follow()
    }

    fn timeout(&self) -> Duration {
        self.registry.options().timeout
    }
}

/// Maps an error of the registry to its kind.
pub(crate) fn kind(error: &meerkat_registry::Error) -> ErrorKind {
    use meerkat_registry::Error as RegistryError;
    match error {
        RegistryError::Trigger { source, .. } | RegistryError::State(source) => bus_kind(source),
        RegistryError::SkillNotFound(_) => ErrorKind::SkillNotFound,
        other if other.kind() == Kind::Failed => ErrorKind::Internal,
        _ => ErrorKind::InvalidParams,
    }
}

/// Maps an error of the bus to its kind.
pub(crate) fn bus_kind(error: &BusError) -> ErrorKind {
    match error {
        BusError::Remote { code, .. } if code == "function_not_found" => ErrorKind::InvalidParams,
        BusError::Remote { .. } | BusError::Timeout => ErrorKind::Internal,
        BusError::NotConnected => ErrorKind::CapabilityUnavailable,
        BusError::Failed(source) if source.is::<link::NoHub>() => ErrorKind::CapabilityUnavailable,
        BusError::Failed(source) => source
            .downcast_ref::<meerkat_store::Error>()
            .map_or(ErrorKind::Internal, meerkat_store::Error::kind),
    }
}
