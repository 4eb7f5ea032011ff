//! The functions that the hub answers from its own state.

use serde_json::{Value, json};

use super::{Core, Effect, FunctionSpec, Peer, Rights, Trigger};
use crate::error::CallError;

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
            self.functions.provide(id, spec);
        }
        let types = &mut self.triggers;
        types.provide_type("engine::functions-available", "Fires when the available functions change.");
        types.provide_type(
            "engine::workers-available",
            "Fires when a worker connects, disconnects, or sets its information.",
        );
    }

    /// Answers a call of one of the functions that need only the core's state.
    pub(super) fn answer_builtin(
        &mut self,
        from: Peer,
        function_id: &str,
        input: &Value,
    ) -> Result<Value, CallError> {
        let Self { workers, functions, triggers, .. } = self;
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        match function_id {
            "engine::workers::register" => {
                let changed = workers.set_info(from, input);
                let event = "worker_metadata_updated";
                self.emit(changed.map(|worker_id| Effect::WorkerChanged { event, worker_id }));
                Ok(json!({ "success": true }))
            }
            "engine::workers::list" => Ok(select_workers(workers.rows(|peer| functions.of(peer)), input)),
            "engine::workers::info" => {
                let id = text("worker_id").or(text("id")).or(text("name")).unwrap_or_default();
                find(workers.rows(|peer| functions.of(peer)), "Worker", id)
            }
            "engine::functions::list" => Ok(functions.list(workers, from, input)),
            "engine::functions::info" => functions.describe(workers, from, input, |id| triggers.list_of(id)),
            // Older SDKs expect triggers here, newer ones types.
            "engine::triggers::list" if workers.get(from).is_some_and(|worker| worker.is_before(0, 13)) => {
                Ok(json!({ "triggers": triggers.list(workers) }))
            }
            "engine::triggers::list" => Ok(json!({ "triggers": triggers.list_types(workers) })),
            "engine::triggers::info" => {
                let id = text("id").or(text("trigger_type")).unwrap_or_default();
                find(triggers.list_types(workers), "Trigger type", id)
            }
            "engine::trigger-types::list" => Ok(json!({ "trigger_types": triggers.list_types(workers) })),
            "engine::registered-triggers::list" => {
                Ok(json!({ "registered_triggers": triggers.list(workers) }))
            }
            "engine::registered-triggers::info" => {
                find(triggers.list(workers), "Trigger", text("id").unwrap_or_default())
            }
            "engine::register_trigger" => self.register_durable(from, input),
            "engine::unregister_trigger" => {
                let id = text("id").unwrap_or_default();
                let function = self.triggers.get(id).map(|trigger| trigger.function_id.as_str());
                if let Some(function) = function.filter(|function| !self.may_use(from, function)) {
                    return Err(CallError::forbidden(function));
                }
                Ok(json!({ "removed": self.unregister_trigger(Peer::HUB, id) }))
            }
            "engine::baggage::get_all" => Ok(json!({})),
            "engine::health::check" => Ok(json!({ "status": "healthy" })),
            _ => {
                let level = function_id.strip_prefix("engine::log::");
                if let (Some(level), Some(message)) = (level, text("message")) {
                    self.note(from, &format!("{level}: {message}"));
                }
                Ok(Value::Null)
            }
        }
    }

    /// Registers a trigger that outlives connections.
    fn register_durable(&mut self, from: Peer, input: &Value) -> Result<Value, CallError> {
        let field = |name: &str| {
            let found = input.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            found.ok_or_else(|| {
                CallError::undecodable("engine::register_trigger", &format!("missing field `{name}`"))
            })
        };
        let (trigger_type, function_id) = (field("trigger_type")?, field("function_id")?);
        let Self { workers, functions, triggers, effects, .. } = self;
        let rights = Rights { workers, functions };
        let function_id = rights.full_id(from, function_id);
        let config = input.get("config").map_or_else(|| "{}".to_owned(), Value::to_string);
        if workers.grant(from).is_some_and(|grant| !grant.may_subscribe(trigger_type)) {
            return Err(CallError::new("FORBIDDEN", format!("trigger type '{trigger_type}' not allowed")));
        }
        if let Some(denied) = rights.denied_function(from, &function_id, &config) {
            return Err(CallError::forbidden(&denied));
        }
        let count = triggers.count(Peer::HUB);
        if count >= self.limits.triggers {
            return Err(CallError::new("invocation_error", format!("the hub already has {count} triggers")));
        }
        let id = effects.new_id().to_string();
        let trigger = Trigger::new(Peer::HUB, trigger_type.to_owned(), function_id, config, None);
        let placed = triggers.put(&id, trigger, rights);
        self.emit(placed);
        Ok(json!({ "id": id }))
    }
}

/// Returns `true` if a function of the hub needs only the core's state.
pub(super) fn is_answered_here(function_id: &str) -> bool {
    function_id.starts_with("engine::") && function_id != "engine::channels::create"
}

/// Returns the workers that match a query.
fn select_workers(mut rows: Vec<Value>, query: &Value) -> Value {
    let wanted = |name: &str| query.get(name).and_then(Value::as_str);
    let timestamp = rows.iter().filter_map(|row| row["connected_at_ms"].as_u64()).max().unwrap_or(0);
    rows.retain(|row| {
        wanted("worker_id").is_none_or(|id| row["id"] == id)
            && wanted("runtime").is_none_or(|runtime| row["runtime"] == runtime)
            && wanted("status").is_none_or(|status| row["status"] == status)
            && wanted("search")
                .is_none_or(|text| row["name"].as_str().is_some_and(|name| name.contains(text)))
    });
    json!({ "workers": rows, "timestamp": timestamp })
}

/// Returns the row with this id or name.
fn find(rows: Vec<Value>, kind: &str, id: &str) -> Result<Value, CallError> {
    let found = rows.into_iter().find(|row| row["id"] == id || row["name"] == id);
    found.ok_or_else(|| CallError::new("NOT_FOUND", format!("{kind} {id} not found")))
}
