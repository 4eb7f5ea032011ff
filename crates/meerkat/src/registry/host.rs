//! The realm's hub in this process, with the registry on it.

use std::sync::Arc;

use meerkat_hub::{CallError, Hub, HubOptions, Invocation, LocalFunction, LocalTriggerType, TriggerHost};
use meerkat_registry::{Author, Registry, Scopes, functions, trigger_types};
use meerkat_store::Beacon;
use serde_json::Value;

use super::link::{self, HubAt, Lent};
use super::live::LiveRegistry;
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
    /// Makes the realm's hub, with the registry on it. While the config disables the registry, its functions say so.
    /// `log` takes what was refused.
    ///
    /// # Errors
    /// Fails when the config cannot be read.
    pub async fn host_hub(&self, log: impl Fn(&str) + Send + Sync + 'static) -> Result<HostedHub, Error> {
        let attached = self.attached();
        attached.live.refresh().await?;
        let mut options = HubOptions::new(Arc::clone(&attached.store));
        options.log = Some(Arc::new(log));
        let hub = Hub::new(options);
        put(&hub, &attached.live)?;
        let link = &attached.registry.link;
        let file = link.file().cloned();
        Ok(HostedHub { _lent: Lent::new(link, hub.clone()), hub, file })
    }
}

/// The registry as the hub calls it: under the config as it is at each call.
impl LiveRegistry {
    async fn call(&self, call: Invocation) -> Result<Value, CallError> {
        // A config that cannot be read changes nothing.
        let _ = self.refresh().await;
        let Some(registry) = self.current() else {
            let text = "registered skills and prompts are switched off; set `registry.enabled` to true";
            return Err(CallError::failed(text));
        };
        let done = match &call.guarded {
            None => registry.call(&call.function_id, call.data).await,
            Some(guarded) => {
                let author = Author {
                    name: guarded.owner(),
                    may_replace: &|owner| guarded.may_replace(owner),
                    may_use: &|function| guarded.may_use(function),
                };
                registry.call_as(Some(author), &call.function_id, call.data).await
            }
        };
        done.map_err(|error| CallError::failed(error.to_string()))
    }

    /// Returns the scopes that only the registry writes.
    async fn scopes(&self) -> Vec<String> {
        // A registry that is switched off still has what was registered.
        let _ = self.refresh().await;
        let Scopes { skills, prompts } = self.registry().options().scopes.clone();
        vec![skills, prompts]
    }
}

/// Puts the registry on a hub.
fn put(hub: &Hub, live: &Arc<LiveRegistry>) -> Result<(), Error> {
    for function in functions() {
        let live = Arc::clone(live);
        hub.register(LocalFunction {
            description: Some(function.description.to_owned()),
            request_format: Some(function.request_format.clone()),
            response_format: Some(function.response_format.clone()),
            ..LocalFunction::new(function.id, move |call: Invocation| {
                let live = Arc::clone(&live);
                async move { live.call(call).await }
            })
        })?;
    }
    for kind in trigger_types() {
        let host = Arc::new(Subscriptions { registry: live.registry().clone(), trigger_type: kind.id });
        let (id, description) = (kind.id.to_owned(), kind.description.to_owned());
        hub.register_trigger_type(LocalTriggerType { id, description, host: Some(host) })?;
    }
    let live = Arc::clone(live);
    hub.reserve_scopes(move || {
        let live = Arc::clone(&live);
        Box::pin(async move { live.scopes().await })
    });
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
