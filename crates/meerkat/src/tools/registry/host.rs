//! The realm's hub in this process, which hosts the registry.

use std::sync::Arc;

use meerkat_hub::{CallError, Hub, HubOptions, Invocation, LocalFunction, LocalTriggerType, TriggerHost};
use meerkat_registry::{Author, Registry, Scopes, functions, trigger_types};
use meerkat_store::EndpointFile;
use serde_json::Value;

use super::super::ToolsError;
use super::RuntimeRegistry;
use super::link::{self, HubEndpoint, LocalHubGuard};
use super::live::LiveRegistry;
use super::state::RealmState;
use crate::records::RecordError;

/// A hub of this process. Until it is dropped, calls of the realm's registry go through it.
pub struct HostedHub {
    hub: Hub,
    file: Option<std::path::PathBuf>,
    _guard: LocalHubGuard,
}

impl HostedHub {
    /// Returns the hub.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Publishes the hub's URL to the other processes of the realm until the returned [`EndpointFile`] is dropped.
    /// Returns `None` for an in-memory realm, which has no other processes.
    ///
    /// # Errors
    /// Returns an error if another process has published its hub, or the file cannot be written.
    pub fn announce(&self, url: String, token: Option<String>) -> Result<Option<EndpointFile>, ToolsError> {
        let Some(file) = &self.file else { return Ok(None) };
        // Workers connected to the other hub would no longer be found.
        if let Some(HubEndpoint { url, pid, .. }) = link::read_endpoint(file) {
            return Err(ToolsError::HubRunning { url, pid });
        }
        let endpoint = HubEndpoint { url, pid: std::process::id(), token };
        let text = serde_json::to_vec(&endpoint).map_err(RecordError::Encode)?;
        Ok(Some(EndpointFile::publish(file, text)?))
    }
}

impl RuntimeRegistry {
    /// Creates the realm's hub, which hosts the registry. While the config disables the registry, its functions fail.
    /// `log` receives rejected requests.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read.
    pub(crate) async fn host_hub(
        &self,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<HostedHub, ToolsError> {
        self.live.refresh().await?;
        let mut options = HubOptions::new(Arc::new(RealmState(Arc::clone(&self.store))));
        options.log = Some(Arc::new(log));
        let hub = Hub::new(options);
        register_functions(&hub, &self.live)?;
        let link = &self.registry.link;
        let file = link.file().cloned();
        Ok(HostedHub { _guard: LocalHubGuard::new(link, hub.clone()), hub, file })
    }
}

/// Calls by the hub, each under the current config.
impl LiveRegistry {
    async fn call(&self, call: Invocation) -> Result<Value, CallError> {
        // If the config cannot be read, the last known config applies.
        let _ = self.refresh().await;
        let Some(registry) = self.current() else {
            let text = "registered skills and prompts are disabled; set `registry.enabled` to true";
            return Err(CallError::failed(text));
        };
        let result = match &call.guarded {
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
        result.map_err(|error| CallError::failed(error.to_string()))
    }

    /// Returns the scopes that only the registry writes.
    async fn scopes(&self) -> Vec<String> {
        // A disabled registry still has its contents.
        let _ = self.refresh().await;
        let Scopes { skills, prompts } = self.registry().options().scopes.clone();
        vec![skills, prompts]
    }
}

/// Registers the registry's functions and trigger types with a hub.
fn register_functions(hub: &Hub, live: &Arc<LiveRegistry>) -> Result<(), ToolsError> {
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

/// Subscriptions to triggers of one type.
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
