//! A client's registrations and pending calls, and the messages that describe them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::error::CallError;
use crate::local::{Invocation, LocalFunction, LocalTriggerType, run_handler};
use crate::outbox::{Outbox, Waiting};
use crate::wire::Object;

/// A function to call when a trigger fires.
#[derive(Debug, Clone)]
pub(super) struct Subscription {
    pub(super) trigger_type: String,
    pub(super) function_id: String,
    pub(super) config: Value,
}

#[derive(Default)]
pub(super) struct ClientState {
    pub(super) functions: BTreeMap<String, LocalFunction>,
    pub(super) triggers: BTreeMap<String, Subscription>,
    pub(super) types: BTreeMap<String, LocalTriggerType>,
    /// Triggers of other workers for the types of this client.
    pub(super) subscribers: BTreeMap<String, Subscription>,
    pub(super) calls: HashMap<Uuid, oneshot::Sender<Result<Value, CallError>>>,
    link: Option<Arc<Outbox>>,
}

/// A message from the hub, with the fields that a client uses.
#[derive(Deserialize)]
pub(super) struct HubMessage {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    invocation_id: Option<Uuid>,
    function_id: Option<String>,
    trigger_type: Option<String>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    config: Value,
    error: Option<Value>,
}

/// An action that the hub requests from this client.
pub(super) type HubRequest = Box<dyn FnOnce() + Send>;

impl ClientState {
    /// Sends a message; returns `false` if there is no connection.
    pub(super) fn send(&self, message: String) -> bool {
        self.link.as_ref().is_some_and(|link| link.push(message).is_some())
    }

    /// Sends all registrations over a new connection, in the order in which the hub needs them.
    pub(super) fn on_connect(&mut self, name: &str) -> Waiting {
        let (outbox, messages) = Outbox::new();
        self.link = Some(Arc::new(outbox));
        // The hub sends all existing subscriptions again.
        self.subscribers.clear();
        for kind in self.types.values() {
            self.send(trigger_type(kind));
        }
        for known in self.functions.values() {
            self.send(function(known));
        }
        for (id, known) in &self.triggers {
            self.send(trigger(id, known));
        }
        let about = json!({ "runtime": "rust", "version": env!("CARGO_PKG_VERSION"), "name": name,
            "os": std::env::consts::OS, "pid": std::process::id(), "telemetry": { "framework": "meerkat" } });
        self.send(void("engine::workers::register", &about));
        messages
    }

    /// Fails all pending calls after the connection was lost.
    pub(super) fn on_disconnect(&mut self) {
        self.link = None;
        for (_, call) in self.calls.drain() {
            // The caller may have been dropped.
            let _ = call.send(Err(CallError::not_connected()));
        }
    }

    /// Handles a message from the hub; returns the resulting request, if any.
    pub(super) fn handle_message(&mut self, message: HubMessage) -> Option<HubRequest> {
        match message.kind.as_str() {
            "invokefunction" => return self.incoming_call(message),
            "invocationresult" => {
                let call = self.calls.remove(&message.invocation_id?)?;
                let error = message.error.filter(|error| !error.is_null());
                let outcome = match error {
                    Some(error) => Err(CallError::decode(&error.to_string())),
                    None => Ok(message.result),
                };
                // The caller may have been dropped.
                let _ = call.send(outcome);
            }
            "registertrigger" => return self.subscribe(message),
            "unregistertrigger" => {
                let id = message.id?;
                let gone = self.subscribers.remove(&id)?;
                let host = self.types.get(&gone.trigger_type)?.host.clone()?;
                return Some(Box::new(move || host.unregister(&id)));
            }
            "ping" => {
                self.send(Object::message("pong").end());
            }
            _ => {}
        }
        None
    }

    fn subscribe(&mut self, message: HubMessage) -> Option<HubRequest> {
        let (id, trigger_type, function_id) = (message.id?, message.trigger_type?, message.function_id?);
        let result = Object::message("triggerregistrationresult")
            .text("id", &id)
            .text("trigger_type", &trigger_type)
            .text("function_id", &function_id);
        self.send(result.end());
        let host = self.types.get(&trigger_type).and_then(|kind| kind.host.clone());
        let (config, function) = (message.config.to_string(), function_id.clone());
        let subscription = Subscription { trigger_type, function_id, config: message.config };
        self.subscribers.insert(id.clone(), subscription);
        let host = host?;
        Some(Box::new(move || host.register(&id, &function, &config)))
    }

    fn incoming_call(&self, message: HubMessage) -> Option<HubRequest> {
        let (id, function_id) = (message.invocation_id?, message.function_id?);
        let Some(function) = self.functions.get(&function_id) else {
            let error = CallError::new("function_not_found", "Function not found");
            self.send(answer(id, &function_id, Err(error)));
            return None;
        };
        let (handler, answers) = (Arc::clone(&function.handler), self.link.clone()?);
        let mut data = message.data;
        let caller = data.as_object_mut().and_then(|map| map.shift_remove("_caller_worker_id"));
        let caller = caller.and_then(|caller| caller.as_str().map(str::to_owned));
        let invocation = Invocation { function_id: function_id.clone(), data, caller, guarded: None };
        let call = async move {
            let outcome = run_handler(handler, invocation).await;
            // If the connection is lost, so are its calls.
            let _ = answers.push(answer(id, &function_id, outcome));
        };
        Some(Box::new(|| drop(tokio::spawn(call))))
    }
}

pub(super) fn void(function_id: &str, data: &Value) -> String {
    Object::message("invokefunction")
        .text("function_id", function_id)
        .raw("data", &data.to_string())
        .raw("action", r#"{"type":"void"}"#)
        .end()
}

pub(super) fn function(function: &LocalFunction) -> String {
    let json = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    Object::message("registerfunction")
        .text("id", &function.id)
        .maybe_text("description", function.description.as_deref())
        .maybe_raw("request_format", json(&function.request_format).as_deref())
        .maybe_raw("response_format", json(&function.response_format).as_deref())
        .maybe_raw("metadata", json(&function.metadata).as_deref())
        .end()
}

pub(super) fn trigger(id: &str, trigger: &Subscription) -> String {
    Object::message("registertrigger")
        .text("id", id)
        .text("trigger_type", &trigger.trigger_type)
        .text("function_id", &trigger.function_id)
        .raw("config", &trigger.config.to_string())
        .end()
}

pub(super) fn trigger_type(kind: &LocalTriggerType) -> String {
    let message = Object::message("registertriggertype").text("id", &kind.id);
    message.text("description", &kind.description).end()
}

fn answer(id: Uuid, function_id: &str, outcome: Result<Value, CallError>) -> String {
    let message =
        Object::message("invocationresult").id("invocation_id", id).text("function_id", function_id);
    match outcome {
        Ok(value) => message.raw("result", &value.to_string()).end(),
        Err(error) => message.raw("error", &error.json()).end(),
    }
}
