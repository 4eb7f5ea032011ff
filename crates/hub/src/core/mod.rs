//! Connections, ownership, and message routing: the protocol without sockets, clocks, or tasks.
//!
//! [`Core`] receives events and returns the resulting [`Effect`]s in order. Everything that belongs to a connection is
//! removed with it, and only by it: a removal always names the owner. Nothing pending is lost: a trigger of a type
//! without a provider waits for one, and is placed with every provider that registers.

mod answers;
mod builtin;
mod calls;
mod claims;
mod filter;
mod functions;
mod grant;
mod listing;
mod observed;
mod observers;
mod rights;
#[cfg(test)]
mod tests;
mod triggers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::error::CallError;
use crate::limits::Limits;
use crate::queue::QueuedCall;
use crate::wire::{DecodeError, Inbound, Object};

pub(crate) use builtin::BUILTINS;
use calls::{Call, CallKey};
pub(crate) use calls::{Caller, QUEUE_PROVIDER, Run};
use claims::Holder;
use functions::Function;
pub(crate) use functions::FunctionSpec;
pub(crate) use grant::{Exposed, Grant, Hooks};
use observers::Observer;
use triggers::{Trigger, TriggerType};

/// A connection; [`Peer::HUB`] is this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Peer(pub(crate) u64);

impl Peer {
    pub(crate) const HUB: Self = Self(0);
}

/// An action for the hub to carry out, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send a message to a worker.
    Send(Peer, String),
    /// Close a connection.
    Drop(Peer),
    /// Run a function of this process.
    Run(Run),
    /// Return an answer to a caller in this process.
    Answer {
        call: u64,
        outcome: Result<String, CallError>,
    },
    /// Place a trigger with a type of this process, or remove it.
    Placed {
        trigger_type: String,
        id: String,
        function_id: String,
        config: String,
    },
    Removed {
        trigger_type: String,
        id: String,
    },
    /// Add a call to a built-in queue; [`Core::finish`] is called when it is stored.
    Enqueue(QueuedCall),
    /// Pass a call to the worker that provides queues; [`Core::finish`] is called when the worker has accepted it.
    HandOver {
        id: Uuid,
        data: String,
    },
    /// The available functions have changed.
    FunctionsChanged,
    /// A worker connected, disconnected, or set its information.
    WorkerChanged {
        event: &'static str,
        worker_id: Uuid,
    },
    /// Write a message to the operator's log.
    Note(String),
}

/// A connected worker.
#[derive(Debug)]
struct Worker {
    id: Uuid,
    token: Uuid,
    address: Option<IpAddr>,
    connected_at: Duration,
    about: Option<WorkerInfo>,
    functions: BTreeSet<String>,
    triggers: usize,
    /// Number of unanswered calls that the worker made.
    waiting: usize,
    /// Number of calls that the worker received and has not answered.
    running: usize,
    grant: Option<Arc<Grant>>,
    /// Maximum message size that the worker accepts.
    longest: usize,
}

/// A worker's description of itself.
#[derive(Debug, Clone, Default)]
struct WorkerInfo {
    name: Option<String>,
    runtime: Option<String>,
    version: Option<String>,
    os: Option<String>,
    pid: Option<u64>,
    isolation: Option<String>,
    description: Option<String>,
    namespace: Option<String>,
}

/// Generator of ids.
pub(crate) type Ids = Box<dyn FnMut() -> Uuid + Send>;

/// A new connection.
#[derive(Debug, Default)]
pub(crate) struct NewConnection {
    pub(crate) address: Option<IpAddr>,
    /// Connection time in milliseconds since 1970.
    pub(crate) at: Duration,
    /// Rights of the connection; `None` means no restrictions.
    pub(crate) grant: Option<Arc<Grant>>,
}

/// The state of the hub.
pub(crate) struct Core {
    limits: Limits,
    ids: Ids,
    /// The hub's own id, used in place of a worker's.
    own: Uuid,
    /// Start time of the hub since 1970, and the time elapsed since then.
    born: Duration,
    now: Duration,
    workers: BTreeMap<Peer, Worker>,
    functions: BTreeMap<String, Function>,
    /// Holders of ids, also while the ids are not registered.
    holders: HashMap<String, Holder>,
    types: BTreeMap<String, TriggerType>,
    triggers: BTreeMap<String, Trigger>,
    observers: BTreeMap<String, Observer>,
    calls: HashMap<CallKey, Call>,
    last_peer: u64,
    effects: Vec<Effect>,
}

impl Core {
    pub(crate) fn new(limits: Limits, mut ids: Ids) -> Self {
        let own = ids();
        let mut core = Self {
            limits,
            ids,
            own,
            born: Duration::ZERO,
            now: Duration::ZERO,
            workers: BTreeMap::new(),
            functions: BTreeMap::new(),
            holders: HashMap::new(),
            types: BTreeMap::new(),
            triggers: BTreeMap::new(),
            observers: BTreeMap::new(),
            calls: HashMap::new(),
            last_peer: 0,
            effects: Vec::new(),
        };
        core.provide_builtins();
        core
    }

    /// Sets the hub's start time, since 1970.
    pub(crate) fn with_start_time(mut self, at: Duration) -> Self {
        self.born = at;
        self
    }

    /// Sets the current time before an event is handled.
    pub(crate) fn with_now(&mut self, now: Duration) -> &mut Self {
        self.now = now;
        self
    }

