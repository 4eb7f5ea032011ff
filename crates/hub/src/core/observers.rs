//! Observers: functions called after each matching call of another function.
//!
//! Every call goes through the hub, so the hub alone decides which calls are observed: the workers that own the
//! functions are not notified. An observer belongs to the connection that registered it, which is notified when the
//! observer becomes active and when it stops.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::filter::Filter;
use super::observed::{Activation, FinishedCall};
use super::{Effect, Functions, Peer, Rights};
use crate::error::CallError;
use crate::wire::{Object, Observe, Source};

/// State of an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The function or the target has never been registered.
    Pending,
    Active,
    /// The function or the target is currently missing.
    Suspended,
}

#[derive(Debug)]
struct Observer {
    owner: Peer,
    source: Source,
    target: String,
    filter: Filter,
    metadata: Option<String>,
    most: Option<u64>,
    most_at_once: u32,
    expires: Option<Duration>,
    state: State,
    fires: u64,
    running: u32,
}

/// The observers by id.
#[derive(Debug, Default)]
pub(super) struct Observers {
    observers: BTreeMap<String, Observer>,
}

/// A call of an observer's target.
pub(super) struct TargetCall {
    pub(super) owner: Peer,
    pub(super) target: String,
    pub(super) metadata: Option<String>,
    pub(super) data: String,
    pub(super) activation: Activation,
    /// If true, the observer has been called as often as it wanted to be.
    pub(super) is_last: bool,
}

impl Observers {
    /// Adds an observer, or replaces the one with the same id; returns the message to its owner.
    pub(super) fn add(
        &mut self,
        rights: Rights<'_>,
        peer: Peer,
        observe: Observe<'_>,
        limit: usize,
        now: Duration,
    ) -> Effect {
        let result = Object::message("observeresult").text("id", &observe.id);
        let filter = self.check(rights, peer, &observe, limit);
        let filter = match filter.and_then(|()| Filter::new(observe.source.filters.as_ref())) {
            Ok(filter) => filter,
            Err(error) => {
                let result = result.text("state", "error").raw("error", &error.json());
                return Effect::Send(peer, result.end());
            }
        };
        let mut observer = Observer {
            owner: peer,
            filter,
            target: observe.target.function_id,
            metadata: observe.metadata.map(|raw| raw.get().to_owned()),
            most: observe.max_fires,
            most_at_once: observe.max_in_flight.unwrap_or(u32::MAX),
            expires: observe.expires_in_ms.map(|time| now + Duration::from_millis(time)),
            state: State::Pending,
            fires: self.observers.get(&observe.id).map_or(0, |known| known.fires),
            running: 0,
            source: observe.source,
        };
        observer.state = observer.state_now(rights.functions);
        let message = result.text("state", observer.state.name()).end();
        self.observers.insert(observe.id, observer);
        Effect::Send(peer, message)
    }

    fn check(
        &self,
        rights: Rights<'_>,
        peer: Peer,
        observe: &Observe<'_>,
        limit: usize,
    ) -> Result<(), CallError> {
        let (source, target) = (&observe.source.function_id, &observe.target.function_id);
        let known = self.observers.get(&observe.id);
        if source == target {
            return Err(CallError::new("SELF_TARGET", "a function cannot be called after itself"));
        }
        if source.starts_with("engine::") {
            return Err(CallError::new("NOT_OBSERVABLE", format!("'{source}' cannot be observed")));
        }
        if let Some(id) = [source, target].into_iter().find(|id| !rights.may_use(peer, id)) {
            return Err(CallError::forbidden(id));
        }
        if observe.source.args.as_ref().is_some_and(|args| !args.is_null() && *args != json!({})) {
            return Err(CallError::new("INVALID_ARGS", format!("'{source}' takes no args; use filters")));
        }
        // The same observer on a new connection belongs to a worker that reconnected.
        if known.is_some_and(|known| {
            known.owner != peer
                && (known.source.function_id != *source
                    || known.target != *target
                    || !rights.workers.may_take_over(peer, known.owner))
        }) {
            let text = format!("observer id already in use: {}", observe.id);
            return Err(CallError::new("OBSERVER_ID_CONFLICT", text));
        }
        let own = || self.observers.values().filter(|observer| observer.owner == peer).count();
        if known.is_none_or(|known| known.owner != peer) && own() >= limit {
            let text = format!("a worker may have at most {limit} observers");
            return Err(CallError::new("LIMIT_EXCEEDED", text));
        }
        Ok(())
    }

    /// Removes an observer of this connection; returns the message to it.
    pub(super) fn remove(&mut self, peer: Peer, id: &str) -> Option<Effect> {
        self.observers.get(id).filter(|observer| observer.owner == peer)?;
        self.dispose(id, "UNOBSERVED", "the worker no longer observes")
    }

