//! A run's events on their way to the client.
//!
//! A client that does not read loses events, never the run: what does not fit is counted and told as one
//! `stream_truncated` when there is room again, or at the end.

#![expect(deprecated, reason = "clients of older revisions receive events as log messages")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    lost: Arc<Mutex<Option<Lost>>>,
    forwarder: JoinHandle<()>,
}

/// Events that there was no room for.
struct Lost {
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

    /// Sends events one after the other.
    fn to<F: Future<Output = ()> + Send>(send: impl Fn(EventEnvelope) -> F + Send + 'static) -> Self {
        let (sender, mut receiver) = mpsc::channel::<EventEnvelope>(WAITING);
        let lost: Arc<Mutex<Option<Lost>>> = Arc::default();
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

    /// Waits until all events are sent, and what was lost is told; every sink must be gone by then.
    pub(crate) async fn finish(self) {
        drop(self.sender);
        let _ = self.forwarder.await;
    }
}

impl Lost {
    fn notice(&self) -> EventEnvelope {
        let reason = match self.count {
            1 => "1 event was lost because the client did not read".to_owned(),
            count => format!("{count} events were lost because the client did not read"),
        };
        EventEnvelope { payload: AgentEvent::StreamTruncated { reason }, ..self.last.clone() }
    }
}

fn pass_on(sender: &mpsc::Sender<EventEnvelope>, lost: &mut Option<Lost>, event: EventEnvelope) {
    if lost.as_ref().is_some_and(|lost| sender.try_send(lost.notice()).is_ok()) {
        *lost = None;
    }
    match lost {
        Some(lost) => *lost = Lost { count: lost.count + 1, last: event },
        None => {
            if let Err(unsent) = sender.try_send(event) {
                *lost = Some(Lost { count: 1, last: unsent.into_inner() });
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn data(event: &EventEnvelope) -> Value {
    let session_id = event.source_id.strip_prefix("session:").unwrap_or(&event.source_id);
    json!({ "source": "meerkat", "session_id": session_id, "event": event })
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

    /// The number of an event, and what it says.
    fn line(event: &EventEnvelope) -> String {
        match &event.payload {
            AgentEvent::StreamTruncated { reason } => format!("{} {reason}", event.seq),
            _ => event.seq.to_string(),
        }
    }

    #[tokio::test]
    async fn who_did_not_read_is_told_what_was_lost_at_the_end_too() {
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
        let last = WAITING as u64 + 5;
        (1..=last).for_each(|seq| sink(event(seq)));
        drop(sink);
        room.add_permits(2 * WAITING);
        stream.finish().await;
        let seen = lock(&seen);
        let kept = (1..=WAITING as u64).map(|seq| seq.to_string());
        let told = format!("{last} 5 events were lost because the client did not read");
        assert_eq!(*seen, kept.chain([told]).collect::<Vec<_>>());
    }
}
