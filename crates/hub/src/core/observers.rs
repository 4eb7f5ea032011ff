//! Observers: functions called after each matching call of another function.
//!
//! Every call goes through the hub, so the hub alone decides which calls are observed: the workers that own the
//! functions are not notified. An observer belongs to the connection that registered it, which is notified when the
//! observer becomes active and when it stops.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::calls::Request;
use super::filter::Filter;
use super::observed::FinishedCall;
use super::{Caller, Core, Peer};
use crate::wire::{Object, Observe, Source};

/// Maximum number of observers that may lead to a call; a longer chain is treated as a cycle and not reported.
const MAX_DEPTH: u32 = 16;
/// State of an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The function or the target has never been registered.
    Pending,
    Active,
    /// The function or the target is currently missing.
    Suspended,
}

#[derive(Debug)]
pub(super) struct Observer {
    pub(super) owner: Peer,
    source: Source,
    pub(super) target: String,
    filter: Filter,
    metadata: Option<String>,
    most: Option<u64>,
    most_at_once: u32,
    expires: Option<Duration>,
    state: State,
    fires: u64,
    running: u32,
}

/// The activation of an observer, for a call of its target.
#[derive(Debug, Clone)]
pub(super) struct Activation {
    pub(super) observer: String,
    pub(super) id: Uuid,
    pub(super) depth: u32,
}

