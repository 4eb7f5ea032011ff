//! The hub: carries out the decisions of the core.
//!
//! Every decision is made under one lock, which is held while deciding and queuing the resulting messages, never across
//! an await. So messages to a worker are sent in the order in which they were decided. Callbacks in this process are
//! delayed until the lock is released.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use meerkat_store::Store;
use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::callbacks::{Callback, Callbacks};
use crate::channels::Channels;
use crate::core::{Caller, Core, Effect, FunctionSpec, NewConnection, Peer};
use crate::error::{CallError, HubError};
use crate::limits::Limits;
use crate::local::{BoxFuture, FunctionInfo, Handler, LocalFunction, LocalTriggerType, TriggerHost};
use crate::queue::{QueuedCall, Queues};
use crate::socket::{Outbox, Waiting};
use crate::state::{CHANGED, Changed, State};
use crate::wire::decode;

/// Maximum number of events that a subscriber in this process may lag behind.
const BACKLOG: usize = 1024;
/// Interval over which function changes are gathered before subscribers are notified.
const GATHER: Duration = Duration::from_millis(100);

/// Receives messages for the operator of the hub.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Returns the scopes of the state that a connection under access rules may not write.
pub(crate) type ReservedScopes = Arc<dyn Fn() -> BoxFuture<Vec<String>> + Send + Sync>;

/// Options for creating a hub.
pub struct HubOptions {
    /// Store for `state::*` and queues.
    pub store: Arc<dyn Store>,
    /// Limits on each worker.
    pub limits: Limits,
    /// Receives a message for everything that was ignored, rejected, or dropped.
    pub log: Option<Log>,
}

impl std::fmt::Debug for HubOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HubOptions").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl HubOptions {
    /// Creates options with this store and the default limits.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, limits: Limits::default(), log: None }
    }
}

/// A hub; clones share it.
#[derive(Clone)]
pub struct Hub {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hub").finish_non_exhaustive()
    }
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    pub(crate) limits: Limits,
    pub(crate) state: State,
    pub(crate) channels: Channels,
    pub(crate) queues: Queues,
    pub(crate) reserved_scopes: OnceLock<ReservedScopes>,
    changes: watch::Sender<u64>,
    last_call: AtomicU64,
    started: Instant,
    log: Option<Log>,
}

struct Inner {
    core: Core,
    peers: HashMap<Peer, Outgoing>,
    answers: HashMap<u64, oneshot::Sender<Result<String, CallError>>>,
    handlers: HashMap<String, Handler>,
    hosts: HashMap<String, Arc<dyn TriggerHost>>,
    watchers: HashMap<String, broadcast::Sender<Arc<Value>>>,
    callbacks: Callbacks,
}

/// Outgoing messages of a connected worker.
struct Outgoing {
    messages: Outbox,
    ended: CancellationToken,
}

/// The hub's side of a connection, used by the connection's task.
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) waiting: Waiting,
    pub(crate) ended: CancellationToken,
}

