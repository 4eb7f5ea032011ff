//! Delivery of a run's events to the client.
//!
//! A client that does not read loses events, but never affects the run: dropped events are counted and reported as one
//! `stream_truncated` once the queue has room again, or at the end.

#![expect(deprecated, reason = "clients of older revisions receive events as log messages")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
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
/// Maximum number of bytes of queued events, unless a single event is longer.
const QUEUE_BYTES: usize = 2 * 1024 * 1024;

/// Sender of events as log messages, in order and independent of the run.
pub(crate) struct EventStream {
    queue: Queue,
    lost: Arc<Mutex<Option<DroppedEvents>>>,
    forwarder: JoinHandle<()>,
}

/// Sender of a queue that is bounded in events and in bytes.
#[derive(Clone)]
struct Queue {
    sender: mpsc::Sender<(EventEnvelope, usize)>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    /// Adds an event, or returns it if there is no room. The sinks of a stream add one event at a time.
    fn push(&self, event: EventEnvelope) -> Option<EventEnvelope> {
        let bytes = size(&event);
        let queued = self.bytes.load(Ordering::Relaxed);
        if queued > 0 && queued + bytes > QUEUE_BYTES {
            return Some(event);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let unsent = self.sender.try_send((event, bytes)).err()?;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(unsent.into_inner().0)
    }
}

/// Returns the length of an event as JSON.
fn size(event: &EventEnvelope) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Writing to a counter cannot fail.
    let _ = serde_json::to_writer(&mut count, event);
    count.0
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
        let (sender, mut receiver) = mpsc::channel::<(EventEnvelope, usize)>(QUEUE_SIZE);
        let bytes = Arc::new(AtomicUsize::new(0));
        let queue = Queue { sender, bytes: Arc::clone(&bytes) };
        let lost: Arc<Mutex<Option<DroppedEvents>>> = Arc::default();
        let rest = Arc::clone(&lost);
        let forwarder = tokio::spawn(async move {
            while let Some((event, length)) = receiver.recv().await {
                send(event).await;
                bytes.fetch_sub(length, Ordering::Relaxed);
            }
            let rest = lock(&rest).take();
            if let Some(lost) = rest {
                send(lost.notice()).await;
            }
        });
        Self { queue, lost, forwarder }
    }

    pub(crate) fn sink(&self) -> EventSink {
        let (queue, lost) = (self.queue.clone(), Arc::clone(&self.lost));
        Arc::new(move |event| pass_on(&queue, &mut lock(&lost), event))
    }

    /// Waits until all events are sent and drops are reported; all sinks must be dropped before.
    pub(crate) async fn finish(self) {
        drop(self.queue);
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

fn pass_on(queue: &Queue, lost: &mut Option<DroppedEvents>, event: EventEnvelope) {
    // One notice for many events: a notice is short, and the next event may be long.
    let has_room = queue.bytes.load(Ordering::Relaxed) <= QUEUE_BYTES / 2;
    if lost.as_ref().is_some_and(|lost| has_room && queue.push(lost.notice()).is_none()) {
        *lost = None;
    }
    match lost {
        Some(lost) => *lost = DroppedEvents { count: lost.count + 1, last: event },
        None => {
            if let Some(last) = queue.push(event) {
                *lost = Some(DroppedEvents { count: 1, last });
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

    #[tokio::test]
    async fn queued_bytes_are_bounded() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let own_seen = Arc::clone(&seen);
        let stream = EventStream::to(move |event| {
            lock(&own_seen).push(line(&event));
            std::future::ready(())
        });
        let sink = stream.sink();
        let delta = "x".repeat(QUEUE_BYTES / 4);
        for seq in 1..=10 {
            sink(EventEnvelope { payload: AgentEvent::TextDelta { delta: delta.clone() }, ..event(seq) });
        }
        drop(sink);
        stream.finish().await;
        assert_eq!(*lock(&seen), ["1", "2", "3", "10 7 events were lost because the client did not read"]);
    }
}
