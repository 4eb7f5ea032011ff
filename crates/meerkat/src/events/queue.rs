//! Queue of a run's events for one reader.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use meerkat_core::{AgentEvent, EventEnvelope};
use tokio::sync::mpsc;

/// Maximum number of queued events.
const CAPACITY: usize = 1024;

/// Events of a run, in order. A reader that falls behind loses events, which one `stream_truncated` event reports; the
/// run never waits for it.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<Arc<EventEnvelope>>,
    lost: Arc<Mutex<Option<LostEvents>>>,
}

/// The sending side of [`Events`].
#[derive(Debug, Clone)]
pub struct EventQueue {
    sender: mpsc::Sender<Arc<EventEnvelope>>,
    lost: Arc<Mutex<Option<LostEvents>>>,
}

/// Events that were dropped because the queue was full.
#[derive(Debug)]
struct LostEvents {
    count: u64,
    last: Arc<EventEnvelope>,
}

impl Events {
    /// Creates a queue. It ends when every sender is dropped.
    #[must_use]
    pub fn queue() -> (EventQueue, Self) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let lost: Arc<Mutex<_>> = Arc::default();
        (EventQueue { sender, lost: Arc::clone(&lost) }, Self { receiver, lost })
    }

    /// Waits for the next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Arc<EventEnvelope>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Arc<EventEnvelope>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = std::task::ready!(self.receiver.poll_recv(context));
        Poll::Ready(event.or_else(|| lock(&self.lost).take().map(|lost| lost.notice())))
    }
}

impl EventQueue {
    /// Queues an event, or counts it as lost if the queue is full.
    pub fn push(&self, event: Arc<EventEnvelope>) {
        if self.sender.is_closed() {
            return;
        }
        let mut lost = lock(&self.lost);
        if lost.as_ref().is_some_and(|lost| self.sender.try_send(lost.notice()).is_ok()) {
            *lost = None;
        }
        match &mut *lost {
            Some(lost) => *lost = LostEvents { count: lost.count + 1, last: event },
            None => {
                if let Err(unsent) = self.sender.try_send(event) {
                    *lost = Some(LostEvents { count: 1, last: unsent.into_inner() });
                }
            }
        }
    }
}

impl LostEvents {
    fn notice(&self) -> Arc<EventEnvelope> {
        let reason = match self.count {
            1 => "1 event was lost because the client did not read".to_owned(),
            count => format!("{count} events were lost because the client did not read"),
        };
        let payload = AgentEvent::StreamTruncated { reason };
        Arc::new(EventEnvelope { payload, ..EventEnvelope::clone(&self.last) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(seq: u64) -> Arc<EventEnvelope> {
        let session = "01936f8a-7b2c-7000-8000-000000000001";
        let envelope = json!({
            "event_id": session, "source": { "type": "session", "session_id": session },
            "source_id": format!("session:{session}"), "seq": seq, "timestamp_ms": 0,
            "payload": { "type": "text_delta", "delta": "x" },
        });
        Arc::new(serde_json::from_value(envelope).unwrap())
    }

    /// Returns the number of an event, and its reason if it reports lost ones.
    fn line(event: &EventEnvelope) -> String {
        match &event.payload {
            AgentEvent::StreamTruncated { reason } => format!("{} {reason}", event.seq),
            _ => event.seq.to_string(),
        }
    }

    #[tokio::test]
    async fn lost_events_are_reported_once() {
        let (queue, mut events) = Events::queue();
        let full = CAPACITY as u64;
        (1..=full + 5).for_each(|seq| queue.push(event(seq)));
        for seq in 1..=full {
            assert_eq!(line(&events.next().await.unwrap()), seq.to_string());
        }
        queue.push(event(full + 6));
        queue.push(event(full + 7));
        drop(queue);
        let mut rest = Vec::new();
        while let Some(event) = events.next().await {
            rest.push(line(&event));
        }
        let notice = format!("{} 5 events were lost because the client did not read", full + 5);
        assert_eq!(rest, [notice, (full + 6).to_string(), (full + 7).to_string()]);
    }

    #[tokio::test]
    async fn events_lost_at_the_end_are_reported() {
        let (queue, mut events) = Events::queue();
        (0..=CAPACITY as u64).for_each(|seq| queue.push(event(seq)));
        drop(queue);
        let mut last = None;
        while let Some(event) = events.next().await {
            last = Some(line(&event));
        }
        assert_eq!(last.unwrap(), format!("{CAPACITY} 1 event was lost because the client did not read"));
    }
}
