//! Request as the service sees it: the client, its capabilities, and how to reach it during the request.

#![expect(
    deprecated,
    reason = "clients of older revisions request log messages and receive sampling requests"
)]

use std::sync::{Arc, Mutex, PoisonError};

use meerkat::TraceContext;
use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientResult, LoggingLevel, LoggingMessageNotification,
    LoggingMessageNotificationParam, ProtocolVersion, ServerRequest,
};
use rmcp::service::{OriginatingRequestId, Peer, RequestContext, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::state::Seal;
use super::{Notifier, Progress, Tasks};

/// Protocol era: revisions with the same communication model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: a handshake, sessions, and requests in both directions.
    Legacy,
    /// From 2026-07-28: every request is self-contained.
    Modern,
}

/// Services available to a request.
#[derive(Clone)]
pub(super) struct RequestServices {
    pub(super) notices: Notifier,
    pub(super) tasks: Tasks,
    pub(super) seal: Arc<dyn AsSeal>,
    pub(super) level: Arc<Level>,
}

/// Access to the seal, independent of the service.
pub(super) trait AsSeal: Send + Sync {
    fn seal(&self) -> &Seal;
}

/// Minimum level of log messages for a legacy client.
pub(super) struct Level(Mutex<LoggingLevel>);

/// Request of a client.
#[derive(Clone)]
pub struct Request {
    context: RequestContext<RoleServer>,
    services: RequestServices,
    /// Data that a sealed state is bound to: the request without what later rounds add.
    binding: Vec<u8>,
}

impl Request {
    pub(super) fn new(
        context: RequestContext<RoleServer>,
        services: RequestServices,
        binding: Vec<u8>,
    ) -> Self {
        Self { context, services, binding }
    }

    /// Returns the client's trace context, if any.
    #[must_use]
    pub fn trace(&self) -> Option<Arc<TraceContext>> {
        let meta = &self.context.meta;
        TraceContext::parse(meta.get_traceparent()?, meta.get_tracestate()).map(Arc::new)
    }

    /// Returns the token that is cancelled when the client cancels the request.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.context.ct
    }

    /// Returns the protocol era of the client.
    #[must_use]
    pub fn era(&self) -> Era {
        era(self.context.protocol_version().as_ref())
    }

    /// Returns the client's capabilities.
    #[must_use]
    pub fn client(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Returns the connection to the client.
    #[must_use]
    pub fn peer(&self) -> &Peer<RoleServer> {
        &self.context.peer
    }

    /// Returns a progress reporter, which does nothing unless the client asked for progress.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::new(self.context.meta.get_progress_token(), self.context.peer.clone(), self.origin())
    }

    /// Returns the marker that routes messages of this request to the same stream as its response.
    fn origin(&self) -> OriginatingRequestId {
        OriginatingRequestId(self.context.id.clone())
    }

    /// Returns `true` if the client wants log messages of this level. Modern clients set the level in each request.
    #[must_use]
    pub fn wants_log(&self, level: LoggingLevel) -> bool {
        let minimum = match self.era() {
            Era::Legacy => Some(self.services.level.get()),
            Era::Modern => self.context.meta.log_level(),
        };
        minimum.is_some_and(|minimum| severity(level) >= severity(minimum))
    }

    /// Sends a log message, if the client wants it.
    pub async fn log(&self, level: LoggingLevel, data: Value) {
        if self.wants_log(level) {
            // A disconnected client needs no log.
            let mut notice =
                LoggingMessageNotification::new(LoggingMessageNotificationParam::new(level, data));
            notice.extensions.insert(self.origin());
            let _ = self.context.peer.send_notification(notice.into()).await;
        }
    }

    /// Sends a request to a legacy client and waits for its response.
    ///
    /// # Errors
    /// Returns an error if the client rejects the request, has disconnected, or is modern: a modern client is asked
    /// through the result instead.
    pub async fn ask(&self, request: ServerRequest) -> Result<ClientResult, ErrorData> {
        let answer = self.context.peer.send_request(request).await;
        answer.map_err(|error| ErrorData::internal_error(format!("the client did not answer: {error}"), None))
    }

    /// Seals state for the client to carry to the next round of this request.
    ///
    /// # Errors
    /// Returns an error if the state cannot be serialized as JSON.
    pub fn seal<T: Serialize>(&self, state: &T) -> Result<String, ErrorData> {
        self.services.seal.seal().close(state, &self.binding)
    }

    /// Opens the state of the previous round.
    ///
    /// # Errors
    /// Returns an error unless this server sealed the state for this request.
    pub fn open<T: DeserializeOwned>(&self, sealed: &str) -> Result<T, ErrorData> {
        self.services.seal.seal().open(sealed, &self.binding)
    }

    /// Returns the task store, if the client accepts a task as a response. In older revisions, results have no type,
    /// and even clients that declare the extension treat a task as a malformed result.
    #[must_use]
    pub fn tasks(&self) -> Option<&Tasks> {
        let is_supported = self.era() == Era::Modern && self.client().supports_tasks();
        is_supported.then_some(&self.services.tasks)
    }

    /// Returns the notifier for other clients.
    #[must_use]
    pub fn notices(&self) -> &Notifier {
        &self.services.notices
    }
}

impl Level {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LoggingLevel::Info))
    }

    pub(super) fn set(&self, level: LoggingLevel) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    fn get(&self) -> LoggingLevel {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the era of a revision; `Legacy` before one is negotiated.
pub(super) fn era(version: Option<&ProtocolVersion>) -> Era {
    if version.is_some_and(|version| !version.has_initialize()) { Era::Modern } else { Era::Legacy }
}

fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
