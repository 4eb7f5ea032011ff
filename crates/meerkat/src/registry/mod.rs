//! What programs registered in a realm, as this process has it.
//!
//! Registered content is read from the realm's store, wherever it was put there. Functions are called through the
//! realm's hub: the one of this process if it has one, or else the one that another process of the realm runs. With no
//! hub, what is stored can still be read and changed.

mod bus;
mod contents;
mod host;
mod link;
mod live;
#[cfg(feature = "skills")]
mod source;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{Clock, ErrorKind, ToolSource};
use meerkat_registry::{BusError, Kind, Registry, is_reserved};
use meerkat_store::{Realm, Store};
use serde_json::Value;

use self::bus::RealmBus;
use self::contents::Following;
use self::link::Link;
use self::live::LiveRegistry;
use crate::config::{Config, ConfigService, CurrentConfig, RegistryConfig};
use crate::features::Fresh;
use crate::{Error, Runtime, Skills};

pub use contents::Contents;
pub use host::HostedHub;
pub use link::HubAt;

/// The registry of a runtime.
pub(crate) struct Attached {
    store: Arc<dyn Store>,
    live: Arc<LiveRegistry>,
    registry: RealmRegistry,
    #[cfg(feature = "skills")]
    source: Arc<source::Registered>,
}

/// What programs registered in a realm. Cloning it is cheap; all clones are the same registry.
#[derive(Clone)]
pub struct RealmRegistry {
    registry: Registry,
    link: Arc<Link>,
    following: Arc<Following>,
}

impl Attached {
    pub(crate) fn new(realm: &Realm, clock: Arc<dyn Clock>, config: ConfigService) -> Self {
        let store = realm.store();
        let link = Arc::new(Link::new(realm.paths().map(|paths| paths.hub.clone())));
        let bus = RealmBus::new(Arc::clone(&store), Arc::clone(&link));
        // One registry has the subscriptions under every config.
        let registry = Registry::new(Arc::new(bus), clock, live::options(&RegistryConfig::default()));
        let live = Arc::new(LiveRegistry::new(registry.clone(), config));
        let following = Arc::new(Following::new(Arc::clone(&live)));
        Self {
            store,
            live,
            registry: RealmRegistry { registry, link, following },
            #[cfg(feature = "skills")]
            source: Arc::default(),
        }
    }

    /// Makes the registered skills those of the store, and says whether they were others before.
    #[cfg(feature = "skills")]
    pub(crate) async fn skills(&self, current: &CurrentConfig, skills: &Skills) -> Fresh {
        self.live.apply(current.generation, &current.config.registry);
        match self.live.current() {
            Some(registry) => self.source.update(&registry, skills).await,
            None => self.source.clear(),
        }
    }

    /// A build without skills has no use for those that are registered.
    #[cfg(not(feature = "skills"))]
    #[expect(clippy::unused_async, reason = "as in the builds that have skills")]
    pub(crate) async fn skills(&self, _: &CurrentConfig, _: &Skills) -> Fresh {
        Fresh::No
    }

    /// Returns the functions that agents may call, as tools.
    pub(crate) async fn tools(&self, config: &Config) -> Option<Arc<dyn ToolSource>> {
        if !config.registry.enabled || config.registry.tools.is_empty() {
            return None;
        }
        // A run keeps the config that it began with, and changes nothing for others.
        let registry = self.registry.registry.with_options(live::options(&config.registry));
        tools::source(&RealmRegistry { registry, ..self.registry.clone() }, &config.registry).await
    }
}

impl RealmRegistry {
    /// Returns the registry itself, over the realm's store.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Calls a function: one of the registry, or one that a program offers.
    ///
    /// # Errors
    /// Says what the function said, or that nobody can be asked for it.
    pub async fn call(&self, function: &str, data: Value) -> Result<Value, Error> {
        let ours = meerkat_registry::functions().iter().any(|known| known.id == function);
        // A change goes through the hub that others have subscribed at, if there is one.
        let changes = function.ends_with("::register") || function.ends_with("::unregister");
        let elsewhere = if ours && changes { self.link.elsewhere().await } else { None };
        if ours && elsewhere.is_none() {
            return Ok(self.registry.call(function, data).await?);
        }
        meerkat_registry::check(function, &data)?;
        let called = match elsewhere {
            Some(peer) => peer.call(function, data, self.timeout()).await,
            None => self.link.call(function, data, self.timeout()).await,
        };
        called.map_err(|source| Error::Function { function: function.to_owned(), source })
    }

    /// Says where the realm's hub is, if one is running.
    #[must_use]
    pub fn hub(&self) -> Option<HubAt> {
        self.link.hub()
    }

    /// Lists the functions that programs offer; those of the hub itself are left out.
    ///
    /// # Errors
    /// Fails when there is no hub, or it does not answer.
    pub async fn functions(&self) -> Result<Vec<Value>, Error> {
        let listed = self.link.functions(self.timeout()).await;
        let mut listed = listed.map_err(|source| {
            let function = "engine::functions::list".to_owned();
            Error::Function { function, source }
        })?;
        listed.retain(|function| tools::id_of(function).is_some_and(|id| !is_reserved(id)));
        Ok(listed)
    }

    /// Reads what is registered now, under the current config; nothing if the config disables the registry.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn contents(&self) -> Result<Arc<Contents>, Error> {
        self.following.catch_up().await.map_err(|error| Error::Registry(error.into()))
    }

    /// Follows what is registered, by whomever: a receiver is told within half a second.
    #[must_use]
    pub fn follow(&self) -> tokio::sync::watch::Receiver<Arc<Contents>> {
        self.following.follow()
    }

    fn timeout(&self) -> Duration {
        self.registry.options().timeout
    }
}

impl Runtime {
    /// Returns what programs registered in the realm.
    ///
    /// # Errors
    /// Fails when the config cannot be read, or says that there is no registry.
    pub async fn registry(&self) -> Result<RealmRegistry, Error> {
        let attached = self.attached();
        attached.live.refresh().await?;
        let off = Error::Disabled { what: "registered skills and prompts", key: "registry.enabled" };
        attached.live.current().map(|_| attached.registry.clone()).ok_or(off)
    }
}

/// Sorts an error of the registry.
pub(crate) fn kind(error: &meerkat_registry::Error) -> ErrorKind {
    use meerkat_registry::Error as Fault;
    match error {
        Fault::Trigger { source, .. } | Fault::State(source) => bus_kind(source),
        Fault::SkillNotFound(_) => ErrorKind::SkillNotFound,
        other if other.kind() == Kind::Failed => ErrorKind::Internal,
        _ => ErrorKind::InvalidParams,
    }
}

/// Sorts an error of what carries calls.
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
