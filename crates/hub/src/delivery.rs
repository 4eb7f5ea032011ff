//! Delivery of queued calls.
//!
//! A call is stored before its caller gets a receipt, and removed after it was answered, so it survives a restart. One
//! task stores the calls in the order in which they arrive, after loading those of an earlier process. The calls of one
//! queue run one after the other. A call whose function is not registered stays in its queue until a worker registers
//! it; calls of other functions overtake it. A failing call is retried, and dropped after a number of attempts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::CallError;
use crate::hub::Shared;
use crate::lock;
use crate::queue::{Inbox, QueuedCall, SCOPE, enqueue_error, receipt};
use crate::state::StateStore;

/// Maximum number of attempts for a failing call.
const ATTEMPTS: u32 = 5;
/// Backoff before the second attempt; doubles each time.
const BACKOFF: Duration = Duration::from_millis(500);
/// Backoff while the store cannot be read.
const RELOAD: Duration = Duration::from_secs(1);
/// Maximum number of calls stored together.
const BATCH: usize = 64;

/// Starts delivering calls, beginning with those of an earlier process. Further calls have no effect.
pub(crate) fn start(shared: &Arc<Shared>) {
    if let Some(inbox) = shared.queues.start() {
        let (hub, store) = (Arc::downgrade(shared), Arc::clone(&shared.services.state.0));
        tokio::spawn(Lanes { hub, store, lanes: Arc::default() }.store(inbox));
    }
}

/// The queues that have calls.
#[derive(Clone)]
struct Lanes {
    hub: Weak<Shared>,
    store: Arc<dyn StateStore>,
    lanes: Arc<Mutex<HashMap<String, Lane>>>,
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
    async fn store(self, mut inbox: Inbox) {
        for call in self.load().await {
            let Some(hub) = self.hub.upgrade() else { return };
            hub.queues.reserve(&call.queue, usize::MAX);
            // The function's owner is not stored, so reserve the id against guests.
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
                    Err(_) => hub.queues.release(&call.queue),
                }
            }
        }
    }

    /// Reads the calls of an earlier process, in the order in which they were stored.
    async fn load(&self) -> Vec<QueuedCall> {
        loop {
            match self.store.list(SCOPE).await {
                Ok(calls) => {
                    return calls.iter().filter_map(|call| serde_json::from_slice(call).ok()).collect();
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
        let encode =
            |call: &QueuedCall| serde_json::to_vec(call).map(|value| (call.id.to_string(), Some(value)));
        let values: Result<Vec<_>, _> = calls.iter().map(encode).collect();
        let values = values.map_err(|error| enqueue_error(error.to_string()))?;
        let stored = self.store.put(SCOPE, values).await;
        stored.map(drop).map_err(|error| enqueue_error(format!("cannot store the call: {error}")))
    }

    /// Appends a stored call to its queue.
    fn add(&self, call: QueuedCall) {
        let mut lanes = lock(&self.lanes);
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
        let mut lanes = lock(&self.lanes);
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
                lock(&self.lanes).entry(call.queue.clone()).or_default().calls.push_front(call);
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
        if let Err(error) = self.store.put(SCOPE, vec![(call.id.to_string(), None)]).await {
            self.note(&format!("a queued call of `{}` may run again: {error}", call.function_id));
        }
        if let Some(hub) = self.hub.upgrade() {
            hub.queues.release(&call.queue);
        }
    }

    fn note(&self, text: &str) {
        if let Some(hub) = self.hub.upgrade() {
            hub.note(text);
        }
    }
}
