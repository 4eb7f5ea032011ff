//! Queues of calls that somebody else waits for: nobody.
//!
//! A call is kept in the store before it runs and removed when it was answered, so it survives a restart. The
//! calls of one queue run one after the other. One that fails is tried again, and given up after some times.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use meerkat_store::{Change, StateQuery, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::hub::Shared;
use crate::state::State;

/// Where calls are kept. Workers see it among the scopes, which does no harm.
const SCOPE: &str = "iii::queue";
/// How often a call is tried.
const ATTEMPTS: u32 = 5;
/// How long it rests before it is tried again; twice as long each time.
const REST: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Waiting {
    id: Uuid,
    queue: String,
    function_id: String,
    data: Value,
}

/// All queues.
#[derive(Clone)]
pub(crate) struct Queues {
    hub: Weak<Shared>,
    state: State,
    limit: usize,
    /// The calls that wait in each queue that is at work.
    busy: Arc<Mutex<HashMap<String, VecDeque<Waiting>>>>,
}

impl Queues {
    pub(crate) fn new(hub: Weak<Shared>, state: State, limit: usize) -> Self {
        Self { hub, state, limit, busy: Arc::default() }
    }

    pub(crate) fn hub(&self) -> Weak<Shared> {
        self.hub.clone()
    }

    /// Takes up what an earlier process left.
    pub(crate) fn resume(&self) {
        let queues = self.clone();
        tokio::spawn(async move {
            let rows = queues.state.0.state(StateQuery::Scope(SCOPE.to_owned())).await.unwrap_or_default();
            for row in rows {
                if let Ok(waiting) = serde_json::from_slice::<Waiting>(&row.value) {
                    queues.add(waiting);
                }
            }
        });
    }

    /// Adds a call to a queue.
    pub(crate) fn push(&self, queue: &str, function_id: String, data: &str, id: Uuid) {
        let data = serde_json::from_str(data).unwrap_or_default();
        let waiting = Waiting { id, queue: queue.to_owned(), function_id, data };
        let queues = self.clone();
        tokio::spawn(async move {
            let Ok(value) = serde_json::to_vec(&waiting) else { return };
            let (scope, key) = (SCOPE.to_owned(), waiting.id.to_string());
            queues.commit(Change::PutState { scope, key, value }).await;
            queues.add(waiting);
        });
    }

    /// Puts a call at the end of its queue and begins to work on it.
    fn add(&self, waiting: Waiting) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let name = waiting.queue.clone();
        if let Some(queue) = busy.get_mut(&name) {
            if queue.len() >= self.limit {
                self.note(&format!(
                    "the queue `{name}` is full; a call of `{}` is dropped",
                    waiting.function_id
                ));
                let queues = self.clone();
                tokio::spawn(async move { queues.forget(waiting.id).await });
            } else {
                queue.push_back(waiting);
            }
            return;
        }
        busy.insert(name.clone(), VecDeque::from([waiting]));
        drop(busy);
        tokio::spawn(self.clone().work(name));
    }

    async fn work(self, name: String) {
        while let Some(waiting) = self.next(&name) {
            self.deliver(&waiting).await;
            self.forget(waiting.id).await;
        }
    }

    fn next(&self, name: &str) -> Option<Waiting> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let next = busy.get_mut(name)?.pop_front();
        if next.is_none() {
            busy.remove(name);
        }
        next
    }

    async fn deliver(&self, waiting: &Waiting) {
        let mut rest = REST;
        for attempt in 1..=ATTEMPTS {
            let Some(shared) = self.hub.upgrade() else { return };
            let limit = shared.limits.call_time;
            let Err(error) = shared.call(&waiting.function_id, &waiting.data, limit).await else { return };
            drop(shared);
            if attempt == ATTEMPTS {
                self.note(&format!("a queued call of `{}` is given up: {error}", waiting.function_id));
                return;
            }
            tokio::time::sleep(rest).await;
            rest *= 2;
        }
    }

    async fn forget(&self, id: Uuid) {
        self.commit(Change::DeleteState { scope: SCOPE.to_owned(), key: id.to_string() }).await;
    }

    async fn commit(&self, change: Change) {
        let transaction = Transaction { guards: Vec::new(), changes: vec![change] };
        if let Err(error) = self.state.0.commit(transaction).await {
            self.note(&format!("a queue cannot be kept: {error}"));
        }
    }

    fn note(&self, text: &str) {
        if let Some(shared) = self.hub.upgrade() {
            shared.note(text);
        }
    }
}
