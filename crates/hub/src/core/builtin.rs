//! The functions that the hub answers from its own state.

use serde_json::{Value, json};

use super::functions::FunctionSpec;
use super::{Caller, Core, Effect, Peer};
use crate::error::CallError;
use crate::wire::Trace;

/// The functions of the hub and their descriptions. `state::` functions and `engine::channels::create` run
/// asynchronously; the others are answered at once.
pub(crate) const BUILTINS: [(&str, &str); 28] = [
    ("state::set", "Store a value under a key of a scope."),
    ("state::get", "Read the value of a key."),
    ("state::delete", "Remove a key."),
    ("state::list", "List the values of a scope."),
    ("state::list_groups", "List the scopes."),
    ("state::update", "Change parts of a value in one step."),
    ("engine::channels::create", "Open a channel for a stream of bytes or text."),
    ("engine::workers::register", "Set a worker's information."),
    ("engine::workers::list", "List the connected workers."),
    ("engine::workers::info", "Describe a worker."),
    ("engine::functions::list", "List the functions that can be called."),
    ("engine::functions::info", "Describe functions with their schemas."),
    ("engine::triggers::list", "List trigger types; for older SDKs, list triggers."),
    ("engine::triggers::info", "Describe a trigger type."),
    ("engine::trigger-types::list", "List trigger types with their schemas."),
    ("engine::registered-triggers::list", "List triggers."),
    ("engine::registered-triggers::info", "Describe a trigger."),
    ("engine::register_trigger", "Register a trigger that outlives the connection."),
    ("engine::unregister_trigger", "Remove a trigger that outlives the connection."),
    ("engine::log::info", "Log an info message."),
    ("engine::log::warn", "Log a warning."),
    ("engine::log::error", "Log an error."),
    ("engine::log::debug", "Log a debug message."),
    ("engine::log::trace", "Log a trace message."),
    ("engine::baggage::get", "Read a value of the trace."),
    ("engine::baggage::set", "Set a value of the trace."),
    ("engine::baggage::get_all", "Read all values of the trace."),
    ("engine::health::check", "Check that the hub is running."),
];

impl Core {
    pub(super) fn provide_builtins(&mut self) {
        for (id, description) in BUILTINS {
            let spec =
                FunctionSpec { description: Some((*description).to_owned()), ..FunctionSpec::default() };
            self.provide(id, spec);
        }
        self.provide_type("engine::functions-available", "Fires when the available functions change.");
        self.provide_type(
            "engine::workers-available",
            "Fires when a worker connects, disconnects, or sets its information.",
        );
        self.effects.clear();
    }

    /// Answers a call of a hub function that needs only the core's state; returns `false` for any other function.
    pub(super) fn answer_builtin(
        &mut self,
        caller: &Caller,
        from: Peer,
        function_id: &str,
        data: &str,
        trace: &Trace,
    ) -> bool {
        if !function_id.starts_with("engine::") || function_id == "engine::channels::create" {
            return false;
        }
        if self.owner_of(function_id) != Some(Peer::HUB) {
            return false;
        }
        let input: Value = serde_json::from_str(data).unwrap_or_default();
        match self.builtin(from, function_id, &input) {
            Ok(value) => {
                let result = (!value.is_null()).then(|| value.to_string());
                self.succeed(caller, function_id, trace, result.as_deref());
            }
            Err(error) => self.fail(caller, function_id, trace, &error),
        }
        true
    }

    fn builtin(&mut self, from: Peer, function_id: &str, input: &Value) -> Result<Value, CallError> {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        match function_id {
            "engine::workers::register" => {
                self.set_worker_info(from, input);
                Ok(json!({ "success": true }))
            }
            "engine::workers::list" => Ok(self.list_workers(input)),
            "engine::workers::info" => {
                self.worker_info(text("worker_id").or(text("id")).or(text("name")).unwrap_or_default())
            }
            "engine::functions::list" => Ok(self.list_functions(from, input)),
            "engine::functions::info" => self.functions_info(from, input),
            "engine::triggers::list" if self.is_before_types(from) => {
                Ok(json!({ "triggers": self.list_triggers() }))
            }
            "engine::triggers::list" => Ok(json!({ "triggers": self.list_types() })),
            "engine::triggers::info" => {
                self.type_info(text("id").or(text("trigger_type")).unwrap_or_default())
            }
            "engine::trigger-types::list" => Ok(json!({ "trigger_types": self.list_types() })),
            "engine::registered-triggers::list" => Ok(json!({ "registered_triggers": self.list_triggers() })),
            "engine::registered-triggers::info" => self.trigger_info(text("id").unwrap_or_default()),
            "engine::register_trigger" => self.register_durable(from, input),
            "engine::unregister_trigger" => {
                let id = text("id").unwrap_or_default();
                let function = self.triggers.get(id).map(|trigger| trigger.function_id.as_str());
                if let Some(function) = function.filter(|function| !self.may_use(from, function)) {
                    return Err(CallError::forbidden(function));
                }
                Ok(json!({ "removed": self.remove_trigger(Peer::HUB, id) }))
            }
            "engine::baggage::get_all" => Ok(json!({})),
            "engine::health::check" => Ok(json!({ "status": "healthy" })),
            _ if function_id.starts_with("engine::log::") => {
                let level = function_id.trim_start_matches("engine::log::");
                if let Some(message) = text("message") {
                    self.note(from, &format!("{level}: {message}"));
                }
                Ok(Value::Null)
            }
            _ => Ok(Value::Null),
        }
    }

    fn register_durable(&mut self, from: Peer, input: &Value) -> Result<Value, CallError> {
        let field = |name: &str| {
            let found = input.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            found.ok_or_else(|| {
                CallError::undecodable("engine::register_trigger", &format!("missing field `{name}`"))
            })
        };
        let (trigger_type, function_id) = (field("trigger_type")?, field("function_id")?);
        let function_id = self.full_id(from, function_id);
        let config = input.get("config").cloned().unwrap_or_else(|| json!({}));
        if self.grant(from).is_some_and(|grant| !grant.may_subscribe(trigger_type)) {
            return Err(CallError::new("FORBIDDEN", format!("trigger type '{trigger_type}' not allowed")));
        }
        if let Some(denied) = self.denied_function(from, &function_id, &config.to_string()) {
            return Err(CallError::forbidden(&denied));
        }
        let count = self.triggers.values().filter(|trigger| trigger.owner == Peer::HUB).count();
        if count >= self.limits.triggers {
            return Err(CallError::new("invocation_error", format!("the hub already has {count} triggers")));
        }
        let id = (self.ids)().to_string();
        self.keep_trigger(&id, trigger_type, &function_id, &config);
        Ok(json!({ "id": id }))
    }

    /// Returns `true` if the worker's SDK predates the change of trigger listings to types.
    fn is_before_types(&self, peer: Peer) -> bool {
        let about = self.workers.get(&peer).and_then(|worker| worker.about.as_ref());
        about.is_some_and(|about| about.version_before(0, 13))
    }

    /// Returns the payload for subscribers of function changes.
    pub(crate) fn functions_event(&self) -> Value {
        json!({ "event": "functions_changed", "functions": self.list_functions(Peer::HUB, &json!({}))["functions"] })
    }
}

impl Effect {
    /// Returns the built-in trigger type that the effect fires, and its payload.
    pub(crate) fn event(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::WorkerChanged { event, worker_id } => {
                let payload = json!({ "event": event, "worker_id": worker_id.to_string() });
                Some(("engine::workers-available", payload))
            }
            _ => None,
        }
    }
}
