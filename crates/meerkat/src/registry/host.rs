//! The realm's hub in this process, with the registry on it.

use std::sync::Arc;

use meerkat_hub::{CallError, Hub, HubOptions, LocalFunction, LocalTriggerType, TriggerHost};
use meerkat_registry::{Registry, functions, trigger_types};
use meerkat_store::Beacon;

use super::link::{self, HubAt, Lent};
use crate::{Error, Runtime};

/// A hub of this process. As long as it lives, calls of the realm's registry go through it.
pub struct HostedHub {
    hub: Hub,
    file: Option<std::path::PathBuf>,
    _lent: Lent,
}

impl HostedHub {
    /// Returns the hub.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Tells the other processes of the realm where it is, for as long as the answer is kept. A realm in memory has no
    /// others.
    ///
    /// # Errors
    /// Fails when another process has said so of its own hub, or when it cannot be written.
    pub fn announce(&self, url: String, token: Option<String>) -> Result<Option<Beacon>, Error> {
        let Some(file) = &self.file else { return Ok(None) };
        // Programs at the other one would no longer be found.
        if let Some(HubAt { url, pid, .. }) = link::living(file) {
            return Err(Error::HubRunning { url, pid });
        }
        let at = HubAt { url, pid: std::process::id(), token };
        let text = serde_json::to_vec(&at).map_err(Error::Encode)?;
        Ok(Some(Beacon::raise(file, text)?))
    }
}

impl Runtime {
    /// Makes the realm's hub, with the registry on it unless that is switched off. `log` takes what was refused.
    ///
    /// # Errors
    /// Fails when the config cannot be read.
    pub async fn host_hub(&self, log: impl Fn(&str) + Send + Sync + 'static) -> Result<HostedHub, Error> {
        let config = self.config().get().await?.config;
        let attached = self.attached();
        let mut options = HubOptions::new(Arc::clone(&attached.store));
        options.log = Some(Arc::new(log));
        let hub = Hub::new(options);
        if let Some(registry) = attached.under(&config.registry) {
            put(&hub, registry.registry())?;
        }
        let file = attached.link.file().cloned();
        Ok(HostedHub { _lent: Lent::new(&attached.link, hub.clone()), hub, file })
    }
}

/// Puts the registry on a hub.
fn put(hub: &Hub, registry: &Registry) -> Result<(), Error> {
    for function in functions() {
        let registry = registry.clone();
        hub.register(LocalFunction {
            description: Some(function.description.to_owned()),
            request_format: Some(function.request_format.clone()),
            response_format: Some(function.response_format.clone()),
            ..LocalFunction::new(function.id, move |call: meerkat_hub::Invocation| {
                let registry = registry.clone();
                async move {
                    let done = registry.call(&call.function_id, call.data).await;
                    done.map_err(|error| CallError::failed(error.to_string()))
                }
            })
        })?;
    }
    for kind in trigger_types() {
        let host = Arc::new(Subscriptions { registry: registry.clone(), trigger_type: kind.id });
        let (id, description) = (kind.id.to_owned(), kind.description.to_owned());
        hub.register_trigger_type(LocalTriggerType { id, description, host: Some(host) })?;
    }
    Ok(())
}

/// Who wants to be told of changes.
struct Subscriptions {
    registry: Registry,
    trigger_type: &'static str,
}

impl TriggerHost for Subscriptions {
    fn register(&self, trigger_id: &str, function_id: &str, _: &str) {
        self.registry.subscribe(self.trigger_type, trigger_id, function_id);
    }

    fn unregister(&self, trigger_id: &str) {
        self.registry.unsubscribe(trigger_id);
    }
}
