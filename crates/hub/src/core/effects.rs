//! The effects of events, and the sources of ids and times.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{Grant, Peer};
use crate::error::CallError;
use crate::queue::QueuedCall;

/// An action for the hub to carry out, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send a message to a worker.
    Send(Peer, String),
    /// Close a connection.
    Drop(Peer),
    /// Run a function of this process.
    Run(Run),
    /// Return an answer to a caller in this process.
    Answer { call: u64, outcome: Result<String, CallError> },
    /// Place a trigger with a type of this process, or remove it.
    Subscription { trigger_type: String, id: String, subscriber: Option<Subscriber> },
    /// Add a call to a built-in queue; [`Core::finish`](super::Core::finish) is called when it is stored.
    Enqueue(QueuedCall),
    /// Pass a call to the worker that provides queues; [`Core::finish`](super::Core::finish) is called when the worker
    /// has accepted it.
    HandOver { id: Uuid, data: String },
    /// The available functions have changed.
    FunctionsChanged,
    /// A worker connected, disconnected, or set its information.
    WorkerChanged { event: &'static str, worker_id: Uuid },
    /// Write a message to the operator's log.
    Note(String),
}

/// A function to call when a trigger type of this process fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) function_id: String,
    pub(crate) config: String,
}

/// A function of this process to run.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) id: Uuid,
    pub(crate) function_id: String,
    pub(crate) data: String,
    pub(crate) caller: Option<Uuid>,
    /// The calling connection, if access rules apply to it.
    pub(crate) guarded: Option<(Peer, Arc<Grant>)>,
}

/// Generator of ids.
pub(crate) type Ids = Box<dyn FnMut() -> Uuid + Send>;

/// The pending effects of events, and the ids and times for them.
pub(super) struct Effects {
    pending: Vec<Effect>,
    ids: Ids,
    /// Start time of the hub since 1970, and the time elapsed since then.
    start: Duration,
    now: Duration,
}

impl Effects {
    pub(super) fn new(ids: Ids, start: Duration) -> Self {
        Self { pending: Vec::new(), ids, start, now: Duration::ZERO }
    }

    pub(super) fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Returns the time since the start of the hub.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Converts a time since the start of the hub to one since 1970.
    pub(super) fn since_1970(&self, at: Duration) -> Duration {
        self.start + at
    }

    pub(super) fn new_id(&mut self) -> Uuid {
        (self.ids)()
    }

    pub(super) fn add(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.pending.extend(effects);
    }

    pub(super) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.pending)
    }
}
