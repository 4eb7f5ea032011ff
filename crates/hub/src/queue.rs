//! Queues of calls whose callers do not wait for a result: the calls that arrive, and the limit on their number.

use std::collections::HashMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::error::CallError;
use crate::lock;
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
    /// Number of calls in each queue, including those not stored yet.
    lengths: Mutex<HashMap<String, usize>>,
    limit: usize,
}

impl Queues {
    pub(crate) fn new(limit: usize) -> Self {
        let (inbox, receiver) = mpsc::unbounded_channel();
        Self { inbox, unstarted: Mutex::new(Some(receiver)), lengths: Mutex::default(), limit }
    }

    /// Returns the calls that arrive; `None` if they were returned before.
    pub(crate) fn start(&self) -> Option<Inbox> {
        lock(&self.unstarted).take()
    }

    /// Adds a call to its queue. The core is notified when it is stored.
    pub(crate) fn push(&self, call: QueuedCall) -> Result<(), CallError> {
        if !self.reserve(&call.queue, self.limit) {
            let text = format!("the queue `{}` is full: {} calls wait", call.queue, self.limit);
            return Err(enqueue_error(text));
        }
        self.inbox.send(call).map_err(|_| enqueue_error("the hub is shutting down"))
    }

    /// Counts a call in a queue; returns `false` if it is full.
    pub(crate) fn reserve(&self, queue: &str, limit: usize) -> bool {
        let mut lengths = lock(&self.lengths);
        let length = lengths.entry(queue.to_owned()).or_default();
        let has_room = *length < limit;
        *length += usize::from(has_room);
        has_room
    }

    /// Removes a call from the count.
    pub(crate) fn release(&self, queue: &str) {
        let mut lengths = lock(&self.lengths);
        if let Some(length) = lengths.get_mut(queue) {
            *length = length.saturating_sub(1);
            if *length == 0 {
                lengths.remove(queue);
            }
        }
    }
}

/// Returns the receipt for an enqueued call.
pub(crate) fn receipt(id: Uuid) -> String {
    Object::new().id("messageReceiptId", id).end()
}

pub(crate) fn enqueue_error(text: impl Into<String>) -> CallError {
    CallError::new("enqueue_error", text)
}
