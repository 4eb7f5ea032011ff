//! A recorder for the events of a run.

use std::sync::Arc;

use meerkat_core::{AgentEvent, EventEnvelope};
use serde_json::Value;
use tokio::sync::watch;

/// Records every event it receives.
#[derive(Debug, Clone)]
pub struct Recorder {
    events: watch::Sender<Vec<EventEnvelope>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { events: watch::Sender::new(Vec::new()) }
    }
}

impl Recorder {
    /// Returns the sink that records events.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn Fn(EventEnvelope) + Send + Sync> {
        let events = self.events.clone();
        Arc::new(move |envelope| events.send_modify(|all| all.push(envelope)))
    }

    /// Returns the events so far.
    #[must_use]
    pub fn events(&self) -> Vec<EventEnvelope> {
        self.events.borrow().clone()
    }

    /// Returns the types of the events so far.
    #[must_use]
    pub fn types(&self) -> Vec<String> {
        self.events.borrow().iter().map(|envelope| type_of(&envelope.payload)).collect()
    }

    /// Returns the events of one type so far, in their wire format.
    #[must_use]
    pub fn by_type(&self, name: &str) -> Vec<Value> {
        let events = self.events.borrow();
        events
            .iter()
            .map(|envelope| to_wire(&envelope.payload))
            .filter(|event| event["type"] == name)
            .collect()
    }

    /// Waits until an event of this type has been recorded.
    pub async fn wait_for(&self, name: &str) {
        let mut events = self.events.subscribe();
        let is_recorded =
            |all: &Vec<EventEnvelope>| all.iter().any(|envelope| type_of(&envelope.payload) == name);
        events.wait_for(is_recorded).await.expect("the recorder still exists");
    }
}

fn to_wire(event: &AgentEvent) -> Value {
    serde_json::to_value(event).expect("an event serializes")
}

fn type_of(event: &AgentEvent) -> String {
    to_wire(event)["type"].as_str().expect("an event has a type").to_owned()
}
