//! Connections, ownership, and message routing: the protocol without sockets, clocks, or tasks.
//!
//! [`Core`] receives events and returns the resulting [`Effect`]s in order. Its parts are tables that know nothing of
//! each other's changes: a change returns the effects to emit, and the core updates the other parts. Everything that
//! belongs to a connection is removed with it, and only by it: a removal always names the owner. Nothing pending is
//! lost: a trigger of a type without a provider waits for one, and is placed with every provider that registers.

mod builtin;
mod calls;
mod claims;
mod dispatch;
mod effects;
mod filter;
mod functions;
mod grant;
mod observed;
mod observers;
mod rights;
#[cfg(test)]
mod tests;
mod triggers;
mod workers;

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::CallError;
use crate::limits::Limits;
use crate::wire::{
    DecodeError, Inbound, Object, Observe, RegisterFunction, RegisterTrigger, RegisterTriggerType,
};

use calls::Calls;
use claims::Claims;
use effects::{Effects, Ids};
use functions::{Functions, parse_payload};
use observers::Observers;
use rights::Rights;
use triggers::{Trigger, Triggers};
use workers::{Worker, Workers};

pub(crate) use builtin::BUILTINS;
pub(crate) use calls::Caller;
pub(crate) use dispatch::QUEUE_PROVIDER;
pub(crate) use effects::{Effect, Run, Subscriber};
pub(crate) use functions::FunctionSpec;
pub(crate) use grant::Grant;
pub use grant::{Expose, Rbac};
pub(crate) use workers::{NewConnection, Peer};

/// The state of the hub.
pub(crate) struct Core {
    limits: Limits,
    /// The hub's own id, used in place of a worker's.
    own: Uuid,
    workers: Workers,
    functions: Functions,
    /// Holders of ids, also while the ids are not registered.
    claims: Claims,
    triggers: Triggers,
    observers: Observers,
    calls: Calls,
    effects: Effects,
}

impl Core {
    /// Creates the state of a hub that starts at this time since 1970.
    pub(crate) fn new(limits: Limits, mut ids: Ids, start: Duration) -> Self {
        let own = ids();
        let mut core = Self {
            limits,
            own,
            workers: Workers::default(),
            functions: Functions::default(),
            claims: Claims::default(),
            triggers: Triggers::default(),
            observers: Observers::default(),
            calls: Calls::default(),
            effects: Effects::new(ids, start),
        };
        core.provide_builtins();
        core
    }

    /// Sets the current time before an event is handled.
    pub(crate) fn with_now(&mut self, now: Duration) -> &mut Self {
        self.effects.set_now(now);
        self
    }

