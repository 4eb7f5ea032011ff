//! The core, driven by messages.
#![expect(clippy::needless_pass_by_value, reason = "messages are written where they are sent")]

mod frames;
mod observers;
mod ownership;
mod property;
mod rights;
mod routing;

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Core, Effect, Grant, NewConnection, Peer};
use crate::limits::Limits;
use crate::wire::decode;

/// A core and its workers.
struct TestCore {
    core: Core,
    /// Effects of the core other than messages.
    others: Vec<Effect>,
}

impl TestCore {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    /// Creates a core whose ids are sequential numbers: the hub is 1, each worker takes two.
    fn with(limits: Limits) -> Self {
        let mut last = 0;
        let ids = Box::new(move || {
            last += 1;
            Uuid::from_u128(last)
        });
        Self { core: Core::new(limits, ids, Duration::ZERO), others: Vec::new() }
    }

    fn worker(&mut self) -> Peer {
        self.worker_with(None)
    }

    fn worker_with(&mut self, grant: Option<Grant>) -> Peer {
        let peer = self
            .core
            .connect(NewConnection { grant: grant.map(std::sync::Arc::new), ..NewConnection::default() });
        self.core.effects();
        peer
    }

    /// Sends a message from a worker; returns the resulting messages to workers.
    fn send(&mut self, peer: Peer, message: Value) -> Vec<(Peer, Value)> {
        self.core.handle_message(peer, decode(&message.to_string()));
        self.take_messages()
    }

    fn disconnect(&mut self, peer: Peer) -> Vec<(Peer, Value)> {
        self.core.disconnect(peer);
        self.take_messages()
    }

    fn take_messages(&mut self) -> Vec<(Peer, Value)> {
        let mut sent = Vec::new();
        for effect in self.core.effects() {
            match effect {
                Effect::Send(peer, text) => sent.push((peer, serde_json::from_str(&text).unwrap())),
                other => self.others.push(other),
            }
        }
        sent
    }

    fn advance(&mut self, time: Duration) -> Vec<(Peer, Value)> {
        let now = self.core.effects.now() + time;
        self.core.with_now(now).expire();
        self.take_messages()
    }
}

fn id(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

fn function(id: &str) -> Value {
    json!({ "type": "registerfunction", "id": id })
}

fn call(number: u128, function: &str, data: Value) -> Value {
    json!({ "type": "invokefunction", "invocation_id": id(number), "function_id": function, "data": data })
}

fn result(number: u128, function: &str, result: Value) -> Value {
    json!({ "type": "invocationresult", "invocation_id": id(number), "function_id": function, "result": result })
}

fn failure(number: u128, function: &str, code: &str, message: &str) -> Value {
    let error = json!({ "code": code, "message": message });
    json!({ "type": "invocationresult", "invocation_id": id(number), "function_id": function, "error": error })
}

fn trigger(name: &str, trigger_type: &str, function: &str) -> Value {
    json!({ "type": "registertrigger", "id": name, "trigger_type": trigger_type, "function_id": function,
        "config": {} })
}

fn untrigger(name: &str, trigger_type: &str) -> Value {
    json!({ "type": "unregistertrigger", "id": name, "trigger_type": trigger_type })
}

fn offer(trigger_type: &str) -> Value {
    json!({ "type": "registertriggertype", "id": trigger_type, "description": "d" })
}
