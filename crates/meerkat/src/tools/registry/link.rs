//! Connection to the realm's hub, which runs in this process or in another one that publishes its URL in a file of
//! the realm.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meerkat_hub::{CallError, Client, ClientOptions, Hub};
use meerkat_registry::BusError;
use meerkat_store::EndpointFile;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Timeout for connecting to a hub and for listing its functions.
const HUB_TIMEOUT: Duration = Duration::from_secs(3);

/// Endpoint of a realm's hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubEndpoint {
    /// WebSocket URL of the hub.
    pub url: String,
    /// The process that runs it.
    pub pid: u32,
    /// Token that clients must send. Only the owner of the realm can read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Reads the endpoint of a hub whose process is alive.
pub(super) fn read_endpoint(file: &Path) -> Option<HubEndpoint> {
    serde_json::from_slice(&EndpointFile::read(file)?).ok()
}

/// Error: no hub is running.
#[derive(Debug, thiserror::Error)]
#[error("no hub is running in this realm; start one with `rkat hub`")]
pub(super) struct NoHub;

/// Connection to the realm's hub.
pub(super) struct HubLink {
    /// File with the endpoint of another process's hub.
    file: Option<PathBuf>,
    state: Mutex<LinkState>,
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct LinkState {
    /// The hub of this process.
    hosted: Option<Hub>,
    /// The connection to another process's hub.
    client: Option<(HubEndpoint, Client)>,
}

/// The hub that routes a call.
#[derive(Clone)]
pub(super) enum HubConnection {
    Local(Hub),
    Remote(Client),
}

impl HubLink {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file, state: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// Sets or clears the hub of this process, to which calls are routed.
    pub(super) fn host(&self, hub: Option<Hub>) {
        self.state().hosted = hub;
    }

    /// Returns the endpoint of another process's hub.
    pub(super) fn hub(&self) -> Option<HubEndpoint> {
        read_endpoint(self.file.as_ref()?)
    }

    /// Returns the hub of another process, if this process has none and the other one can be reached.
    pub(super) async fn remote(&self) -> Option<HubConnection> {
        match self.peer().await {
            Ok(peer @ HubConnection::Remote(_)) => Some(peer),
            Ok(HubConnection::Local(_)) | Err(_) => None,
        }
    }

    pub(super) async fn call(
        &self,
        function: &str,
        data: Value,
        timeout: Duration,
    ) -> Result<Value, BusError> {
        self.peer().await?.call(function, data, timeout).await
    }

    /// Calls a function of a worker connected to the hub of this process. Another process's hub notifies its own
    /// workers.
    pub(super) fn send(&self, function: &str, data: &Value) {
        let hosted = self.state().hosted.clone();
        if let Some(hub) = hosted {
            hub.call_void(function, data);
        }
    }

    /// Lists the available functions.
    pub(super) async fn functions(&self, timeout: Duration) -> Result<Vec<Value>, BusError> {
        let response = self.call("engine::functions::list", json!({}), timeout.min(HUB_TIMEOUT)).await?;
        Ok(response.get("functions").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    async fn peer(&self) -> Result<HubConnection, BusError> {
        if let Some(hub) = self.state().hosted.clone() {
            return Ok(HubConnection::Local(hub));
        }
        let Some(endpoint) = self.hub() else {
            // The connection would try to reach the vanished hub forever.
            self.state().client = None;
            return Err(BusError::Failed(Box::new(NoHub)));
        };
        // All callers share one connection.
        let _guard = self.connecting.lock().await;
        if let Some((_, client)) =
            self.state().client.as_ref().filter(|(connected, _)| *connected == endpoint)
        {
            return Ok(HubConnection::Remote(client.clone()));
        }
        let (url, token) = (endpoint.url.clone(), endpoint.token.clone());
        let options = ClientOptions { url, token, name: "rkat".to_owned() };
        let connected = tokio::time::timeout(HUB_TIMEOUT, Client::connect(options)).await;
        let client = match connected {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(BusError::Failed(Box::new(error))),
            Err(_) => return Err(BusError::NotConnected),
        };
        self.state().client = Some((endpoint, client.clone()));
        Ok(HubConnection::Remote(client))
    }

    /// Locks the state. It is valid even if a thread panicked while holding the lock.
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HubConnection {
    pub(super) async fn call(
        &self,
        function: &str,
        data: Value,
        timeout: Duration,
    ) -> Result<Value, BusError> {
        let result = match self {
            Self::Local(hub) => hub.call(function, &data, timeout).await,
            Self::Remote(client) => client.call(function, &data, timeout).await,
        };
        result.map_err(bus_error)
    }
}

fn bus_error(error: CallError) -> BusError {
    match error.code.as_str() {
        "TIMEOUT" => BusError::Timeout,
        "NOT_CONNECTED" => BusError::NotConnected,
        _ => BusError::Remote { code: error.code, message: error.message },
    }
}

/// Routes calls to the hub of this process until dropped.
pub(super) struct LocalHubGuard(Arc<HubLink>);

impl LocalHubGuard {
    pub(super) fn new(link: &Arc<HubLink>, hub: Hub) -> Self {
        link.host(Some(hub));
        Self(Arc::clone(link))
    }
}

impl Drop for LocalHubGuard {
    fn drop(&mut self) {
        // The hub owns the registry, which owns the link: this breaks the reference cycle.
        self.0.host(None);
    }
}
