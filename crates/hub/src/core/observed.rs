//! Data about calls for observers.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Workers;
use crate::wire::{Object, Source, Trace};

/// Data captured by default.
const CAPTURED: [&str; 3] = ["input", "output", "caller"];

/// Stored data about an observed call.
#[derive(Debug)]
pub(super) struct ObservedCall {
    pub(super) input: String,
    pub(super) metadata: Option<String>,
    pub(super) caller: Option<Uuid>,
    pub(super) at: Duration,
    pub(super) depth: u32,
}

/// A finished call that is observed.
pub(super) struct FinishedCall<'a> {
    pub(super) function_id: &'a str,
    pub(super) id: Uuid,
    pub(super) seen: ObservedCall,
    pub(super) trace: &'a Trace,
    /// Start time since 1970, and duration.
    pub(super) began: Duration,
    pub(super) took: Duration,
    /// The result or the error, as JSON.
    pub(super) outcome: Result<&'a str, &'a str>,
}

/// The activation of an observer, for a call of its target.
#[derive(Debug, Clone)]
pub(super) struct Activation {
    pub(super) observer: String,
    pub(super) id: Uuid,
    pub(super) depth: u32,
}

impl FinishedCall<'_> {
    /// Returns everything known about a call, for filters and targets.
    pub(super) fn event(&self, workers: &Workers) -> Value {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let mut event = json!({ "input": json(&self.seen.input) });
        match self.outcome {
            Ok(result) => event["output"] = json(result),
            Err(error) => {
                let error = json(error);
                event["error"] = json!({ "code": error["code"], "message": error["message"] });
            }
        }
        if let Some(id) = self.seen.caller
            && let Some(worker) = workers.find(id)
        {
            event["caller"] = json!({ "worker_id": id, "worker_name": worker.name() });
        }
        if let Some(metadata) = &self.seen.metadata {
            event["metadata"] = json(metadata);
        }
        event
    }

    /// Returns the message for a target, limited to the data that the source captures.
    pub(super) fn envelope(&self, source: &Source, activation: &Activation, event: &Value) -> String {
        let mut envelope = Object::new()
            .text("observer_id", &activation.observer)
            .id("activation_id", activation.id)
            .text("function_id", self.function_id)
            .text("namespace", "default")
            .id("invocation_id", self.id)
            .text("status", if self.outcome.is_ok() { "success" } else { "error" });
        for name in ["input", "output", "error", "caller", "metadata"] {
            let wanted = match &source.capture {
                Some(capture) => capture.iter().any(|wanted| wanted == name),
                None => CAPTURED.contains(&name),
            };
            if let Some(value) = event.get(name).filter(|_| wanted) {
                envelope = envelope.raw(name, &value.to_string());
            }
        }
        envelope
            .raw("started_at_ms", &self.began.as_millis().to_string())
            .raw("duration_ms", &format!("{:.3}", self.took.as_secs_f64() * 1000.0))
            .end()
    }
}

impl Activation {
    /// Returns the JSON that the target's worker receives.
    pub(super) fn json(&self) -> String {
        Object::new().text("observer_id", &self.observer).id("activation_id", self.id).end()
    }
}