type Rejection = (&'static str, String);

impl Core {
    pub(super) fn observe(&mut self, peer: Peer, mut observe: Observe<'_>) {
        observe.source.function_id = self.full_id(peer, &observe.source.function_id);
        observe.target.function_id = self.full_id(peer, &observe.target.function_id);
        let id = observe.id.clone();
        let refused = self.observe_rejection(peer, &observe);
        let filter = refused.map_or_else(|| Filter::new(observe.source.filters.as_ref()), Err);
        let filter = match filter {
            Ok(filter) => filter,
            Err((code, message)) => {
                let error = Object::new().text("code", code).text("message", &message).end();
                let result = Object::message("observeresult").text("id", &id).text("state", "error");
                return self.send(peer, result.raw("error", &error).end());
            }
        };
        let observer = Observer {
            owner: peer,
            filter,
            target: observe.target.function_id,
            metadata: observe.metadata.map(|raw| raw.get().to_owned()),
            most: observe.max_fires,
            most_at_once: observe.max_in_flight.unwrap_or(u32::MAX),
            expires: observe.expires_in_ms.map(|time| self.now + Duration::from_millis(time)),
            state: State::Pending,
            fires: self.observers.get(&id).map_or(0, |known| known.fires),
            running: 0,
            source: observe.source,
        };
        self.observers.insert(id.clone(), observer);
        let state = self.observer_state(&id);
        if let Some(observer) = self.observers.get_mut(&id) {
            observer.state = state;
        }
        let result = Object::message("observeresult").text("id", &id).text("state", state.name());
        self.send(peer, result.end());
    }

    fn observe_rejection(&self, peer: Peer, observe: &Observe<'_>) -> Option<Rejection> {
        let (source, target) = (&observe.source.function_id, &observe.target.function_id);
        let known = self.observers.get(&observe.id);
        let own = self.observers.values().filter(|observer| observer.owner == peer).count();
        if source == target {
            return Some(("SELF_TARGET", "a function cannot be called after itself".to_owned()));
        }
        if source.starts_with("engine::") {
            return Some(("NOT_OBSERVABLE", format!("'{source}' cannot be observed")));
        }
        if let Some(id) = [source, target].into_iter().find(|id| !self.may_use(peer, id)) {
            return Some((
                "FORBIDDEN",
                format!("function '{id}' not allowed (add to rbac.expose_functions)"),
            ));
        }
        if observe.source.args.as_ref().is_some_and(|args| !args.is_null() && *args != json!({})) {
            return Some(("INVALID_ARGS", format!("'{source}' takes no args; use filters")));
        }
        // The same observer on a new connection belongs to a worker that reconnected.
        if known.is_some_and(|known| {
            known.owner != peer
                && (known.source.function_id != *source
                    || known.target != *target
                    || !self.may_take_over(peer, known.owner))
        }) {
            return Some(("OBSERVER_ID_CONFLICT", format!("observer id already in use: {}", observe.id)));
        }
        let room = known.is_some_and(|known| known.owner == peer) || own < self.limits.triggers;
        (!room).then(|| {
            ("LIMIT_EXCEEDED", format!("a worker may have at most {} observers", self.limits.triggers))
        })
    }

    pub(super) fn unobserve(&mut self, peer: Peer, id: &str) {
        if self.observers.get(id).is_some_and(|observer| observer.owner == peer) {
            self.dispose(id, "UNOBSERVED", "the worker no longer observes");
        }
    }

    /// Removes the observers of a connection.
    pub(super) fn drop_observers(&mut self, peer: Peer) {
        self.observers.retain(|_, observer| observer.owner != peer);
    }

    pub(super) fn expire_observers(&mut self) {
        let late = |observer: &Observer| observer.expires.is_some_and(|at| at <= self.now);
        let found = self.observers.iter().filter(|(_, observer)| late(observer));
        let ids: Vec<String> = found.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.dispose(&id, "EXPIRED", "its time is over");
        }
    }

    fn dispose(&mut self, id: &str, code: &str, message: &str) {
        if let Some(observer) = self.observers.remove(id) {
            self.send_state(id, observer.owner, "disposed", observer.fires, Some((code, message)));
        }
    }

    fn send_state(&mut self, id: &str, owner: Peer, state: &str, fires: u64, reason: Option<(&str, &str)>) {
        let reason =
            reason.map(|(code, message)| Object::new().text("code", code).text("message", message).end());
        let message = Object::message("observerstatechanged")
            .text("id", id)
            .text("state", state)
            .maybe_raw("reason", reason.as_deref())
            .raw("fires", &fires.to_string());
        self.send(owner, message.end());
    }

    fn observer_state(&self, id: &str) -> State {
        let Some(observer) = self.observers.get(id) else { return State::Pending };
        let there = |id: &str| self.owner_of(id).is_some();
        match (there(&observer.source.function_id) && there(&observer.target), observer.state) {
            (true, _) => State::Active,
            (false, State::Pending) => State::Pending,
            (false, _) => State::Suspended,
        }
    }

    /// Updates the observers of a function that was added or removed, and those that call it.
    pub(super) fn refresh_observers(&mut self, function_id: &str) {
        let concerned = |observer: &Observer| {
            observer.source.function_id == function_id || observer.target == function_id
        };
        let found = self.observers.iter().filter(|(_, observer)| concerned(observer));
        let ids: Vec<String> = found.map(|(id, _)| id.clone()).collect();
        for id in ids {
            let state = self.observer_state(&id);
            let Some(observer) = self.observers.get_mut(&id).filter(|known| known.state != state) else {
                continue;
            };
            observer.state = state;
            let (owner, fires, target) = (observer.owner, observer.fires, observer.target.clone());
            let reason = match state {
                State::Suspended if self.owner_of(&target).is_none() => {
                    Some(("TARGET_UNAVAILABLE", "the target is gone"))
                }
                State::Suspended => Some(("OWNER_UNAVAILABLE", "the function is gone")),
                State::Pending | State::Active => None,
            };
            self.send_state(&id, owner, state.name(), fires, reason);
        }
    }

    pub(super) fn is_observed(&self, function_id: &str) -> bool {
        self.observers.values().any(|observer| observer.source.function_id == function_id)
    }

    /// Calls the targets of the observers of a finished call.
    pub(super) fn notify_observers(&mut self, ended: &FinishedCall<'_>) {
        if ended.seen.depth >= MAX_DEPTH {
            return self.note(Peer::HUB, &format!("observers of `{}` call each other", ended.function_id));
        }
        let event = self.event(ended);
        let concerned = |observer: &Observer| {
            observer.source.function_id == ended.function_id
                && observer.state == State::Active
                && observer.source.wants(ended.outcome.is_ok())
                && observer.filter.fits(&event)
        };
        let found = self.observers.iter().filter(|(_, observer)| concerned(observer));
        let ids: Vec<String> = found.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.activate(&id, ended, &event);
        }
    }

    fn activate(&mut self, id: &str, ended: &FinishedCall<'_>, event: &Value) {
        let activation_id = (self.ids)();
        let Some(observer) = self.observers.get_mut(id) else { return };
        if observer.running >= observer.most_at_once {
            return self.note(Peer::HUB, &format!("the observer `{id}` has too many active calls"));
        }
        observer.fires += 1;
        let spent = observer.most.is_some_and(|most| observer.fires >= most);
        let (owner, target, metadata) = (observer.owner, observer.target.clone(), observer.metadata.clone());
        let activation =
            Activation { observer: id.to_owned(), id: activation_id, depth: ended.seen.depth + 1 };
        let data = match observer.source.deliver.as_deref() {
            Some("input") => event["input"].to_string(),
            Some("output") => event["output"].to_string(),
            _ => ended.envelope(&observer.source, &activation, event),
        };
        if !self.may_use(owner, &target) {
            // The function belongs to another worker now.
            return self.note(owner, &format!("the observer `{id}` may not call `{target}`"));
        }
        self.dispatch(Request {
            caller: Caller::NoReply,
            from: Peer::HUB,
            id: None,
            function_id: &target,
            data: Cow::Owned(data),
            trace: ended.trace.clone(),
            metadata: metadata.as_deref(),
            depth: activation.depth,
            activation: Some(activation),
        });
        if spent {
            self.dispose(id, "MAX_FIRES", "it was called as often as it wanted to be");
        }
    }

    /// Counts a call of a target.
    pub(super) fn activation_started(&mut self, activation: &Activation) {
        if let Some(observer) = self.observers.get_mut(&activation.observer) {
            observer.running += 1;
        }
    }

    /// Counts an answer from a target that an observer had called.
    pub(super) fn activation_finished(&mut self, activation: &Activation) {
        if let Some(observer) = self.observers.get_mut(&activation.observer) {
            observer.running = observer.running.saturating_sub(1);
        }
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

impl Activation {
    /// Returns the JSON that the target's worker receives.
    pub(super) fn json(&self) -> String {
        Object::new().text("observer_id", &self.observer).id("activation_id", self.id).end()
    }
}
