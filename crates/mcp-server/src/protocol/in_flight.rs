//! Unanswered requests of one client. An id that is in flight cannot be reused: the client could not match the
//! responses.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientNotification, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use tokio::sync::Notify;

/// Maximum number of unanswered requests per client.
const MAX_IN_FLIGHT: usize = 1024;

/// Set of requests in flight.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    ids: Arc<Mutex<HashSet<RequestId>>>,
    changed: Arc<Notify>,
}

impl InFlight {
    /// Records a message from the client.
    ///
    /// # Errors
    /// Returns an error if the request's id is already in flight or too many requests are.
    pub(crate) fn received(
        &self,
        message: &RxJsonRpcMessage<RoleServer>,
    ) -> Result<(), (RequestId, ErrorData)> {
        match message {
            JsonRpcMessage::Request(request) => {
                let result = self.take(request.id.clone());
                result.map_err(|reason| (request.id.clone(), ErrorData::invalid_request(reason, None)))
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

    /// Records a message sent to the client.
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

    /// Returns `true` if every request is answered.
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
            return Err("a request with this id is already in flight");
        }
        if ids.len() >= MAX_IN_FLIGHT {
            return Err("too many requests in flight; wait for responses, or cancel some");
        }
        ids.insert(id);
        Ok(())
    }

    /// Removes a request that will not be answered.
    pub(crate) fn remove(&self, id: &RequestId) {
        self.ids().remove(id);
        self.changed.notify_waiters();
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