    /// Takes the pending effects.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Adds a connected worker.
    pub(crate) fn connect(&mut self, arrival: NewConnection) -> Peer {
        self.last_peer += 1;
        let peer = Peer(self.last_peer);
        let (id, token) = ((self.ids)(), (self.ids)());
        let worker = Worker {
            id,
            token,
            address: arrival.address,
            connected_at: arrival.at,
            about: None,
            functions: BTreeSet::new(),
            triggers: 0,
            waiting: 0,
            running: 0,
            grant: arrival.grant,
            longest: self.limits.message_bytes,
        };
        self.workers.insert(peer, worker);
        let hello = Object::message("workerregistered").id("worker_id", id);
        let hello = hello.id("reattach_token", token).raw("features", r#"["observe.v1"]"#);
        self.send(peer, hello.end());
        self.effects.push(Effect::WorkerChanged { event: "worker_connected", worker_id: id });
        peer
    }

    /// Removes a disconnected worker and everything that it registered.
    pub(crate) fn disconnect(&mut self, peer: Peer) {
        let Some(worker) = self.workers.remove(&peer) else { return };
        self.drop_triggers(peer);
        self.drop_types(peer);
        self.drop_observers(peer);
        let lost = !worker.functions.is_empty();
        for id in &worker.functions {
            self.drop_function(peer, id);
        }
        self.stop_calls(peer);
        if lost {
            self.effects.push(Effect::FunctionsChanged);
        }
        self.effects.push(Effect::WorkerChanged { event: "worker_disconnected", worker_id: worker.id });
    }

    /// Handles a message of a worker. Invalid messages are logged and ignored: the protocol has no reply for them.
    pub(crate) fn handle_message(&mut self, peer: Peer, message: Result<Inbound<'_>, DecodeError>) {
        if !self.workers.contains_key(&peer) {
            return;
        }
        match message {
            Ok(message) => self.handle(peer, message),
            Err(error) => self.note(peer, &format!("ignored a message: {error}")),
        }
    }

    fn handle(&mut self, peer: Peer, message: Inbound<'_>) {
        match message {
            Inbound::Invoke(invoke) => self.invoke(peer, invoke),
            Inbound::InvocationResult(outcome) => self.outcome(peer, &outcome),
            Inbound::RegisterFunction(function) => self.register_function(peer, &function),
            Inbound::UnregisterFunction { id } => self.unregister_function(peer, &id),
            Inbound::RegisterTriggerType { id, description, formats } => {
                self.register_type(peer, &id, description, &formats);
            }
            Inbound::UnregisterTriggerType { id } => self.unregister_type(peer, &id),
            Inbound::RegisterTrigger(trigger) => self.register_trigger(peer, trigger),
            Inbound::UnregisterTrigger { id } => self.unregister_trigger(peer, &id),
            Inbound::TriggerRegistrationResult { id, error } => self.trigger_result(peer, &id, error),
            Inbound::Observe(observe) => self.observe(peer, observe),
            Inbound::Unobserve { id } => self.unobserve(peer, &id),
            Inbound::Reattach { previous, token } => self.reattach(peer, &previous, token.as_deref()),
            Inbound::Ping => self.send(peer, Object::message("pong").end()),
            Inbound::Nothing => {}
        }
    }

    /// Ends the previous connection of a worker that reconnected, if the worker knows that connection's secret.
    fn reattach(&mut self, peer: Peer, previous: &str, token: Option<&str>) {
        let old = self.workers.iter().find(|(old, worker)| {
            **old != peer
                && worker.id.to_string() == previous
                && token.is_some_and(|token| token == worker.token.to_string())
        });
        if let Some(old) = old.map(|(old, _)| *old) {
            self.disconnect(old);
            self.effects.push(Effect::Drop(old));
        }
    }

    fn send(&mut self, peer: Peer, text: String) {
        if self.workers.contains_key(&peer) {
            self.effects.push(Effect::Send(peer, text));
        }
    }

    fn note(&mut self, peer: Peer, text: &str) {
        let name = self.workers.get(&peer).map_or_else(|| "the hub".to_owned(), Worker::name);
        self.effects.push(Effect::Note(format!("{name}: {text}")));
    }

    fn grant(&self, peer: Peer) -> Option<Arc<Grant>> {
        self.workers.get(&peer).and_then(|worker| worker.grant.clone())
    }

    /// Stores the information that a worker sent about itself.
    fn set_worker_info(&mut self, peer: Peer, about: &Value) {
        let text = |name: &str| about.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(worker) = self.workers.get_mut(&peer) else { return };
        let about = WorkerInfo {
            name: text("name"),
            runtime: text("runtime"),
            version: text("version"),
            os: text("os"),
            pid: about.get("pid").and_then(Value::as_u64),
            isolation: text("isolation"),
            description: text("description"),
            namespace: text("namespace"),
        };
        // The WebSocket library of these SDKs accepts no more, and closes the connection otherwise.
        if about.runtime.as_deref() == Some("python") && about.version_before(0, 25) {
            worker.longest = worker.longest.min(1024 * 1024);
        }
        worker.about = Some(about);
        let worker_id = worker.id;
        self.effects.push(Effect::WorkerChanged { event: "worker_metadata_updated", worker_id });
    }
}

impl Worker {
    fn name(&self) -> String {
        let name = self.about.as_ref().and_then(|about| about.name.clone());
        name.unwrap_or_else(|| self.id.to_string())
    }
}

impl WorkerInfo {
    /// Returns `true` if the SDK version is known and older than this.
    fn version_before(&self, major: u64, minor: u64) -> bool {
        let Some(version) = &self.version else { return false };
        let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(found_major), Some(found_minor)) => (found_major, found_minor) < (major, minor),
            _ => false,
        }
    }
}
