//! Who is connected, who owns what, and where each message goes: the protocol without sockets, clocks or tasks.
//!
//! [`Core`] is told what happened and says what to do about it, as [`Effect`]s in order. Everything that
//! belongs to a connection is removed with it, and only by it: a removal always names the owner. What is
//! waited for is never lost: a trigger whose type nobody offers waits for a provider, and is told to every
//! provider that comes.

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
use crate::wire::{Inbound, NotUnderstood, Object};

pub(crate) use builtin::BUILTINS;
use calls::{Call, CallKey};
pub(crate) use calls::{Caller, QUEUE_PROVIDER, Run};
use claims::Holder;
use functions::Function;
pub(crate) use functions::FunctionSpec;
pub(crate) use grant::{Exposed, Grant, Hooks};
use observers::Observer;
use triggers::{Trigger, TriggerType};

/// One connection; [`Peer::HUB`] is what runs in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Peer(pub(crate) u64);

impl Peer {
    pub(crate) const HUB: Self = Self(0);
}

/// What is to be done, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// A message goes to a worker.
    Send(Peer, String),
    /// A connection ends.
    Drop(Peer),
    /// A function of this process runs.
    Run(Run),
    /// A caller in this process has its answer.
    Answer {
        call: u64,
        outcome: Result<String, CallError>,
    },
    /// A trigger of a type of this process was placed, or taken away.
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
    /// A call goes into a queue of ours; [`Core::finish`] is told when it is stored.
    Enqueue(QueuedCall),
    /// A call goes to the worker that keeps queues; [`Core::finish`] is told when that has taken it.
    HandOver {
        id: Uuid,
        data: String,
    },
    /// The functions that there are have changed.
    FunctionsChanged,
    /// A worker came, went or said who it is.
    WorkerChanged {
        event: &'static str,
        worker_id: Uuid,
    },
    /// Something that whoever runs the hub may want to know.
    Note(String),
}

/// A connected worker.
#[derive(Debug)]
struct Worker {
    id: Uuid,
    token: Uuid,
    address: Option<IpAddr>,
    connected_at: Duration,
    about: Option<About>,
    functions: BTreeSet<String>,
    triggers: usize,
    /// Calls that it made and that are not answered.
    waiting: usize,
    /// Calls that it was given and has not answered.
    running: usize,
    grant: Option<Arc<Grant>>,
    /// The longest message that it can take.
    longest: usize,
}

/// What a worker says of itself.
#[derive(Debug, Clone, Default)]
struct About {
    name: Option<String>,
    runtime: Option<String>,
    version: Option<String>,
    os: Option<String>,
    pid: Option<u64>,
    isolation: Option<String>,
    description: Option<String>,
    namespace: Option<String>,
}

/// Where ids come from.
pub(crate) type Ids = Box<dyn FnMut() -> Uuid + Send>;

/// A new connection.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) address: Option<IpAddr>,
    /// Milliseconds since 1970.
    pub(crate) at: Duration,
    /// What it may do; `None` is everything.
    pub(crate) grant: Option<Arc<Grant>>,
}

/// The state of the hub.
pub(crate) struct Core {
    limits: Limits,
    ids: Ids,
    /// The hub's own id, where a worker's is expected.
    own: Uuid,
    /// When the hub began, since 1970, and the time since then.
    born: Duration,
    now: Duration,
    workers: BTreeMap<Peer, Worker>,
    functions: BTreeMap<String, Function>,
    /// Whose an id is, also while it is not registered.
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

    /// Says when the hub began, since 1970.
    pub(crate) fn born(mut self, at: Duration) -> Self {
        self.born = at;
        self
    }

    /// Says what time it is, before something happens.
    pub(crate) fn at(&mut self, now: Duration) -> &mut Self {
        self.now = now;
        self
    }

    /// Gives what is to be done, once.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// A worker connected.
    pub(crate) fn connect(&mut self, arrival: Arrival) -> Peer {
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

    /// A worker is gone, and with it all that it registered.
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

    /// A worker said something. What is not understood is passed over: there is nobody to tell.
    pub(crate) fn hear(&mut self, peer: Peer, message: Result<Inbound<'_>, NotUnderstood>) {
        if !self.workers.contains_key(&peer) {
            return;
        }
        match message {
            Ok(message) => self.handle(peer, message),
            Err(error) => self.note(peer, &format!("a message was passed over: {error}")),
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

    /// A worker that came back ends the connection it had before, if it knows the secret of that one.
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

    /// The worker with this id said who it is.
    fn introduce(&mut self, peer: Peer, about: &Value) {
        let text = |name: &str| about.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(worker) = self.workers.get_mut(&peer) else { return };
        let about = About {
            name: text("name"),
            runtime: text("runtime"),
            version: text("version"),
            os: text("os"),
            pid: about.get("pid").and_then(Value::as_u64),
            isolation: text("isolation"),
            description: text("description"),
            namespace: text("namespace"),
        };
        // The WebSocket library of these takes no more, and ends the connection over it.
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

impl About {
    /// Whether the SDK is known and older than this.
    fn version_before(&self, major: u64, minor: u64) -> bool {
        let Some(version) = &self.version else { return false };
        let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(found_major), Some(found_minor)) => (found_major, found_minor) < (major, minor),
            _ => false,
        }
    }
}
