//! Listings of workers, functions, and triggers.
//!
//! Rows contain the fields of all SDK versions: each SDK reads those that it knows.

use serde_json::{Map, Value, json};

use super::functions::{Function, FunctionSpec};
use super::{Core, Peer, Worker};
use crate::error::CallError;

/// Maximum number of functions described in one call.
const MAX_FUNCTIONS: usize = 32;

impl Core {
    pub(super) fn list_workers(&self, input: &Value) -> Value {
        let wanted = |name: &str| input.get(name).and_then(Value::as_str);
        let rows = self.workers.values().map(|worker| (worker, self.worker_row(worker)));
        let rows = rows.filter(|(worker, row)| {
            wanted("worker_id").is_none_or(|id| id == worker.id.to_string())
                && wanted("runtime").is_none_or(|runtime| row["runtime"] == runtime)
                && wanted("status").is_none_or(|status| row["status"] == status)
                && wanted("search").is_none_or(|text| worker.name().contains(text))
        });
        let workers: Vec<Value> = rows.map(|(_, row)| row).collect();
        let timestamp =
            self.workers.values().map(|worker| worker.connected_at.as_millis()).max().unwrap_or(0);
        json!({ "workers": workers, "timestamp": u64::try_from(timestamp).unwrap_or(u64::MAX) })
    }

    pub(super) fn worker_info(&self, id: &str) -> Result<Value, CallError> {
        let found = self.workers.values().find(|worker| worker.id.to_string() == id || worker.name() == id);
        let worker = found.ok_or_else(|| CallError::new("NOT_FOUND", format!("Worker {id} not found")))?;
        Ok(self.worker_row(worker))
    }

    fn worker_row(&self, worker: &Worker) -> Value {
        let about = worker.about.clone().unwrap_or_default();
        json!({
            "id": worker.id.to_string(),
            "name": worker.name(),
            "runtime": about.runtime,
            "version": about.version,
            "os": about.os,
            "pid": about.pid,
            "isolation": about.isolation,
            "description": about.description,
            "namespace": about.namespace.unwrap_or_else(|| "default".to_owned()),
            "ip_address": worker.address.map(|address| address.to_string()),
            "status": if worker.running > 0 { "busy" } else { "available" },
            "connected_at_ms": u64::try_from(worker.connected_at.as_millis()).unwrap_or(u64::MAX),
            "function_count": worker.functions.len(),
            "functions": worker.functions,
            "active_invocations": worker.running,
            "latest_metrics": null,
        })
    }

    pub(crate) fn list_functions(&self, from: Peer, input: &Value) -> Value {
        let internal = input.get("include_internal").and_then(Value::as_bool).unwrap_or_default();
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        let workers: Option<Vec<&str>> =
            match (text("worker"), input.get("workers").and_then(Value::as_array)) {
                (Some(one), _) => Some(vec![one]),
                (None, Some(several)) if !several.is_empty() => {
                    Some(several.iter().filter_map(Value::as_str).collect())
                }
                _ => None,
            };
        let rows = self.functions.iter().filter_map(|(id, function)| {
            let (owner, spec) = function.owner()?;
            let name = self.name_of(owner);
            let visible = (internal || !id.starts_with("engine::"))
                && self.may_see(from, id, spec)
                && text("prefix").is_none_or(|prefix| id.starts_with(prefix))
                && workers.as_ref().is_none_or(|workers| workers.contains(&name.as_str()))
                && text("search").is_none_or(|word| {
                    id.contains(word) || spec.description.as_ref().is_some_and(|text| text.contains(word))
                });
            visible.then(|| function_row(id, &name, spec))
        });
        json!({ "functions": rows.collect::<Vec<Value>>() })
    }

    fn may_see(&self, from: Peer, id: &str, spec: &FunctionSpec) -> bool {
        self.grant(from).is_none_or(|grant| grant.may_call(id, spec.metadata.as_ref()))
    }

