//! Delivery of a run's events to the client.
//!
//! A client that does not read loses events, but never affects the run: dropped events are counted and reported as one
//! `stream_truncated` once the queue has room again, or at the end.

#![expect(deprecated, reason = "clients of older revisions receive events as log messages")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat::{AgentEvent, EventEnvelope, EventSink};
use rmcp::model::LoggingLevel;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::access::session_of;
use crate::protocol::Request;

/// Maximum number of queued events for a slow client.
const QUEUE_SIZE: usize = 1024;

/// Sender of events as log messages, in order and independent of the run.
pub(crate) struct EventStream {
    sender: mpsc::Sender<EventEnvelope>,
    lost: Arc<Mutex<Option<DroppedEvents>>>,
    forwarder: JoinHandle<()>,
}

/// Events that were dropped because the queue was full.
struct DroppedEvents {
    count: u64,
    last: EventEnvelope,
}

impl EventStream {
    pub(crate) fn start(request: Request) -> Self {
        Self::to(move |event| {
            let request = request.clone();
            async move { request.log(LoggingLevel::Info, data(&event)).await }
        })
    }

    /// Creates a stream that passes events to `send`, one at a time.
    fn to<F: Future<Output = ()> + Send>(send: impl Fn(EventEnvelope) -> F + Send + 'static) -> Self {
        let (sender, mut receiver) = mpsc::channel::<EventEnvelope>(QUEUE_SIZE);
        let lost: Arc<Mutex<Option<DroppedEvents>>> = Arc::default();
        let rest = Arc::clone(&lost);
        let forwarder = tokio::spawn(async move {
            while let Some(event) = receiver.recv().await {
                send(event).await;
            }
            let rest = lock(&rest).take();
            if let Some(lost) = rest {
                send(lost.notice()).await;
            }
        });
        Self { sender, lost, forwarder }
    }

    pub(crate) fn sink(&self) -> EventSink {
        let (sender, lost) = (self.sender.clone(), Arc::clone(&self.lost));
        Arc::new(move |event| pass_on(&sender, &mut lock(&lost), event))
    }

    /// Waits until all events are sent and drops are reported; all sinks must be dropped before.
    pub(crate) async fn finish(self) {
        drop(self.sender);
        let _ = self.forwarder.await;
    }
}

impl DroppedEvents {
    fn notice(&self) -> EventEnvelope {
        let reason = match self.count {
            1 => "1 event was lost because the client did not read".to_owned(),
            count => format!("{count} events were lost because the client did not read"),
        };
        EventEnvelope { payload: AgentEvent::StreamTruncated { reason }, ..self.last.clone() }
    }
}

fn pass_on(sender: &mpsc::Sender<EventEnvelope>, lost: &mut Option<DroppedEvents>, event: EventEnvelope) {
    if lost.as_ref().is_some_and(|lost| sender.try_send(lost.notice()).is_ok()) {
        *lost = None;
    }
    match lost {
        Some(lost) => *lost = DroppedEvents { count: lost.count + 1, last: event },
        None => {
            if let Err(unsent) = sender.try_send(event) {
                *lost = Some(DroppedEvents { count: 1, last: unsent.into_inner() });
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn data(event: &EventEnvelope) -> Value {
    json!({ "source": "meerkat", "session_id": session_of(event), "event": event })
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    fn event(seq: u64) -> EventEnvelope {
        let session = "01936f8a-7b2c-7000-8000-000000000001";
        let envelope = json!({
            "event_id": session, "source": { "type": "session", "session_id": session },
            "source_id": format!("session:{session}"), "seq": seq, "timestamp_ms": 0,
            "payload": { "type": "text_delta", "delta": "x" },
        });
        serde_json::from_value(envelope).unwrap()
    }

    /// Returns the number of an event, and its reason if it reports drops.
    fn line(event: &EventEnvelope) -> String {
        match &event.payload {
            AgentEvent::StreamTruncated { reason } => format!("{} {reason}", event.seq),
            _ => event.seq.to_string(),
        }
    }

    #[tokio::test]
    async fn drops_are_reported_at_the_end() {
        let (room, seen) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (own_room, own_seen) = (Arc::clone(&room), Arc::clone(&seen));
        let stream = EventStream::to(move |event| {
            let (room, seen) = (Arc::clone(&own_room), Arc::clone(&own_seen));
            async move {
                room.acquire().await.unwrap().forget();
                lock(&seen).push(line(&event));
            }
        });
        let sink = stream.sink();
        let last = QUEUE_SIZE as u64 + 5;
        (1..=last).for_each(|seq| sink(event(seq)));
        drop(sink);
        room.add_permits(2 * QUEUE_SIZE);
        stream.finish().await;
        let seen = lock(&seen);
        let delivered = (1..=QUEUE_SIZE as u64).map(|seq| seq.to_string());
        let truncated = format!("{last} 5 events were lost because the client did not read");
        assert_eq!(*seen, delivered.chain([truncated]).collect::<Vec<_>>());
    }
}
