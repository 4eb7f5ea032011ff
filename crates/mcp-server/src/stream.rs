//! A run's events on their way to the client.

#![expect(deprecated, reason = "clients of older revisions receive events as log messages")]

use std::sync::Arc;

use meerkat::{EventEnvelope, EventSink};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::{Peer, RoleServer};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Sends events as notifications, in order and apart from the run.
pub(crate) struct EventStream {
    sender: mpsc::UnboundedSender<EventEnvelope>,
    forwarder: JoinHandle<()>,
}

impl EventStream {
    pub(crate) fn start(peer: Peer<RoleServer>) -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel::<EventEnvelope>();
        let forwarder = tokio::spawn(async move {
            while let Some(event) = receiver.recv().await {
                // A client that is gone needs no events.
                let _ = peer.notify_logging_message(notification(&event)).await;
            }
        });
        Self { sender, forwarder }
    }

    pub(crate) fn sink(&self) -> EventSink {
        let sender = self.sender.clone();
        Arc::new(move |event| drop(sender.send(event)))
    }

    /// Waits until all events are sent; every sink must be gone by then.
    pub(crate) async fn finish(self) {
        drop(self.sender);
        let _ = self.forwarder.await;
    }
}

fn notification(event: &EventEnvelope) -> LoggingMessageNotificationParam {
    let session_id = event.source_id.strip_prefix("session:").unwrap_or(&event.source_id).to_owned();
    let data = json!({ "source": "meerkat", "session_id": session_id, "event": event });
    LoggingMessageNotificationParam::new(LoggingLevel::Info, data)
}
