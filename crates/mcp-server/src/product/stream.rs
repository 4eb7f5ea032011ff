//! A run's events on their way to the client.
//!
//! A client that does not read loses events, never the run: what does not fit is counted and told as one
//! `stream_truncated` when there is room again.

#![expect(deprecated, reason = "clients of older revisions receive events as log messages")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use meerkat::{AgentEvent, EventEnvelope, EventSink};
use rmcp::model::LoggingLevel;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::layer::Request;

/// How many events wait for a slow client.
const WAITING: usize = 1024;

/// Sends events as log messages, in order and apart from the run.
pub(crate) struct EventStream {
    sender: mpsc::Sender<EventEnvelope>,
    forwarder: JoinHandle<()>,
}

impl EventStream {
    pub(crate) fn start(request: Request) -> Self {
        let (sender, mut receiver) = mpsc::channel::<EventEnvelope>(WAITING);
        let forwarder = tokio::spawn(async move {
            while let Some(event) = receiver.recv().await {
                request.log(LoggingLevel::Info, data(&event)).await;
            }
        });
        Self { sender, forwarder }
    }

    pub(crate) fn sink(&self) -> EventSink {
        let sender = self.sender.clone();
        let lost = AtomicU64::new(0);
        Arc::new(move |event| pass_on(&sender, &lost, event))
    }

    /// Waits until all events are sent; every sink must be gone by then.
    pub(crate) async fn finish(self) {
        drop(self.sender);
        let _ = self.forwarder.await;
    }
}

fn pass_on(sender: &mpsc::Sender<EventEnvelope>, lost: &AtomicU64, event: EventEnvelope) {
    let missing = lost.load(Ordering::Relaxed);
    if missing > 0 {
        let reason = format!("{missing} events were lost because the client did not read");
        let notice = EventEnvelope { payload: AgentEvent::StreamTruncated { reason }, ..event.clone() };
        if sender.try_send(notice).is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        lost.store(0, Ordering::Relaxed);
    }
    if sender.try_send(event).is_err() {
        lost.fetch_add(1, Ordering::Relaxed);
    }
}

fn data(event: &EventEnvelope) -> Value {
    let session_id = event.source_id.strip_prefix("session:").unwrap_or(&event.source_id);
    json!({ "source": "meerkat", "session_id": session_id, "event": event })
}
