//! Delivery of a run's events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meerkat_core::{AgentEvent, EventEnvelope, FinishedJob, Redactor};

use super::{EventQueue, RunChannel};

/// Callback that receives the events of a run, in order. It is called from the run and must not block.
pub type EventSink = Arc<dyn Fn(EventEnvelope) + Send + Sync>;

/// Forwards a run's events to the session's channel, the handle of the run, and the caller's sink.
pub(crate) struct Emitter {
    channel: RunChannel,
    queue: EventQueue,
    sink: Option<EventSink>,
    /// Set when the sink panicked: a listener must not affect the run.
    broken: AtomicBool,
    redactor: Redactor,
}

impl Emitter {
    pub(crate) fn new(
        channel: RunChannel,
        queue: EventQueue,
        sink: Option<EventSink>,
        redactor: Redactor,
    ) -> Self {
        Self { channel, queue, sink, broken: AtomicBool::new(false), redactor }
    }

    /// Returns the redactor that masks secrets in events.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Emits an event for a finished job, and returns the notice for the model.
    pub(crate) fn report_finished_job(&self, job: FinishedJob) -> String {
        let FinishedJob { id, name, status, detail } = job;
        let body =
            format!("[BG_JOB] {id} ({name}) finished: {detail}. Use shell_job_status to see its output.");
        self.emit(AgentEvent::BackgroundJobCompleted {
            job_id: id,
            display_name: name,
            status: None,
            terminal_status: status,
            detail,
        });
        body
    }

    pub(crate) fn emit(&self, payload: AgentEvent) {
        let event = self.channel.publish(payload);
        self.queue.push(Arc::clone(&event));
        let Some(sink) = self.sink.as_ref().filter(|_| !self.broken.load(Ordering::Relaxed)) else { return };
        if catch_unwind(AssertUnwindSafe(|| sink(EventEnvelope::clone(&event)))).is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
    }
}
