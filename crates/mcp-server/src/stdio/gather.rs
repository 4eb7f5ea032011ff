//! The answers to batches: each batch is answered with one line, when its last answer is there.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

/// Gathers answers.
#[derive(Clone, Default)]
pub(super) struct Gather(Arc<Mutex<Vec<Batch>>>);

#[derive(Default)]
struct Batch {
    waiting: HashSet<RequestId>,
    answers: Vec<Value>,
}

/// What became of a message to the client.
pub(super) enum Gathered {
    /// It is a line, or the last of several that are.
    Line(Vec<u8>),
    /// It waits for others.
    Waiting,
}

impl Gather {
    /// Begins a batch with the requests that were taken and the answers to those that were not.
    pub(super) fn begin(&self, requests: HashSet<RequestId>, answers: Vec<Value>) -> Option<Vec<u8>> {
        let batch = Batch { waiting: requests, answers };
        let line = batch.line();
        if !batch.waiting.is_empty() {
            self.batches().push(batch);
        }
        line
    }

    /// Makes a line of a message, unless it is part of a batch that is not complete.
    pub(super) fn send(&self, message: &ServerJsonRpcMessage) -> Gathered {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let answer = || serde_json::to_value(message).unwrap_or_default();
        match id.and_then(|id| self.settle(id, answer)) {
            None => Gathered::Line(serde_json::to_vec(message).unwrap_or_default()),
            Some(None) => Gathered::Waiting,
            Some(Some(line)) => Gathered::Line(line),
        }
    }

    /// Waits no more for a request that was cancelled.
    pub(super) fn cancel(&self, id: &RequestId) -> Option<Vec<u8>> {
        self.settle(id, || Value::Null).flatten()
    }

    /// Notes the answer to a request that is part of a batch; an answer that is null is none.
    fn settle(&self, id: &RequestId, answer: impl FnOnce() -> Value) -> Option<Option<Vec<u8>>> {
        let mut batches = self.batches();
        let index = batches.iter().position(|batch| batch.waiting.contains(id))?;
        let batch = &mut batches[index];
        batch.waiting.remove(id);
        batch.answers.extend(Some(answer()).filter(|answer| !answer.is_null()));
        if !batch.waiting.is_empty() {
            return Some(None);
        }
        Some(batches.swap_remove(index).line())
    }

    fn batches(&self) -> MutexGuard<'_, Vec<Batch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// The line of a batch that is complete and has answers.
    fn line(&self) -> Option<Vec<u8>> {
        let is_complete = self.waiting.is_empty() && !self.answers.is_empty();
        is_complete.then(|| serde_json::to_vec(&self.answers).unwrap_or_default())
    }
}
