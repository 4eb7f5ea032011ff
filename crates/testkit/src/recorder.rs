//! The events of a run, written down.

use std::sync::Arc;

use meerkat_core::{AgentEvent, EventEnvelope};
use serde_json::Value;
use tokio::sync::watch;

/// Keeps every event it is given.
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
    /// Returns where to send the events.
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

    /// Returns the events of one type so far, as they are on the wire.
    #[must_use]
    pub fn of_type(&self, name: &str) -> Vec<Value> {
        let events = self.events.borrow();
        events.iter().map(|envelope| wire(&envelope.payload)).filter(|event| event["type"] == name).collect()
    }

    /// Waits until there is an event of this type.
    pub async fn wait_for(&self, name: &str) {
        let mut events = self.events.subscribe();
        let found = |all: &Vec<EventEnvelope>| all.iter().any(|envelope| type_of(&envelope.payload) == name);
        events.wait_for(found).await.expect("the recorder is still there");
    }
}

fn wire(event: &AgentEvent) -> Value {
    serde_json::to_value(event).expect("an event is JSON")
}

fn type_of(event: &AgentEvent) -> String {
    wire(event)["type"].as_str().expect("an event has a type").to_owned()
}
