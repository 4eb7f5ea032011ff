//! The hub: carries out the decisions of the core.

mod shared;

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::core::{BUILTINS, Caller, Core, FunctionSpec, Peer};
use crate::error::{CallError, HubError};
use crate::limits::Limits;
use crate::local::{BoxFuture, FunctionInfo, LocalFunction, LocalTriggerType};
use crate::state::{CHANGED, StateStore};
use shared::call_all;

pub(crate) use shared::{Link, Shared};

/// Maximum number of events that a subscriber in this process may lag behind.
const BACKLOG: usize = 1024;
/// Interval over which function changes are gathered before subscribers are notified.
const GATHER: Duration = Duration::from_millis(100);

/// Receives messages for the operator of the hub.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Options for creating a hub.
pub struct HubOptions {
    /// Store for `state::*` and queues.
    pub store: Arc<dyn StateStore>,
    /// Limits on each worker.
    pub limits: Limits,
    /// Receives a message for everything that was ignored, rejected, or dropped.
    pub log: Option<Log>,
}

impl HubOptions {
    /// Creates options with this store and the default limits.
    #[must_use]
    pub fn new(store: Arc<dyn StateStore>) -> Self {
        Self { store, limits: Limits::default(), log: None }
    }
}

/// A hub; clones share it.
#[derive(Clone)]
pub struct Hub {
    pub(crate) shared: Arc<Shared>,
}

impl Hub {
    /// Creates a hub that accepts no connections yet. Its tasks end when the last clone is dropped.
    #[must_use]
    pub fn new(options: HubOptions) -> Self {
        let shared = Shared::new(options);
        tokio::spawn(sweep(Arc::downgrade(&shared)));
        tokio::spawn(announce(Arc::downgrade(&shared), shared.changes()));
        Self { shared }
    }

    /// Registers a function of this process.
    pub fn register(&self, function: LocalFunction) -> Result<(), HubError> {
        let LocalFunction { id, description, request_format, response_format, metadata, handler } = function;
        let spec = FunctionSpec { description, request_format, response_format, metadata, remote: false };
        self.shared.update(|inner| {
            if BUILTINS.iter().any(|(builtin, _)| *builtin == id) || inner.handlers.contains_key(&id) {
                return Err(HubError::Taken { id });
            }
            inner.core.provide(&id, spec);
            inner.handlers.insert(id, handler);
            Ok(())
        })
    }

    /// Registers a trigger type of this process. Triggers already waiting for it are placed at once.
    pub fn register_trigger_type(&self, kind: LocalTriggerType) -> Result<(), HubError> {
        let LocalTriggerType { id, description, host } = kind;
        self.shared.update(|inner| {
            if id == CHANGED || id.starts_with("engine::") || inner.watchers.contains_key(&id) {
                return Err(HubError::Taken { id });
            }
            inner.core.provide_type(&id, &description);
            if let Some(host) = host {
                inner.hosts.insert(id.clone(), host);
            }
            inner.watchers.insert(id, broadcast::Sender::new(BACKLOG));
            Ok(())
        })
    }

    /// Notifies all subscribers of a trigger type of this process without waiting for them.
    pub fn fire(&self, trigger_type: &str, payload: &Value) {
        self.shared.update(|inner| {
            if let Some(watchers) = inner.watchers.get(trigger_type) {
                // There may be no subscribers.
                let _ = watchers.send(Arc::new(payload.clone()));
            }
            call_all(&mut inner.core, trigger_type, payload);
        });
    }

    /// Subscribes to a trigger type of this process; returns `None` if it does not exist.
    #[must_use]
    pub fn subscribe(&self, trigger_type: &str) -> Option<broadcast::Receiver<Arc<Value>>> {
        self.shared.update(|inner| inner.watchers.get(trigger_type).map(broadcast::Sender::subscribe))
    }

    /// Calls a function of this process or of a worker.
    pub async fn call(&self, function_id: &str, data: &Value, timeout: Duration) -> Result<Value, CallError> {
        self.shared.call(function_id, data, timeout).await
    }

    /// Calls a function without waiting for it.
    pub fn call_void(&self, function_id: &str, data: &Value) {
        self.shared.act(|core| core.call(Caller::NoReply, function_id, data.to_string()));
    }

    /// Lists the functions that can be called, except the hub's own.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionInfo> {
        let mut list = self.shared.inspect(|core| core.list_functions(Peer::HUB, &json!({})));
        let mut functions: Vec<FunctionInfo> =
            serde_json::from_value(list["functions"].take()).unwrap_or_default();
        functions.retain(|info| !info.id.starts_with("state::"));
        functions
    }

    /// Prevents connections under access rules from writing some scopes with `state::*`. `scopes` is evaluated on each
    /// such call. Only the first call has an effect.
    pub fn reserve_scopes(&self, scopes: impl Fn() -> BoxFuture<Vec<String>> + Send + Sync + 'static) {
        // If already set, the first value is retained.
        let _ = self.shared.services.reserved_scopes.set(Arc::new(scopes));
    }

    /// Returns a counter that increases whenever functions are added or removed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes()
    }
}

/// Ends calls that exceed the time limit and removes unused channels.
async fn sweep(shared: Weak<Shared>) {
    let Some(limit) = shared.upgrade().map(|shared| shared.limits.call_time) else { return };
    let pause = (limit / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.act(Core::expire);
        shared.services.channels.sweep();
    }
}

/// Notifies the subscribers of function changes, once per batch of changes.
async fn announce(shared: Weak<Shared>, mut changes: watch::Receiver<u64>) {
    while changes.changed().await.is_ok() {
        tokio::time::sleep(GATHER).await;
        changes.borrow_and_update();
        let Some(shared) = shared.upgrade() else { return };
        let event = "engine::functions-available";
        shared.act(|core| {
            if !core.subscribers(event).is_empty() {
                let payload = core.functions_event();
                call_all(core, event, &payload);
            }
        });
    }
}