impl Hub {
    /// Creates a hub that accepts no connections yet. Its tasks end when the last clone is dropped.
    #[must_use]
    pub fn new(options: HubOptions) -> Self {
        let born = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut core = Core::new(options.limits.clone(), Box::new(Uuid::new_v4)).with_start_time(born);
        core.provide_type(CHANGED, "Fires when a value of the state changes.");
        let inner = Inner {
            core,
            peers: HashMap::new(),
            answers: HashMap::new(),
            handlers: HashMap::new(),
            hosts: HashMap::new(),
            watchers: HashMap::new(),
            callbacks: Callbacks::default(),
        };
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| Shared {
            inner: Mutex::new(inner),
            state: State(Arc::clone(&options.store)),
            channels: Channels::new(options.limits.channels),
            queues: Queues::new(weak.clone(), State(options.store), options.limits.queued_calls),
            reserved_scopes: OnceLock::new(),
            changes: watch::Sender::new(0),
            last_call: AtomicU64::new(0),
            started: Instant::now(),
            limits: options.limits,
            log: options.log,
        });
        tokio::spawn(sweep(Arc::downgrade(&shared)));
        tokio::spawn(announce(Arc::downgrade(&shared), shared.changes.subscribe()));
        Self { shared }
    }

    /// Registers a function of this process.
    pub fn register(&self, function: LocalFunction) -> Result<(), HubError> {
        let LocalFunction { id, description, request_format, response_format, metadata, handler } = function;
        let taken = crate::core::BUILTINS.iter().any(|(builtin, _)| *builtin == id);
        let mut inner = self.shared.lock();
        if taken || inner.handlers.contains_key(&id) {
            return Err(HubError::Taken { id });
        }
        inner.handlers.insert(id.clone(), handler);
        let spec = FunctionSpec { description, request_format, response_format, metadata, remote: false };
        self.shared.decide(&mut inner, |core| core.provide(&id, spec));
        self.shared.release(inner);
        Ok(())
    }

    /// Registers a trigger type of this process. Triggers already waiting for it are placed at once.
    pub fn register_trigger_type(&self, kind: LocalTriggerType) -> Result<(), HubError> {
        let LocalTriggerType { id, description, host } = kind;
        let mut inner = self.shared.lock();
        if id == CHANGED || id.starts_with("engine::") || inner.watchers.contains_key(&id) {
            return Err(HubError::Taken { id });
        }
        inner.watchers.insert(id.clone(), broadcast::Sender::new(BACKLOG));
        if let Some(host) = host {
            inner.hosts.insert(id.clone(), host);
        }
        self.shared.decide(&mut inner, |core| core.provide_type(&id, &description));
        self.shared.release(inner);
        Ok(())
    }

    /// Notifies all subscribers of a trigger type of this process without waiting for them.
    pub fn fire(&self, trigger_type: &str, payload: &Value) {
        self.shared.fire(trigger_type, payload, &|_| true);
    }

    /// Subscribes to a trigger type of this process; returns `None` if it does not exist.
    #[must_use]
    pub fn subscribe(&self, trigger_type: &str) -> Option<broadcast::Receiver<Arc<Value>>> {
        self.shared.lock().watchers.get(trigger_type).map(broadcast::Sender::subscribe)
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
        let list = self.shared.act(|core| core.list_functions(Peer::HUB, &json!({})));
        let rows = list["functions"].as_array().cloned().unwrap_or_default();
        let text = |row: &Value, name: &str| row[name].as_str().map(str::to_owned);
        let some = |row: &Value, name: &str| Some(row[name].clone()).filter(|value| !value.is_null());
        rows.iter()
            .map(|row| FunctionInfo {
                id: text(row, "function_id").unwrap_or_default(),
                description: text(row, "description"),
                request_format: some(row, "request_format"),
                response_format: some(row, "response_format"),
                metadata: some(row, "metadata"),
            })
            .filter(|info| !info.id.starts_with("state::"))
            .collect()
    }

    /// Prevents connections under access rules from writing some scopes with `state::*`. `scopes` is evaluated on each
    /// such call. Only the first call has an effect.
    pub fn reserve_scopes(&self, scopes: impl Fn() -> BoxFuture<Vec<String>> + Send + Sync + 'static) {
        // If already set, the first value is retained.
        let _ = self.shared.reserved_scopes.set(Arc::new(scopes));
    }

    /// Returns a counter that increases whenever functions are added or removed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The core does not panic; if it did, its tables would still be better than no hub.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an event to the core and carries out the resulting effects.
    pub(crate) fn act<T>(&self, apply: impl FnOnce(&mut Core) -> T) -> T {
        let mut inner = self.lock();
        let result = self.decide(&mut inner, apply);
        self.release(inner);
        result
    }

    /// Reads the core's state.
    pub(crate) fn inspect<T>(&self, read: impl FnOnce(&Core) -> T) -> T {
        read(&self.lock().core)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Releases the lock and runs the pending callbacks, unless another thread does.
    fn release<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) {
        if !inner.callbacks.claim() {
            return;
        }
        while let Some(callback) = inner.callbacks.next() {
            drop(inner);
            callback.run(self, self.log.as_ref());
            inner = self.lock();
        }
    }

    fn decide<T>(&self, inner: &mut Inner, apply: impl FnOnce(&mut Core) -> T) -> T {
        let result = apply(inner.core.with_now(self.started.elapsed()));
        loop {
            let effects = inner.core.effects();
            if effects.is_empty() {
                return result;
            }
            for effect in effects {
                self.carry_out(inner, effect);
            }
        }
    }

    fn carry_out(&self, inner: &mut Inner, effect: Effect) {
        if let Some((trigger_type, payload)) = effect.event() {
            call_all(&mut inner.core, trigger_type, &payload, &|_| true);
        }
        match effect {
            Effect::Send(peer, message) => self.send(inner, peer, message),
            Effect::Drop(peer) => {
                if let Some(outgoing) = inner.peers.remove(&peer) {
                    outgoing.ended.cancel();
                }
            }
            Effect::Run(run) => {
                let handler = inner.handlers.get(&run.function_id).cloned();
                if inner.callbacks.is_idle() {
                    self.start(run, handler);
                } else {
                    inner.callbacks.push(Callback::Run(run, handler));
                }
            }
            Effect::Answer { call, outcome } => {
                if let Some(waiting) = inner.answers.remove(&call) {
                    // The caller may have been dropped.
                    let _ = waiting.send(outcome);
                }
            }
            Effect::Placed { trigger_type, id, function_id, config } => {
                if let Some(host) = inner.hosts.get(&trigger_type).cloned() {
                    inner.callbacks.push(Callback::Placed { host, id, function_id, config });
                }
            }
            Effect::Removed { trigger_type, id } => {
                if let Some(host) = inner.hosts.get(&trigger_type).cloned() {
                    inner.callbacks.push(Callback::Removed { host, id });
                }
            }
            Effect::Enqueue(call) => self.enqueue(inner, call),
            Effect::HandOver { id, data } => self.hand_over(id, &data),
            Effect::FunctionsChanged => self.changes.send_modify(|count| *count += 1),
            Effect::WorkerChanged { .. } => {}
            Effect::Note(text) => inner.callbacks.push(Callback::Note(text)),
        }
    }

    fn enqueue(&self, inner: &mut Inner, call: QueuedCall) {
        let id = call.id;
        if let Err(error) = self.queues.push(call) {
            inner.core.finish(id, Err(error));
        }
    }

    /// Passes a queued call to the worker that provides queues. The receipt is sent once that worker has accepted the
    /// call.
    fn hand_over(&self, id: Uuid, data: &str) {
        let (shared, limit) = (self.queues.hub(), self.limits.call_time);
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        tokio::spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            let taken = shared.call(crate::core::QUEUE_PROVIDER, &data, limit).await;
            let receipt = taken.map(|_| Some(crate::queue::receipt(id)));
            shared.act(|core| core.finish(id, receipt));
        });
    }

    fn send(&self, inner: &mut Inner, peer: Peer, message: String) {
        let Some(outgoing) = inner.peers.get(&peer) else { return };
        // If the task has ended, it notifies the core itself.
        let queued = outgoing.messages.push(message).unwrap_or_default();
        if queued > self.limits.queued_bytes {
            outgoing.ended.cancel();
            let text = "dropped a worker that does not read its messages".to_owned();
            inner.callbacks.push(Callback::Note(text));
        }
    }

    pub(crate) async fn call(
        &self,
        function_id: &str,
        data: &Value,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let call = self.last_call.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        {
            let mut inner = self.lock();
            inner.answers.insert(call, sender);
            self.decide(&mut inner, |core| core.call(Caller::Local(call), function_id, data.to_string()));
            self.release(inner);
        }
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(outcome)) => {
                let text = outcome?;
                serde_json::from_str(&text)
                    .map_err(|error| CallError::new("serialization_error", error.to_string()))
            }
            Ok(Err(_)) => Err(CallError::stopped()),
            Err(_) => {
                let mut inner = self.lock();
                inner.answers.remove(&call);
                self.decide(&mut inner, |core| core.abandon(call));
                self.release(inner);
                Err(CallError::timeout(timeout))
            }
        }
    }

    fn fire(&self, trigger_type: &str, payload: &Value, concerned: &dyn Fn(&Value) -> bool) {
        let mut inner = self.lock();
        if let Some(watchers) = inner.watchers.get(trigger_type) {
            // There may be no subscribers.
            let _ = watchers.send(Arc::new(payload.clone()));
        }
        self.decide(&mut inner, |core| call_all(core, trigger_type, payload, concerned));
        self.release(inner);
    }

    /// Notifies the subscribers of the state; some require a condition function to be called first.
    pub(crate) fn notify_state_change(&self, changed: &Changed) {
        let subscribers = self.act(|core| core.subscribers(CHANGED));
        if subscribers.is_empty() {
            return;
        }
        let payload = changed.payload();
        for subscriber in subscribers {
            let config: Value = serde_json::from_str(&subscriber.config).unwrap_or_default();
            if !changed.is_watched_by(&config) {
                continue;
            }
            let function_id = subscriber.function_id;
            let Some(condition) = config["condition_function_id"].as_str().map(str::to_owned) else {
                self.act(|core| core.call(Caller::NoReply, &function_id, payload.to_string()));
                continue;
            };
            let (shared, payload, limit) = (self.queues.hub(), payload.clone(), self.limits.call_time);
            tokio::spawn(async move {
                let Some(shared) = shared.upgrade() else { return };
                if shared.call(&condition, &payload, limit).await == Ok(Value::Bool(true)) {
                    shared.act(|core| core.call(Caller::NoReply, &function_id, payload.to_string()));
                }
            });
        }
    }

    /// Adds a connected worker.
    pub(crate) fn connect(&self, arrival: NewConnection) -> Link {
        let (messages, waiting) = Outbox::new();
        let ended = CancellationToken::new();
        let mut inner = self.lock();
        let peer = inner.core.connect(arrival);
        inner.peers.insert(peer, Outgoing { messages, ended: ended.clone() });
        self.decide(&mut inner, |_| ());
        self.release(inner);
        Link { peer, waiting, ended }
    }

    /// Handles messages of a worker, in order. They are decoded before the lock is taken.
    pub(crate) fn handle_messages<'a>(&self, peer: Peer, texts: impl IntoIterator<Item = &'a str>) {
        let decoded: Vec<_> = texts.into_iter().map(decode).collect();
        self.act(|core| decoded.into_iter().for_each(|message| core.handle_message(peer, message)));
    }

    /// Removes a disconnected worker.
    pub(crate) fn disconnect(&self, peer: Peer) {
        let mut inner = self.lock();
        inner.peers.remove(&peer);
        self.decide(&mut inner, |core| core.disconnect(peer));
        self.release(inner);
    }

    pub(crate) fn note(&self, text: &str) {
        let mut inner = self.lock();
        inner.callbacks.push(Callback::Note(text.to_owned()));
        self.release(inner);
    }
}

fn call_all(core: &mut Core, trigger_type: &str, payload: &Value, concerned: &dyn Fn(&Value) -> bool) {
    let mut text = None;
    for subscriber in core.subscribers(trigger_type) {
        let config = serde_json::from_str(&subscriber.config).unwrap_or_default();
        if concerned(&config) {
            let data = text.get_or_insert_with(|| payload.to_string()).clone();
            core.call(Caller::NoReply, &subscriber.function_id, data);
        }
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
        shared.channels.sweep();
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
                call_all(core, event, &payload, &|_| true);
            }
        });
    }
}