    /// Removes the observers of a connection.
    pub(super) fn remove_all(&mut self, peer: Peer) {
        self.observers.retain(|_, observer| observer.owner != peer);
    }

    /// Removes the observers whose time is over.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Effect> {
        let late = self.observers.extract_if(.., |_, observer| observer.expires.is_some_and(|at| at <= now));
        let reason = CallError::new("EXPIRED", "its time is over");
        late.map(|(id, observer)| observer.message(&id, "disposed", Some(&reason))).collect()
    }

    /// Removes an observer; returns the message to its owner.
    pub(super) fn dispose(&mut self, id: &str, code: &str, message: &str) -> Option<Effect> {
        let observer = self.observers.remove(id)?;
        Some(observer.message(id, "disposed", Some(&CallError::new(code, message))))
    }

    /// Updates the observers of a function that was added or removed, and those that call it.
    pub(super) fn refresh(&mut self, functions: &Functions, function_id: &str) -> Vec<Effect> {
        let is_concerned = |observer: &Observer| {
            observer.source.function_id == function_id || observer.target == function_id
        };
        let mut effects = Vec::new();
        for (id, observer) in self.observers.iter_mut().filter(|(_, observer)| is_concerned(observer)) {
            let state = observer.state_now(functions);
            if state == observer.state {
                continue;
            }
            observer.state = state;
            let reason = match state {
                State::Suspended if functions.owner(&observer.target).is_none() => {
                    Some(CallError::new("TARGET_UNAVAILABLE", "the target is gone"))
                }
                State::Suspended => Some(CallError::new("OWNER_UNAVAILABLE", "the function is gone")),
                State::Pending | State::Active => None,
            };
            effects.push(observer.message(id, state.name(), reason.as_ref()));
        }
        effects
    }

    pub(super) fn is_observed(&self, function_id: &str) -> bool {
        self.observers.values().any(|observer| observer.source.function_id == function_id)
    }

    /// Returns the owners of the observers that call a function.
    pub(super) fn owners(&self, target: &str) -> impl Iterator<Item = Peer> {
        self.observers
            .values()
            .filter(move |observer| observer.target == target)
            .map(|observer| observer.owner)
    }

    /// Returns the active observers of a finished call.
    pub(super) fn matching(&self, ended: &FinishedCall<'_>, event: &Value) -> Vec<String> {
        let is_concerned = |observer: &Observer| {
            observer.source.function_id == ended.function_id
                && observer.state == State::Active
                && observer.source.wants(ended.outcome.is_ok())
                && observer.filter.fits(event)
        };
        let found = self.observers.iter().filter(|(_, observer)| is_concerned(observer));
        found.map(|(id, _)| id.clone()).collect()
    }

    /// Counts a finished call for an observer. Returns the call to make, or a note if it has too many active calls.
    pub(super) fn fire(
        &mut self,
        id: &str,
        activation_id: Uuid,
        ended: &FinishedCall<'_>,
        event: &Value,
    ) -> Option<Result<TargetCall, String>> {
        let observer = self.observers.get_mut(id)?;
        if observer.running >= observer.most_at_once {
            return Some(Err(format!("the observer `{id}` has too many active calls")));
        }
        observer.fires += 1;
        let activation =
            Activation { observer: id.to_owned(), id: activation_id, depth: ended.seen.depth + 1 };
        let data = match observer.source.deliver.as_deref() {
            Some("input") => event["input"].to_string(),
            Some("output") => event["output"].to_string(),
            _ => ended.envelope(&observer.source, &activation, event),
        };
        Some(Ok(TargetCall {
            owner: observer.owner,
            target: observer.target.clone(),
            metadata: observer.metadata.clone(),
            data,
            activation,
            is_last: observer.most.is_some_and(|most| observer.fires >= most),
        }))
    }

    /// Counts a call of the target that starts, or ends.
    pub(super) fn count_call(&mut self, activation: &Activation, change: i32) {
        if let Some(observer) = self.observers.get_mut(&activation.observer) {
            observer.running = observer.running.saturating_add_signed(change);
        }
    }
}

impl Observer {
    fn state_now(&self, functions: &Functions) -> State {
        let is_registered = |id: &str| functions.owner(id).is_some();
        match (is_registered(&self.source.function_id) && is_registered(&self.target), self.state) {
            (true, _) => State::Active,
            (false, State::Pending) => State::Pending,
            (false, _) => State::Suspended,
        }
    }

    /// Returns the message about a new state to the owner.
    fn message(&self, id: &str, state: &str, reason: Option<&CallError>) -> Effect {
        let message = Object::message("observerstatechanged")
            .text("id", id)
            .text("state", state)
            .maybe_raw("reason", reason.map(CallError::json).as_deref())
            .raw("fires", &self.fires.to_string());
        Effect::Send(self.owner, message.end())
    }
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Suspended => "suspended",
        }
    }
}
