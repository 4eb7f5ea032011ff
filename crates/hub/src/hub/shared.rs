//! The state of a hub that its tasks share.
//!
//! Every decision is made under one lock, which is held while deciding and queuing the resulting messages, never across
//! an await. So messages to a worker are sent in the order in which they were decided. Callbacks in this process are
//! delayed until the lock is released.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{HubOptions, Log};
use crate::callbacks::Callbacks;
use crate::channels::Channels;
use crate::core::{Caller, Core, Effect, NewConnection, Peer, Run, Subscriber};
use crate::error::CallError;
use crate::guarded::Connections;
use crate::limits::Limits;
use crate::local::{Handler, TriggerHost};
use crate::lock;
use crate::outbox::{Outbox, Waiting};
use crate::queue::{Queues, receipt};
use crate::run::Services;
use crate::state::{CHANGED, Changed, State};
use crate::wire::decode;

/// A hub, as its tasks see it.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    pub(crate) limits: Limits,
    pub(crate) services: Services,
    pub(crate) queues: Queues,
    changes: watch::Sender<u64>,
    started: Instant,
    log: Option<Log>,
    own: Weak<Self>,
}

/// The part of the state that decisions change.
pub(super) struct Inner {
    pub(super) core: Core,
    peers: HashMap<Peer, Outgoing>,
    answers: HashMap<u64, oneshot::Sender<Result<String, CallError>>>,
    last_call: u64,
    pub(super) handlers: HashMap<String, Handler>,
    pub(super) hosts: HashMap<String, Arc<dyn TriggerHost>>,
    pub(super) watchers: HashMap<String, broadcast::Sender<Arc<Value>>>,
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

impl Shared {
    pub(super) fn new(options: HubOptions) -> Arc<Self> {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut core = Core::new(options.limits.clone(), Box::new(Uuid::new_v4), start);
        core.provide_type(CHANGED, "Fires when a value of the state changes.");
        let inner = Inner {
            core,
            peers: HashMap::new(),
            answers: HashMap::new(),
            last_call: 0,
            handlers: HashMap::new(),
            hosts: HashMap::new(),
            watchers: HashMap::new(),
            callbacks: Callbacks::default(),
        };
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            inner: Mutex::new(inner),
            services: Services {
                connections: own.clone(),
                state: State(options.store),
                channels: Channels::new(options.limits.channels),
                reserved_scopes: OnceLock::new(),
            },
            queues: Queues::new(options.limits.queued_calls),
            changes: watch::Sender::new(0),
            started: Instant::now(),
            limits: options.limits,
            log: options.log,
            own: own.clone(),
        })
    }

    /// Locks the state, at the current time.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The core does not panic; if it did, its tables would still be better than no hub.
        let mut inner = lock(&self.inner);
        inner.core.with_now(self.started.elapsed());
        inner
    }

    /// Changes the state and carries out the effects of the core. Then releases the lock, and runs the pending
    /// callbacks unless another thread does.
    pub(super) fn update<T>(&self, apply: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let result = apply(&mut inner);
        loop {
            let effects = inner.core.effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.carry_out(&mut inner, effect);
            }
        }
        if inner.callbacks.claim() {
            while let Some(callback) = inner.callbacks.next() {
                drop(inner);
                // A panic does not prevent the next callbacks from running.
                if catch_unwind(AssertUnwindSafe(callback)).is_err() {
                    tracing::error!("a callback of the hub panicked");
                }
                inner = self.lock();
            }
        }
        result
    }

    /// Passes an event to the core and carries out the resulting effects.
    pub(crate) fn act<T>(&self, apply: impl FnOnce(&mut Core) -> T) -> T {
        self.update(|inner| apply(&mut inner.core))
    }

    /// Reads the core's state.
    pub(crate) fn inspect<T>(&self, read: impl FnOnce(&Core) -> T) -> T {
        read(&self.lock().core)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn carry_out(&self, inner: &mut Inner, effect: Effect) {
        match effect {
            Effect::Send(peer, message) => self.send(inner, peer, message),
            Effect::Drop(peer) => {
                if let Some(outgoing) = inner.peers.remove(&peer) {
                    outgoing.ended.cancel();
                }
            }
            Effect::Run(run) => {
                let handler = inner.handlers.get(&run.function_id).cloned();
                let task = self.run(run, handler);
                if inner.callbacks.is_idle() {
                    tokio::spawn(task);
                } else {
                    inner.callbacks.push(|| drop(tokio::spawn(task)));
                }
            }
            Effect::Answer { call, outcome } => {
                if let Some(waiting) = inner.answers.remove(&call) {
                    // The caller may have been dropped.
                    let _ = waiting.send(outcome);
                }
            }
            Effect::Subscription { trigger_type, id, subscriber } => {
                let Some(host) = inner.hosts.get(&trigger_type).cloned() else { return };
                inner.callbacks.push(move || match subscriber {
                    Some(Subscriber { function_id, config }) => host.register(&id, &function_id, &config),
                    None => host.unregister(&id),
                });
            }
            Effect::Enqueue(call) => {
                let id = call.id;
                if let Err(error) = self.queues.push(call) {
                    inner.core.finish(id, Err(error));
                }
            }
            Effect::HandOver { id, data } => self.hand_over(id, &data),
            Effect::FunctionsChanged => self.changes.send_modify(|count| *count += 1),
            Effect::WorkerChanged { event, worker_id } => {
                let payload = json!({ "event": event, "worker_id": worker_id.to_string() });
                call_all(&mut inner.core, "engine::workers-available", &payload);
            }
            Effect::Note(text) => self.log(inner, text),
        }
    }

    /// Runs a function of this process; the core is notified when it ends.
    fn run(&self, run: Run, handler: Option<Handler>) -> impl Future<Output = ()> + Send + use<> {
        let (hub, services) = (self.own.clone(), self.services.clone());
        async move {
            let id = run.id;
            let outcome = services.run(run, handler).await;
            let Some(hub) = hub.upgrade() else { return };
            let (result, changed) = match outcome {
                Ok((value, changed)) => (Ok((!value.is_null()).then(|| value.to_string())), changed),
                Err(error) => (Err(error), None),
            };
            hub.act(|core| core.finish(id, result));
            if let Some(changed) = changed {
                hub.notify_state_change(&changed);
            }
        }
    }

    /// Passes a queued call to the worker that provides queues. The receipt is sent once that worker has accepted the
    /// call.
    fn hand_over(&self, id: Uuid, data: &str) {
        let (hub, limit) = (self.own.clone(), self.limits.call_time);
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        tokio::spawn(async move {
            let Some(hub) = hub.upgrade() else { return };
            let taken = hub.call(crate::core::QUEUE_PROVIDER, &data, limit).await;
            hub.act(|core| core.finish(id, taken.map(|_| Some(receipt(id)))));
        });
    }

    fn send(&self, inner: &mut Inner, peer: Peer, message: String) {
        let Some(outgoing) = inner.peers.get(&peer) else { return };
        // If the task has ended, it notifies the core itself.
        let queued = outgoing.messages.push(message).unwrap_or_default();
        if queued > self.limits.queued_bytes {
            outgoing.ended.cancel();
            self.log(inner, "dropped a worker that does not read its messages".to_owned());
        }
    }

    pub(crate) async fn call(
        &self,
        function_id: &str,
        data: &Value,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let (sender, answer) = oneshot::channel();
        let call = self.update(|inner| {
            inner.last_call += 1;
            inner.answers.insert(inner.last_call, sender);
            inner.core.call(Caller::Local(inner.last_call), function_id, data.to_string());
            inner.last_call
        });
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(outcome)) => {
                let text = outcome?;
                serde_json::from_str(&text)
                    .map_err(|error| CallError::new("serialization_error", error.to_string()))
            }
            Ok(Err(_)) => Err(CallError::stopped()),
            Err(_) => {
                self.update(|inner| {
                    inner.answers.remove(&call);
                    inner.core.abandon(call);
                });
                Err(CallError::timeout(timeout))
            }
        }
    }

    /// Notifies the subscribers of the state; some require a condition function to be called first.
    fn notify_state_change(&self, changed: &Changed) {
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
            let (hub, payload, limit) = (self.own.clone(), payload.clone(), self.limits.call_time);
            tokio::spawn(async move {
                let Some(hub) = hub.upgrade() else { return };
                if hub.call(&condition, &payload, limit).await == Ok(Value::Bool(true)) {
                    hub.act(|core| core.call(Caller::NoReply, &function_id, payload.to_string()));
                }
            });
        }
    }

    /// Adds a connected worker.
    pub(crate) fn connect(&self, arrival: NewConnection) -> Link {
        let (messages, waiting) = Outbox::new();
        let ended = CancellationToken::new();
        let peer = self.update(|inner| {
            let peer = inner.core.connect(arrival);
            inner.peers.insert(peer, Outgoing { messages, ended: ended.clone() });
            peer
        });
        Link { peer, waiting, ended }
    }

    /// Handles messages of a worker, in order. They are decoded before the lock is taken.
    pub(crate) fn handle_messages<'a>(&self, peer: Peer, texts: impl IntoIterator<Item = &'a str>) {
        let decoded: Vec<_> = texts.into_iter().map(decode).collect();
        self.act(|core| decoded.into_iter().for_each(|message| core.handle_message(peer, message)));
    }

    /// Removes a disconnected worker.
    pub(crate) fn disconnect(&self, peer: Peer) {
        self.update(|inner| {
            inner.peers.remove(&peer);
            inner.core.disconnect(peer);
        });
    }

    pub(crate) fn note(&self, text: &str) {
        self.update(|inner| self.log(inner, text.to_owned()));
    }

    fn log(&self, inner: &mut Inner, text: String) {
        if let Some(log) = self.log.clone() {
            inner.callbacks.push(move || log(&text));
        }
    }
}

impl Connections for Shared {
    fn is_connected(&self, worker: Uuid) -> bool {
        self.inspect(|core| core.is_connected(worker))
    }

    fn may_use(&self, peer: Peer, function_id: &str) -> bool {
        self.inspect(|core| core.may_use(peer, function_id))
    }
}

/// Calls the functions of a type's triggers.
pub(super) fn call_all(core: &mut Core, trigger_type: &str, payload: &Value) {
    let mut text = None;
    for subscriber in core.subscribers(trigger_type) {
        let data = text.get_or_insert_with(|| payload.to_string()).clone();
        core.call(Caller::NoReply, &subscriber.function_id, data);
    }
}