    pub(super) fn functions_info(&self, from: Peer, input: &Value) -> Result<Value, CallError> {
        if let Some(id) = input.get("function_id").and_then(Value::as_str) {
            return match self.function_info(from, id) {
                Ok(info) => Ok(info),
                Err("forbidden") => Err(CallError::forbidden(id)),
                Err(_) => Err(CallError::new("NOT_FOUND", format!("Function {id} not found"))),
            };
        }
        let ids = input.get("function_ids").and_then(Value::as_array);
        let ids = ids
            .filter(|ids| ids.len() <= MAX_FUNCTIONS && ids.iter().all(Value::is_string))
            .ok_or_else(|| {
                let text = format!("give function_id, or function_ids with up to {MAX_FUNCTIONS} ids");
                CallError::new("INVALID_ARGUMENTS", text)
            })?;
        let infos = ids.iter().filter_map(Value::as_str).map(|id| {
            self.function_info(from, id).unwrap_or_else(|error| json!({ "function_id": id, "error": error }))
        });
        Ok(json!({ "functions": infos.collect::<Vec<Value>>() }))
    }

    fn function_info(&self, from: Peer, id: &str) -> Result<Value, &'static str> {
        let (owner, spec) = self.functions.get(id).and_then(Function::owner).ok_or("not_found")?;
        if !self.may_see(from, id, spec) {
            return Err("forbidden");
        }
        let triggers = self.triggers.iter().filter(|(_, trigger)| trigger.function_id == id);
        let triggers = triggers.map(|(id, trigger)| {
            json!({ "id": id, "trigger_type": trigger.trigger_type, "config": json_of(&trigger.config) })
        });
        let mut info = Map::new();
        info.insert("function_id".to_owned(), id.into());
        info.insert("namespace".to_owned(), "default".into());
        info.insert("worker_name".to_owned(), self.name_of(owner).into());
        info.insert("registered_triggers".to_owned(), triggers.collect());
        let optional = [
            ("description", spec.description.clone().map(Value::from)),
            ("request_schema", spec.request_format.clone()),
            ("response_schema", spec.response_format.clone()),
            ("metadata", spec.metadata.clone()),
        ];
        info.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Ok(Value::Object(info))
    }

    pub(super) fn list_types(&self) -> Vec<Value> {
        let rows = self.types.iter().map(|(id, offered)| {
            let provider = offered.providers.last().copied().unwrap_or(Peer::HUB);
            json!({
                "id": id,
                "worker_name": self.name_of(provider),
                "description": offered.description,
                "namespace": "default",
                "trigger_request_format": offered.request_format,
                "call_request_format": offered.call_format,
            })
        });
        rows.collect()
    }

    pub(super) fn type_info(&self, id: &str) -> Result<Value, CallError> {
        let found = self.list_types().into_iter().find(|row| row["id"] == id);
        found.ok_or_else(|| CallError::new("NOT_FOUND", format!("Trigger type {id} not found")))
    }

    pub(super) fn list_triggers(&self) -> Vec<Value> {
        let rows = self.triggers.iter().map(|(id, trigger)| {
            let provider = self.types.get(&trigger.trigger_type).and_then(|found| found.providers.last());
            json!({
                "id": id,
                "trigger_type": trigger.trigger_type,
                "function_id": trigger.function_id,
                "worker_name": provider.map(|provider| self.name_of(*provider)),
                "config": json_of(&trigger.config),
                "config_summary": trigger.config,
                "metadata": trigger.metadata.as_deref().map(json_of),
            })
        });
        rows.collect()
    }

    pub(super) fn trigger_info(&self, id: &str) -> Result<Value, CallError> {
        let found = self.list_triggers().into_iter().find(|row| row["id"] == id);
        found.ok_or_else(|| CallError::new("NOT_FOUND", format!("Trigger {id} not found")))
    }

    fn name_of(&self, peer: Peer) -> String {
        self.workers.get(&peer).map_or_else(|| "engine".to_owned(), Worker::name)
    }
}

fn function_row(id: &str, worker: &str, spec: &FunctionSpec) -> Value {
    json!({
        "function_id": id,
        "worker_name": worker,
        "description": spec.description,
        "request_format": spec.request_format,
        "response_format": spec.response_format,
        "metadata": spec.metadata,
        "namespace": "default",
    })
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
