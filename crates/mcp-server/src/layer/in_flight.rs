//! The requests of one client that are not answered yet. An id that is in flight is not taken again: the
//! client could not tell the answers apart.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientNotification, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use tokio::sync::Notify;

/// How many requests of one client may be unanswered.
const MOST: usize = 1024;

/// Knows which requests are in flight.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    ids: Arc<Mutex<HashSet<RequestId>>>,
    changed: Arc<Notify>,
}

impl InFlight {
    /// Takes note of what the client sent.
    ///
    /// # Errors
    /// Refuses a request whose id is in flight, and one too many.
    pub(crate) fn received(
        &self,
        message: &RxJsonRpcMessage<RoleServer>,
    ) -> Result<(), (RequestId, ErrorData)> {
        match message {
            JsonRpcMessage::Request(request) => {
                let taken = self.take(request.id.clone());
                taken.map_err(|reason| (request.id.clone(), ErrorData::invalid_request(reason, None)))
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.remove(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes note of what is sent to the client.
    pub(crate) fn sent(&self, message: &TxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Response(response) => self.remove(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.remove(id);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
    }

    /// Says whether every request is answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids().is_empty()
    }

    /// Waits until every request is answered.
    pub(crate) async fn wait(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn take(&self, id: RequestId) -> Result<(), &'static str> {
        let mut ids = self.ids();
        if ids.contains(&id) {
            return Err("a request with this id is in flight");
        }
        if ids.len() >= MOST {
            return Err("too many requests are unanswered; wait for answers, or cancel some");
        }
        ids.insert(id);
        Ok(())
    }

    /// Notes that a request will not be answered.
    pub(crate) fn remove(&self, id: &RequestId) {
        self.ids().remove(id);
        self.changed.notify_waiters();
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
