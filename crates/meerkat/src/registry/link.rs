//! The way to the realm's hub: in this process, or in another one that says so in a file of the realm.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meerkat_hub::{CallError, Client, ClientOptions, Hub};
use meerkat_registry::BusError;
use meerkat_store::Beacon;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a hub may take to be reached, and to list its functions.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a realm's hub is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubAt {
    /// Its address, `ws://` and so on.
    pub url: String,
    /// The process that runs it.
    pub pid: u32,
    /// What whoever connects has to show. Only the owner of the realm can read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Reads where the hub of a living process is.
pub(super) fn living(file: &Path) -> Option<HubAt> {
    serde_json::from_slice(&Beacon::read(file)?).ok()
}

/// There is no hub to call functions through.
#[derive(Debug, thiserror::Error)]
#[error("no hub is running in this realm; start one with `rkat hub`")]
pub(super) struct NoHub;

/// The way to the realm's hub.
pub(super) struct Link {
    /// The file that says where a hub of another process is.
    file: Option<PathBuf>,
    known: Mutex<Known>,
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// The hub of this process.
    hosted: Option<Hub>,
    /// The connection to that of another process.
    client: Option<(HubAt, Client)>,
}

/// Who carries a call.
#[derive(Clone)]
pub(super) enum Peer {
    Here(Hub),
    There(Client),
}

impl Link {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file, known: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// Takes calls to a hub of this process, or no longer.
    pub(super) fn host(&self, hub: Option<Hub>) {
        self.known().hosted = hub;
    }

    /// Says where a hub of another process is.
    pub(super) fn hub(&self) -> Option<HubAt> {
        living(self.file.as_ref()?)
    }

    /// Returns the hub of another process, if this one has none and that one can be reached.
    pub(super) async fn elsewhere(&self) -> Option<Peer> {
        match self.peer().await {
            Ok(peer @ Peer::There(_)) => Some(peer),
            Ok(Peer::Here(_)) | Err(_) => None,
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

    /// Calls a function of a program that uses the hub of this process. Those who use another are told by that one.
    pub(super) fn send(&self, function: &str, data: &Value) {
        let hosted = self.known().hosted.clone();
        if let Some(hub) = hosted {
            hub.call_void(function, data);
        }
    }

    /// Lists the functions there are.
    pub(super) async fn functions(&self, timeout: Duration) -> Result<Vec<Value>, BusError> {
        let listed = self.call("engine::functions::list", json!({}), timeout.min(PATIENCE)).await?;
        match listed {
            Value::Object(mut listed) => match listed.remove("functions") {
                Some(Value::Array(functions)) => Ok(functions),
                _ => Ok(Vec::new()),
            },
            _ => Ok(Vec::new()),
        }
    }

    async fn peer(&self) -> Result<Peer, BusError> {
        if let Some(hub) = self.known().hosted.clone() {
            return Ok(Peer::Here(hub));
        }
        let Some(at) = self.hub() else {
            // A connection would look for the hub that is gone for ever.
            self.known().client = None;
            return Err(BusError::Failed(Box::new(NoHub)));
        };
        // One connection serves everybody.
        let _one = self.connecting.lock().await;
        if let Some((_, client)) = self.known().client.as_ref().filter(|(known, _)| *known == at) {
            return Ok(Peer::There(client.clone()));
        }
        let options = ClientOptions { url: at.url.clone(), token: at.token.clone(), name: "rkat".to_owned() };
        let connected = tokio::time::timeout(PATIENCE, Client::connect(options)).await;
        let client = match connected {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(BusError::Failed(Box::new(error))),
            Err(_) => return Err(BusError::NotConnected),
        };
        self.known().client = Some((at, client.clone()));
        Ok(Peer::There(client))
    }

    /// It is whole whatever panicked while it was locked.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    pub(super) async fn call(
        &self,
        function: &str,
        data: Value,
        timeout: Duration,
    ) -> Result<Value, BusError> {
        let called = match self {
            Self::Here(hub) => hub.call(function, &data, timeout).await,
            Self::There(client) => client.call(function, &data, timeout).await,
        };
        called.map_err(fault)
    }
}

fn fault(error: CallError) -> BusError {
    match error.code.as_str() {
        "TIMEOUT" => BusError::Timeout,
        "NOT_CONNECTED" => BusError::NotConnected,
        _ => BusError::Remote { code: error.code, message: error.message },
    }
}

/// Keeps the hub of this process in use for as long as it lives.
pub(super) struct Lent(Arc<Link>);

impl Lent {
    pub(super) fn new(link: &Arc<Link>, hub: Hub) -> Self {
        link.host(Some(hub));
        Self(Arc::clone(link))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // The hub has the registry, which has the link: without this, none of them would ever end.
        self.0.host(None);
    }
}
