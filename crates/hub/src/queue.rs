//! Queues of calls whose callers do not wait for a result.
//!
//! A call is stored before its caller gets a receipt, and removed after it was answered, so it survives a restart. One
//! task stores the calls in the order in which they arrive, after loading those of an earlier process. The calls of one
//! queue run one after the other. A call whose function is not registered stays in its queue until a worker registers
//! it; calls of other functions overtake it. A failing call is retried, and dropped after a number of attempts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use meerkat_store::{Change, StateQuery, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

use crate::error::CallError;
use crate::hub::Shared;
use crate::state::State;
use crate::wire::Object;

/// The scope in which calls are stored.
pub(crate) const SCOPE: &str = "iii::queue";
/// Maximum number of attempts for a failing call.
const ATTEMPTS: u32 = 5;
/// Backoff before the second attempt; doubles each time.
const BACKOFF: Duration = Duration::from_millis(500);
/// Backoff while the store cannot be read.
const RELOAD: Duration = Duration::from_secs(1);
/// Maximum number of calls stored together.
const BATCH: usize = 64;

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

/// All queues.
pub(crate) struct Queues {
    hub: Weak<Shared>,
    lanes: Lanes,
    inbox: mpsc::UnboundedSender<QueuedCall>,
    /// The other end of the inbox, until the queues are started.
    unstarted: Mutex<Option<mpsc::UnboundedReceiver<QueuedCall>>>,
    limit: usize,
}

impl Queues {
    pub(crate) fn new(hub: Weak<Shared>, state: State, limit: usize) -> Self {
        let (inbox, receiver) = mpsc::unbounded_channel();
        let lanes = Lanes { hub: hub.clone(), state, lanes: Arc::default(), counts: Arc::default() };
        Self { hub, lanes, inbox, unstarted: Mutex::new(Some(receiver)), limit }
    }

    pub(crate) fn hub(&self) -> Weak<Shared> {
        self.hub.clone()
    }

    /// Starts delivering calls, beginning with those of an earlier process. Further calls have no effect.
    pub(crate) fn start(&self) {
        let receiver = self.unstarted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(inbox) = receiver {
            tokio::spawn(self.lanes.clone().store(inbox));
        }
    }

    /// Adds a call to its queue. The core is notified when it is stored.
    pub(crate) fn push(&self, call: QueuedCall) -> Result<(), CallError> {
        if !self.lanes.reserve(&call.queue, self.limit) {
            let text = format!("the queue `{}` is full: {} calls wait", call.queue, self.limit);
            return Err(enqueue_error(text));
        }
        self.inbox.send(call).map_err(|_| enqueue_error("the hub is shutting down"))
    }
}

/// The queues that have calls.
#[derive(Clone)]
struct Lanes {
    hub: Weak<Shared>,
    state: State,
    lanes: Arc<Mutex<HashMap<String, Lane>>>,
    /// Number of calls in each queue, including those not stored yet.
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

#[derive(Default)]
struct Lane {
    calls: VecDeque<QueuedCall>,
    changed: Arc<Notify>,
}

enum Next {
    Deliver(QueuedCall),
    /// None of the pending calls' functions is registered.
    Wait(Arc<Notify>),
    Done,
}

impl Lanes {
    /// Stores arriving calls in order and starts their delivery.
    async fn store(self, mut inbox: mpsc::UnboundedReceiver<QueuedCall>) {
        for call in self.load().await {
            self.reserve(&call.queue, usize::MAX);
            // The function's owner is not stored, so reserve the id against guests.
            let Some(hub) = self.hub.upgrade() else { return };
            hub.act(|core| core.reserve(&call.function_id));
            self.add(call);
        }
        let mut batch = Vec::new();
        while inbox.recv_many(&mut batch, BATCH).await > 0 {
            let stored = self.put(&batch).await;
            for call in batch.drain(..) {
                let Some(hub) = self.hub.upgrade() else { return };
                hub.act(|core| core.finish(call.id, stored.clone().map(|()| Some(receipt(call.id)))));
                match stored {
                    Ok(()) => self.add(call),
                    Err(_) => self.release(&call.queue),
                }
            }
        }
    }

    /// Reads the calls of an earlier process, in the order in which they were stored.
    async fn load(&self) -> Vec<QueuedCall> {
        loop {
            match self.state.0.state(StateQuery::Scope(SCOPE.to_owned())).await {
                Ok(rows) => {
                    return rows.iter().filter_map(|row| serde_json::from_slice(&row.value).ok()).collect();
                }
                Err(error) => self.note(&format!("cannot read the queues: {error}; trying again")),
            }
            tokio::time::sleep(RELOAD).await;
            if self.hub.strong_count() == 0 {
                return Vec::new();
            }
        }
    }