    /// Takes the pending effects.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        self.effects.take()
    }

    /// Adds a connected worker.
    pub(crate) fn connect(&mut self, arrival: NewConnection) -> Peer {
        let (id, token) = (self.effects.new_id(), self.effects.new_id());
        let peer = self.workers.add(arrival, id, token, self.limits.message_bytes);
        let hello = Object::message("workerregistered").id("worker_id", id);
        let hello = hello.id("reattach_token", token).raw("features", r#"["observe.v1"]"#);
        self.send(peer, hello.end());
        self.emit([Effect::WorkerChanged { event: "worker_connected", worker_id: id }]);
        peer
    }

    /// Removes a disconnected worker and everything that it registered.
    pub(crate) fn disconnect(&mut self, peer: Peer) {
        let Some(worker_id) = self.workers.remove(peer) else { return };
        let removed = self.triggers.remove_all(peer);
        self.emit(removed);
        for id in self.triggers.types_of(peer) {
            self.unregister_type(peer, &id);
        }
        self.observers.remove_all(peer);
        let ids: Vec<String> = self.functions.of(peer).into_iter().map(str::to_owned).collect();
        for id in &ids {
            self.drop_function(peer, id);
        }
        self.stop_calls(peer);
        self.emit((!ids.is_empty()).then_some(Effect::FunctionsChanged));
        self.emit([Effect::WorkerChanged { event: "worker_disconnected", worker_id }]);
    }

    /// Handles a message of a worker. Invalid messages are logged and ignored: the protocol has no reply for them.
    pub(crate) fn handle_message(&mut self, peer: Peer, message: Result<Inbound<'_>, DecodeError>) {
        if self.workers.get(peer).is_none() {
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
            Inbound::InvocationResult(id, outcome) => self.end_call((peer, id), outcome),
            Inbound::RegisterFunction(function) => self.register_function(peer, &function),
            Inbound::UnregisterFunction(id) => self.unregister_function(peer, &id),
            Inbound::RegisterTriggerType(offered) => self.register_type(peer, offered),
            Inbound::UnregisterTriggerType(id) => self.unregister_type(peer, &id),
            Inbound::RegisterTrigger(trigger) => self.register_trigger(peer, trigger),
            Inbound::UnregisterTrigger(id) => drop(self.unregister_trigger(peer, &id)),
            Inbound::TriggerRegistrationResult(id, error) => {
                let rejected = error.and_then(|error| self.triggers.reject(peer, &id, error));
                self.emit(rejected);
            }
            Inbound::Observe(observe) => self.observe(peer, observe),
            Inbound::Unobserve(id) => {
                let disposed = self.observers.remove(peer, &id);
                self.emit(disposed);
            }
            Inbound::Reattach { previous, token } => {
                // Ends the previous connection of a worker that reconnected.
                let old = token.and_then(|token| self.workers.find_previous(peer, &previous, &token));
                if let Some(old) = old {
                    self.disconnect(old);
                    self.emit([Effect::Drop(old)]);
                }
            }
            Inbound::Ping => self.send(peer, Object::message("pong").end()),
            Inbound::Nothing => {}
        }
    }

    /// Registers a function of this process.
    pub(crate) fn provide(&mut self, id: &str, spec: FunctionSpec) {
        self.functions.provide(id, spec);
        self.refresh_observers(id);
        self.emit([Effect::FunctionsChanged]);
    }

    /// Registers a trigger type of this process.
    pub(crate) fn provide_type(&mut self, id: &str, description: &str) {
        self.triggers.provide_type(id, description);
        self.refresh_triggers(|trigger| trigger.trigger_type == id);
    }

    fn register_function(&mut self, peer: Peer, function: &RegisterFunction<'_>) {
        let grant = self.workers.grant(peer);
        let id = grant.map_or_else(|| function.id.clone(), |grant| grant.registered_id(&function.id));
        let metadata = parse_payload(function.metadata);
        if !self.may_register(peer, &id, metadata.as_ref()) {
            self.note(peer, &format!("`{id}` is not registered: not allowed"));
            return self.reject(peer, &function.id);
        }
        let limit = self.limits.functions;
        if !self.functions.is_of(peer, &id) && self.functions.count(peer) >= limit {
            self.note(peer, &format!("`{id}` is not registered: it has {limit} functions"));
            return self.reject(peer, &id);
        }
        if self.functions.owner(&id) == Some(Peer::HUB) {
            self.note(peer, &format!("`{id}` is not registered: it belongs to the hub"));
            return self.reject(peer, &id);
        }
        if function.invocation.is_some() {
            self.note(peer, &format!("`{id}` is behind a URL and cannot be called: the hub fetches nothing"));
        }
        let spec = FunctionSpec {
            description: function.description.clone(),
            request_format: parse_payload(function.request_format),
            response_format: parse_payload(function.response_format),
            metadata,
            remote: function.invocation.is_some(),
        };
        self.put_function(peer, &id, spec);
    }

    fn put_function(&mut self, peer: Peer, id: &str, spec: FunctionSpec) {
        self.record_holder(peer, id);
        let Some(count) = self.functions.register(&self.workers, peer, id, spec) else { return };
        // Under access rules, the function's owner decides which triggers may call it.
        if count > 1 || self.workers.has_guarded() {
            self.refresh_triggers(|trigger| trigger.function_id == id);
        }
        self.refresh_observers(id);
        self.emit([Effect::FunctionsChanged]);
    }

    fn unregister_function(&mut self, peer: Peer, id: &str) {
        let grant = self.workers.grant(peer);
        let id = grant.map_or_else(|| id.to_owned(), |grant| grant.registered_id(id));
        if self.drop_function(peer, &id) {
            self.emit([Effect::FunctionsChanged]);
        }
    }

    /// Removes this connection's registration of the id, and no other; returns `false` if there is none.
    fn drop_function(&mut self, peer: Peer, id: &str) -> bool {
        let left = self.functions.unregister(peer, id);
        match left {
            None => {}
            Some(0) => self.refresh_observers(id),
            Some(_) => self.refresh_triggers(|trigger| trigger.function_id == id),
        }
        left.is_some()
    }

    /// Sends a rejection to SDKs that understand it; older ones ignore the message.
    fn reject(&mut self, peer: Peer, id: &str) {
        let message = Object::message("registrationrejected")
            .text("code", "FUNCTION_NAMESPACE_CONFLICT")
            .text("namespace", "default")
            .text("function_id", id)
            .id("owner_worker_id", self.own);
        self.send(peer, message.end());
    }

    /// Returns `true` if a connection may register a function; `metadata` is the metadata that the connection
    /// sent for it.
    fn may_register(&self, peer: Peer, id: &str, metadata: Option<&Value>) -> bool {
        let Some(grant) = self.workers.grant(peer) else { return true };
        let may_claim = || {
            let users = self.triggers.owners(id).chain(self.observers.owners(id));
            !grant.exposes(id, metadata)
                && self.claims.may_claim(self.rights(), peer, id, users, self.limits.functions)
        };
        grant.may_register(id) && (grant.assigns(id) || may_claim())
    }

    /// Records the holder of an id that a connection registers, and ends claims with a weaker right to it.
    fn record_holder(&mut self, peer: Peer, id: &str) {
        let Some(grant) = self.workers.grant(peer).cloned() else { return self.reserve(id) };
        if let Some(owner) = &grant.owner {
            self.claims.record(id, owner.clone());
        }
        if grant.assigns(id) {
            self.end_claims(peer, id);
        }
    }

    /// Reserves an id for workers without access rules and for those to which the rules assign it.
    pub(crate) fn reserve(&mut self, id: &str) {
        self.claims.reserve(id);
        self.end_claims(Peer::HUB, id);
    }

    fn end_claims(&mut self, peer: Peer, id: &str) {
        let is_ended = |other: &Peer| {
            self.workers.grant(*other).is_some_and(|grant| !grant.assigns(id))
                && !self.workers.is_same_owner(peer, *other)
        };
        let ended: Vec<Peer> = self.functions.owners(id).filter(is_ended).collect();
        for other in ended {
            self.drop_function(other, id);
            self.note(other, &format!("`{id}` is no longer registered: it belongs to another worker"));
            self.reject(other, id);
        }
    }

    fn register_type(&mut self, peer: Peer, offered: RegisterTriggerType<'_>) {
        let id = offered.id.clone();
        let grant = self.workers.grant(peer);
        let providers = self.triggers.providers(&id);
        let reason = if grant.is_some_and(|grant| !grant.may_register_types) {
            "is not registered: not allowed"
        } else if !providers.iter().all(|provider| self.workers.may_take_over(peer, *provider)) {
            "belongs to another worker"
        } else if providers.last() == Some(&Peer::HUB) {
            "belongs to the hub"
        } else {
            self.triggers.register_type(peer, offered);
            return self.refresh_triggers(|trigger| trigger.trigger_type == id);
        };
        self.note(peer, &format!("the trigger type `{id}` {reason}"));
    }

    fn unregister_type(&mut self, peer: Peer, id: &str) {
        self.triggers.unregister_type(peer, id);
        self.refresh_triggers(|trigger| trigger.trigger_type == id);
    }

    fn register_trigger(&mut self, peer: Peer, trigger: RegisterTrigger<'_>) {
        let RegisterTrigger { id, trigger_type, function_id, config, metadata } = trigger;
        let Self { workers, functions, triggers, .. } = self;
        let rights = Rights { workers, functions };
        let function_id = rights.full_id(peer, &function_id);
        let config = config.map_or("{}", RawValue::get).to_owned();
        let metadata = metadata.map(|raw| raw.get().to_owned());
        let trigger = Trigger::new(peer, trigger_type, function_id, config, metadata);
        let effects = match triggers.check(&id, &trigger, rights, self.limits.triggers) {
            Ok(()) => triggers.put(&id, trigger, rights),
            Err(reason) => {
                let error = CallError::new("trigger_registration_failed", reason);
                vec![trigger.rejection(&id, &error.json())]
            }
        };
        self.emit(effects);
    }

    /// Removes a trigger of this owner; returns `false` if there is none.
    fn unregister_trigger(&mut self, owner: Peer, id: &str) -> bool {
        let removed = self.triggers.remove(owner, id);
        self.emit(removed.as_ref().and_then(|trigger| trigger.removal(id)));
        removed.is_some()
    }

    fn observe(&mut self, peer: Peer, mut observe: Observe<'_>) {
        let Self { workers, functions, observers, .. } = self;
        let rights = Rights { workers, functions };
        for id in [&mut observe.source.function_id, &mut observe.target.function_id] {
            *id = rights.full_id(peer, id);
        }
        let result = observers.add(rights, peer, observe, self.limits.triggers, self.effects.now());
        self.emit([result]);
    }

    /// Ensures that only the right providers know the triggers that meet the condition.
    fn refresh_triggers(&mut self, is_concerned: impl Fn(&Trigger) -> bool) {
        let Self { workers, functions, triggers, .. } = self;
        let moved = triggers.refresh(Rights { workers, functions }, is_concerned);
        self.emit(moved);
    }

    /// Updates the observers of a function that was added or removed, and those that call it.
    fn refresh_observers(&mut self, function_id: &str) {
        let changed = self.observers.refresh(&self.functions, function_id);
        self.emit(changed);
    }

    fn send(&mut self, peer: Peer, text: String) {
        self.emit([Effect::Send(peer, text)]);
    }

    /// Adds effects, except messages to workers that are gone.
    fn emit(&mut self, effects: impl IntoIterator<Item = Effect>) {
        let is_sent = |effect: &Effect| match effect {
            Effect::Send(peer, _) => self.workers.get(*peer).is_some(),
            _ => true,
        };
        self.effects.add(effects.into_iter().filter(is_sent));
    }

    fn note(&mut self, peer: Peer, text: &str) {
        let name = self.workers.get(peer).map_or_else(|| "the hub".to_owned(), Worker::name);
        self.emit([Effect::Note(format!("{name}: {text}"))]);
    }

    /// Returns the triggers of a type of this process.
    pub(crate) fn subscribers(&self, trigger_type: &str) -> Vec<Subscriber> {
        self.triggers.subscribers(trigger_type)
    }

    /// Lists the functions that match a query and that the connection may see.
    pub(crate) fn list_functions(&self, from: Peer, query: &Value) -> Value {
        self.functions.list(&self.workers, from, query)
    }

    /// Returns the payload for subscribers of function changes.
    pub(crate) fn functions_event(&self) -> Value {
        let functions = &self.list_functions(Peer::HUB, &json!({}))["functions"];
        json!({ "event": "functions_changed", "functions": functions })
    }

    /// Returns `true` if a connection or this process has registered the function.
    pub(crate) fn is_registered(&self, id: &str) -> bool {
        self.functions.owner(id).is_some()
    }

    /// Returns `true` if a worker with this id is connected.
    pub(crate) fn is_connected(&self, id: Uuid) -> bool {
        self.workers.find(id).is_some()
    }

    /// Returns `true` if the hub may call a function on behalf of a connection.
    pub(crate) fn may_use(&self, peer: Peer, function_id: &str) -> bool {
        self.rights().may_use(peer, function_id)
    }

    fn rights(&self) -> Rights<'_> {
        Rights { workers: &self.workers, functions: &self.functions }
    }
}
