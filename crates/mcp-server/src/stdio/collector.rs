//! Responses to batches: each batch is answered with one line, once its last response is available.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

/// Collects the responses to batches.
#[derive(Clone, Default)]
pub(super) struct BatchCollector(Arc<Mutex<Vec<Batch>>>);

#[derive(Default)]
struct Batch {
    waiting: HashSet<RequestId>,
    answers: Vec<Value>,
}

/// Result of adding a message to the client.
pub(super) enum Gathered {
    /// A line to write: a single message, or a batch completed by it.
    Line(Vec<u8>),
    /// The message waits for the rest of its batch.
    Waiting,
}

impl BatchCollector {
    /// Starts a batch with the accepted requests and the responses to the rejected ones.
    pub(super) fn begin(&self, requests: HashSet<RequestId>, answers: Vec<Value>) -> Option<Vec<u8>> {
        let batch = Batch { waiting: requests, answers };
        let line = batch.line();
        if !batch.waiting.is_empty() {
            self.batches().push(batch);
        }
        line
    }

    /// Encodes a message as a line, unless it belongs to an incomplete batch.
    pub(super) fn send(&self, message: &ServerJsonRpcMessage) -> Gathered {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let answer = || serde_json::to_value(message).unwrap_or_default();
        match id.and_then(|id| self.complete(id, answer)) {
            None => Gathered::Line(serde_json::to_vec(message).unwrap_or_default()),
            Some(None) => Gathered::Waiting,
            Some(Some(line)) => Gathered::Line(line),
        }
    }

    /// Stops waiting for a cancelled request.
    pub(super) fn cancel(&self, id: &RequestId) -> Option<Vec<u8>> {
        self.complete(id, || Value::Null).flatten()
    }

    /// Records the response to a request of a batch; null means that there is none.
    fn complete(&self, id: &RequestId, answer: impl FnOnce() -> Value) -> Option<Option<Vec<u8>>> {
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
    /// Returns the line of a complete batch with responses.
    fn line(&self) -> Option<Vec<u8>> {
        let is_complete = self.waiting.is_empty() && !self.answers.is_empty();
        is_complete.then(|| serde_json::to_vec(&self.answers).unwrap_or_default())
    }
}
