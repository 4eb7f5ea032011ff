//! Queues of calls whose callers do not wait for a result: the calls that arrive, and the limit on their number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::error::CallError;
use crate::wire::Object;

/// The scope in which calls are stored.
pub(crate) const SCOPE: &str = "iii::queue";

/// A queued call, in its stored form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueuedCall {
    pub(crate) id: Uuid,
    pub(crate) queue: String,
    pub(crate) function_id: String,
    pub(crate) data: Value,
    /// Failed attempts in this process.
    #[serde(skip)]
    pub(crate) attempts: u32,
}

/// Receiver of the calls that arrive.
pub(crate) type Inbox = mpsc::UnboundedReceiver<QueuedCall>;

/// All queues.
pub(crate) struct Queues {
    inbox: mpsc::UnboundedSender<QueuedCall>,
    /// The other end of the inbox, until the queues are started.
    unstarted: Mutex<Option<Inbox>>,
    lengths: Lengths,
    limit: usize,
}

impl Queues {
    pub(crate) fn new(limit: usize) -> Self {
        let (inbox, receiver) = mpsc::unbounded_channel();
        Self { inbox, unstarted: Mutex::new(Some(receiver)), lengths: Lengths::default(), limit }
    }

    /// Returns the arriving calls and the lengths of the queues; `None` if they were returned before.
    pub(crate) fn start(&self) -> Option<(Inbox, Lengths)> {
        let inbox = self.unstarted.lock().unwrap_or_else(PoisonError::into_inner).take();
        inbox.map(|inbox| (inbox, self.lengths.clone()))
    }

    /// Adds a call to its queue. The core is notified when it is stored.
    pub(crate) fn push(&self, call: QueuedCall) -> Result<(), CallError> {
        if !self.lengths.reserve(&call.queue, self.limit) {
            let text = format!("the queue `{}` is full: {} calls wait", call.queue, self.limit);
            return Err(enqueue_error(text));
        }
        self.inbox.send(call).map_err(|_| enqueue_error("the hub is shutting down"))
    }
}

/// Number of calls in each queue, including those not stored yet.
#[derive(Clone, Default)]
pub(crate) struct Lengths(Arc<Mutex<HashMap<String, usize>>>);

impl Lengths {
    /// Counts a call in a queue; returns false if it is full.
    pub(crate) fn reserve(&self, queue: &str, limit: usize) -> bool {
        let mut counts = self.lock();
        let count = counts.entry(queue.to_owned()).or_default();
        let has_room = *count < limit;
        *count += usize::from(has_room);
        has_room
    }

    pub(crate) fn release(&self, queue: &str) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(queue) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(queue);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the receipt for an enqueued call.
pub(crate) fn receipt(id: Uuid) -> String {
    Object::new().id("messageReceiptId", id).end()
}

pub(crate) fn enqueue_error(text: impl Into<String>) -> CallError {
    CallError::new("enqueue_error", text)
}
