//! What a run is doing now, in a few words, and the events of all runs of this process.

use std::sync::Arc;

use meerkat::{AgentEvent, EventEnvelope};
use tokio::sync::broadcast;

/// How many events a slow listener may be behind.
const WAITING: usize = 1024;

/// The events of all runs that were started through this server.
#[derive(Clone)]
pub(crate) struct Events(broadcast::Sender<Arc<EventEnvelope>>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }
}

impl Events {
    pub(crate) fn watch(&self) -> broadcast::Receiver<Arc<EventEnvelope>> {
        self.0.subscribe()
    }

    pub(crate) fn emit(&self, event: &EventEnvelope) {
        // Streamed text tells nothing about what there is.
        if !matches!(event.payload, AgentEvent::TextDelta { .. } | AgentEvent::ReasoningDelta { .. }) {
            let _ = self.0.send(Arc::new(event.clone()));
        }
    }
}

/// Says what a run is doing now, if the event tells it.
pub(crate) fn progress(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::RunStarted { .. } => "started".to_owned(),
        AgentEvent::TurnStarted { turn_number } => format!("asking the model (step {turn_number})"),
        AgentEvent::ReasoningDelta { .. } => "thinking".to_owned(),
        AgentEvent::TextDelta { .. } => "writing".to_owned(),
        AgentEvent::ToolExecutionStarted { name, .. } => format!("running {name}"),
        AgentEvent::CompactionStarted { .. } => "compacting the conversation".to_owned(),
        AgentEvent::Retrying { attempt, max_attempts, .. } => {
            format!("asking the model again ({attempt} of {max_attempts})")
        }
        _ => return None,
    })
}
