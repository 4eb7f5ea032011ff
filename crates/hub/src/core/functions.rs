//! Functions and their owners.
//!
//! A function id may be registered by several connections. The newest receives the calls, because an SDK that
//! reconnects before its old connection is known to be dead must get its calls back, and most SDKs never learn of a
//! rejection. When the newest is removed, the previous one becomes active again. Functions of this process cannot be
//! taken over. A connection under access rules takes over only from the same owner; if the rules assign it an id that
//! others also registered, it receives the calls only once all others are gone.

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Core, Effect, Peer};
use crate::wire::{Object, RegisterFunction};

/// Description of a function.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FunctionSpec {
    pub(crate) description: Option<String>,
    pub(crate) request_format: Option<Value>,
    pub(crate) response_format: Option<Value>,
    pub(crate) metadata: Option<Value>,
    /// If true, the function is behind a URL, which the hub does not call.
    pub(crate) remote: bool,
}

/// The registrations of one id, the newest last; never empty.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) registrations: Vec<(Peer, FunctionSpec)>,
}

impl Function {
    pub(super) fn owner(&self) -> Option<(Peer, &FunctionSpec)> {
        self.registrations.last().map(|(peer, spec)| (*peer, spec))
    }
}

impl Core {
    /// Registers a function of this process.
    pub(crate) fn provide(&mut self, id: &str, spec: FunctionSpec) {
        self.functions.insert(id.to_owned(), Function { registrations: vec![(Peer::HUB, spec)] });
        self.refresh_observers(id);
        self.effects.push(Effect::FunctionsChanged);
    }

    pub(super) fn register_function(&mut self, peer: Peer, function: &RegisterFunction<'_>) {
        let Some(worker) = self.workers.get(&peer) else { return };
        let grant = worker.grant.clone();
        let id =
            grant.as_ref().map_or_else(|| function.id.clone(), |grant| grant.registered_id(&function.id));
        if !self.may_register(peer, &id, parse_payload(function.metadata).as_ref()) {
            self.note(peer, &format!("`{id}` is not registered: not allowed"));
            return self.reject(peer, &function.id);
        }
        if !worker.functions.contains(&id) && worker.functions.len() >= self.limits.functions {
            self.note(peer, &format!("`{id}` is not registered: it has {} functions", self.limits.functions));
            return self.reject(peer, &id);
        }
        if self.owner_of(&id) == Some(Peer::HUB) {
            self.note(peer, &format!("`{id}` is not registered: it belongs to the hub"));
            return self.reject(peer, &id);
        }
        if function.invocation.is_some() {
            self.note(peer, &format!("`{id}` is behind a URL and cannot be called: the hub fetches nothing"));
        }
        let spec = FunctionSpec {
            description: function.description.clone(),
            request_format: parse_payload(function.formats.request),
            response_format: parse_payload(function.formats.response),
            metadata: parse_payload(function.metadata),
            remote: function.invocation.is_some(),
        };
        self.put_function(peer, &id, spec);
    }

    fn put_function(&mut self, peer: Peer, id: &str, spec: FunctionSpec) {
        self.record_holder(peer, id);
        let is_guarded = self.grant(peer).is_some();
        let yields = is_guarded && self.owner_of(id).is_some_and(|owner| !self.is_same_owner(peer, owner));
        let function =
            self.functions.entry(id.to_owned()).or_insert_with(|| Function { registrations: Vec::new() });
        match function.registrations.iter_mut().find(|(owner, _)| *owner == peer) {
            // Older SDKs send every registration twice. A repetition does not change the order.
            Some((_, known)) if *known == spec => return,
            Some((_, known)) => *known = spec,
            None if yields => function.registrations.insert(0, (peer, spec)),
            None => function.registrations.push((peer, spec)),
        }
        let contested = function.registrations.len() > 1;
        if let Some(worker) = self.workers.get_mut(&peer) {
            worker.functions.insert(id.to_owned());
        }
        // Under access rules, the function's owner decides which triggers may call it.
        if contested || self.has_guarded() {
            self.refresh_function(id);
        }
        self.refresh_observers(id);
        self.effects.push(Effect::FunctionsChanged);
    }

    pub(super) fn unregister_function(&mut self, peer: Peer, id: &str) {
        let id = self.grant(peer).map_or_else(|| id.to_owned(), |grant| grant.registered_id(id));
        let Some(worker) = self.workers.get_mut(&peer) else { return };
        if worker.functions.remove(&id) {
            self.drop_function(peer, &id);
            self.effects.push(Effect::FunctionsChanged);
        }
    }

    /// Removes this connection's registration of the id, and no other.
    pub(super) fn drop_function(&mut self, peer: Peer, id: &str) {
        let Some(function) = self.functions.get_mut(id) else { return };
        function.registrations.retain(|(owner, _)| *owner != peer);
        if function.registrations.is_empty() {
            self.functions.remove(id);
            self.refresh_observers(id);
        } else {
            self.refresh_function(id);
        }
    }

    pub(super) fn owner_of(&self, id: &str) -> Option<Peer> {
        self.functions.get(id).and_then(Function::owner).map(|(peer, _)| peer)
    }

    /// Returns `true` if a connection or this process has registered the function.
    pub(crate) fn is_registered(&self, id: &str) -> bool {
        self.owner_of(id).is_some()
    }

    /// Returns `true` if this connection registered the function but another one receives its calls.
    pub(super) fn is_superseded(&self, peer: Peer, id: &str) -> bool {
        self.functions.get(id).is_some_and(|function| {
            let registered = function.registrations.iter().any(|(owner, _)| *owner == peer);
            registered && function.owner().is_some_and(|(owner, _)| owner != peer)
        })
    }

    /// Sends a rejection to SDKs that understand it; older ones ignore the message.
    pub(super) fn reject(&mut self, peer: Peer, id: &str) {
        let owner = self.own.to_string();
        let message = Object::message("registrationrejected")
            .text("code", "FUNCTION_NAMESPACE_CONFLICT")
            .text("namespace", "default")
            .text("function_id", id)
            .text("owner_worker_id", &owner);
        self.send(peer, message.end());
    }
}

/// Parses a payload, which is known to be valid JSON.
pub(super) fn parse_payload(raw: Option<&RawValue>) -> Option<Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}