    async fn put(&self, calls: &[QueuedCall]) -> Result<(), CallError> {
        let put = |call: &QueuedCall| {
            let (scope, key) = (SCOPE.to_owned(), call.id.to_string());
            serde_json::to_vec(call).map(|value| Change::PutState { scope, key, value })
        };
        let changes: Result<Vec<_>, _> = calls.iter().map(put).collect();
        let changes = changes.map_err(|error| enqueue_error(error.to_string()))?;
        let stored = self.state.0.commit(Transaction { guards: Vec::new(), changes }).await;
        stored.map(drop).map_err(|error| enqueue_error(format!("cannot store the call: {error}")))
    }

    /// Appends a stored call to its queue.
    fn add(&self, call: QueuedCall) {
        let mut lanes = self.lanes();
        let name = call.queue.clone();
        let is_new = !lanes.contains_key(&name);
        let lane = lanes.entry(name.clone()).or_default();
        lane.calls.push_back(call);
        lane.changed.notify_one();
        drop(lanes);
        if is_new {
            tokio::spawn(self.clone().work(name));
        }
    }

    /// Delivers the calls of one queue until it is empty.
    async fn work(self, name: String) {
        let Some(mut functions) = self.hub.upgrade().map(|hub| hub.changes()) else { return };
        loop {
            // Later changes are detected below.
            functions.borrow_and_update();
            match self.next(&name) {
                Next::Deliver(call) => self.deliver(call).await,
                Next::Done => return,
                Next::Wait(changed) => tokio::select! {
                    () = changed.notified() => {}
                    gone = functions.changed() => if gone.is_err() { return },
                },
            }
        }
    }

    /// Removes the first call whose function is registered.
    fn next(&self, name: &str) -> Next {
        let Some(hub) = self.hub.upgrade() else { return Next::Done };
        let mut lanes = self.lanes();
        let Some(lane) = lanes.get_mut(name) else { return Next::Done };
        if lane.calls.is_empty() {
            lanes.remove(name);
            return Next::Done;
        }
        let found =
            hub.inspect(|core| lane.calls.iter().position(|call| core.is_registered(&call.function_id)));
        match found.and_then(|at| lane.calls.remove(at)) {
            Some(call) => Next::Deliver(call),
            None => Next::Wait(Arc::clone(&lane.changed)),
        }
    }

    async fn deliver(&self, mut call: QueuedCall) {
        loop {
            let Some(hub) = self.hub.upgrade() else { return };
            let limit = hub.limits.call_time;
            let Err(error) = hub.call(&call.function_id, &call.data, limit).await else { break };
            if error.is_not_found() && !hub.inspect(|core| core.is_registered(&call.function_id)) {
                // The function's worker is gone for now; put the call back first.
                self.lanes().entry(call.queue.clone()).or_default().calls.push_front(call);
                return;
            }
            drop(hub);
            call.attempts += 1;
            if call.attempts >= ATTEMPTS {
                self.note(&format!("dropped a queued call of `{}`: {error}", call.function_id));
                break;
            }
            tokio::time::sleep(BACKOFF * 2_u32.pow(call.attempts - 1)).await;
        }
        self.forget(&call).await;
    }

    async fn forget(&self, call: &QueuedCall) {
        let change = Change::DeleteState { scope: SCOPE.to_owned(), key: call.id.to_string() };
        let transaction = Transaction { guards: Vec::new(), changes: vec![change] };
        if let Err(error) = self.state.0.commit(transaction).await {
            self.note(&format!("a queued call of `{}` may run again: {error}", call.function_id));
        }
        self.release(&call.queue);
    }

    /// Counts a call in a queue; returns false if it is full.
    fn reserve(&self, queue: &str, limit: usize) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(queue.to_owned()).or_default();
        let has_room = *count < limit;
        *count += usize::from(has_room);
        has_room
    }

    fn release(&self, queue: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(queue) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(queue);
            }
        }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<String, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, text: &str) {
        if let Some(hub) = self.hub.upgrade() {
            hub.note(text);
        }
    }
}

/// Returns the receipt for an enqueued call.
pub(crate) fn receipt(id: Uuid) -> String {
    Object::new().id("messageReceiptId", id).end()
}

fn enqueue_error(text: impl Into<String>) -> CallError {
    CallError::new("enqueue_error", text)
}
