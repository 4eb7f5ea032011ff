//! Where a run's events go.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use meerkat_core::{AgentEvent, Clock, EventEnvelope, EventId, EventSource, SessionId};
use uuid::Uuid;

/// Takes the events of a run, in order. It is called from the run and must not block.
pub type EventSink = Arc<dyn Fn(EventEnvelope) + Send + Sync>;

/// Puts events into envelopes and passes them on.
pub(crate) struct Emitter {
    session: SessionId,
    clock: Arc<dyn Clock>,
    sink: Option<EventSink>,
    seq: AtomicU64,
    /// Set when the sink panicked: a listener must not hurt the run it listens to.
    broken: AtomicBool,
}

impl Emitter {
    pub(crate) fn new(session: SessionId, clock: Arc<dyn Clock>, sink: Option<EventSink>) -> Self {
        Self { session, clock, sink, seq: AtomicU64::new(0), broken: AtomicBool::new(false) }
    }

    pub(crate) fn emit(&self, payload: AgentEvent) {
        let Some(sink) = self.sink.as_ref().filter(|_| !self.broken.load(Ordering::Relaxed)) else { return };
        let event = EventEnvelope {
            event_id: EventId::from_uuid(Uuid::now_v7()),
            source: EventSource::Session { session_id: self.session },
            source_id: format!("session:{}", self.session),
            seq: self.seq.fetch_add(1, Ordering::Relaxed),
            mob_id: None,
            timestamp_ms: self.clock.now().as_millisecond(),
            payload,
        };
        if catch_unwind(AssertUnwindSafe(|| sink(event))).is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
    }
}
