//! One request as the service sees it: who asks, what the client can do, and how to reach it meanwhile.

#![expect(deprecated, reason = "clients of older revisions ask for log messages and are asked for samples")]

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
use super::{Notices, Progress, Tasks};

/// The two kinds of revisions of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: a handshake, sessions, and requests in both directions.
    Legacy,
    /// From 2026-07-28: every request stands for itself.
    Modern,
}

/// What the layer knows besides the request.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) notices: Notices,
    pub(super) tasks: Tasks,
    pub(super) seal: Arc<dyn AsSeal>,
    pub(super) level: Arc<Level>,
}

/// The seal of the layer, whatever it serves.
pub(super) trait AsSeal: Send + Sync {
    fn seal(&self) -> &Seal;
}

/// The least level of log messages that a legacy client wants.
pub(super) struct Level(Mutex<LoggingLevel>);

/// One request.
#[derive(Clone)]
pub struct Request {
    context: RequestContext<RoleServer>,
    around: Surroundings,
    /// What a sealed state is bound to: the request without what its rounds add.
    binding: Vec<u8>,
}

impl Request {
    pub(super) fn new(context: RequestContext<RoleServer>, around: Surroundings, binding: Vec<u8>) -> Self {
        Self { context, around, binding }
    }

    /// Says where the client stands in a trace, if it does.
    #[must_use]
    pub fn trace(&self) -> Option<Arc<TraceContext>> {
        let meta = &self.context.meta;
        TraceContext::parse(meta.get_traceparent()?, meta.get_tracestate()).map(Arc::new)
    }

    /// Is cancelled when the client wants no answer any more.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.context.ct
    }

    /// Says which kind of revision the client speaks.
    #[must_use]
    pub fn era(&self) -> Era {
        era(self.context.protocol_version().as_ref())
    }

    /// Returns what the client can do.
    #[must_use]
    pub fn client(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Reaches the client.
    #[must_use]
    pub fn peer(&self) -> &Peer<RoleServer> {
        &self.context.peer
    }

    /// Tells progress, if the client asked for it.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::new(self.context.meta.get_progress_token(), self.context.peer.clone(), self.origin())
    }

    /// Marks what belongs to this request, so that it goes the way of its answer.
    fn origin(&self) -> OriginatingRequestId {
        OriginatingRequestId(self.context.id.clone())
    }

    /// Says whether the client wants log messages of this level. A modern client says so with each request.
    #[must_use]
    pub fn wants_log(&self, level: LoggingLevel) -> bool {
        let least = match self.era() {
            Era::Legacy => Some(self.around.level.get()),
            Era::Modern => self.context.meta.log_level(),
        };
        least.is_some_and(|least| severity(level) >= severity(least))
    }

    /// Sends a log message, if the client wants it.
    pub async fn log(&self, level: LoggingLevel, data: Value) {
        if self.wants_log(level) {
            // A client that is gone needs no log.
            let mut notice =
                LoggingMessageNotification::new(LoggingMessageNotificationParam::new(level, data));
            notice.extensions.insert(self.origin());
            let _ = self.context.peer.send_notification(notice.into()).await;
        }
    }

    /// Asks a legacy client something and waits for its answer.
    ///
    /// # Errors
    /// Fails when the client refuses, is gone, or is a modern one, which is asked through the result instead.
    pub async fn ask(&self, request: ServerRequest) -> Result<ClientResult, ErrorData> {
        let answer = self.context.peer.send_request(request).await;
        answer.map_err(|error| ErrorData::internal_error(format!("the client did not answer: {error}"), None))
    }

    /// Seals state for the client to carry to the next round of this request.
    ///
    /// # Errors
    /// Fails when the state cannot be written as JSON.
    pub fn seal<T: Serialize>(&self, state: &T) -> Result<String, ErrorData> {
        self.around.seal.seal().close(state, &self.binding)
    }

    /// Opens the state of the round before.
    ///
    /// # Errors
    /// Fails when it is not what this server sealed for this request.
    pub fn open<T: DeserializeOwned>(&self, sealed: &str) -> Result<T, ErrorData> {
        self.around.seal.seal().open(sealed, &self.binding)
    }

    /// Returns where tasks are kept, if the client can deal with one as an answer. In older revisions a result has
    /// no type, and clients that declare the extension take a task for a broken result.
    #[must_use]
    pub fn tasks(&self) -> Option<&Tasks> {
        let can = self.era() == Era::Modern && self.client().supports_tasks();
        can.then_some(&self.around.tasks)
    }

    /// Tells other clients what changed.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.around.notices
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

/// Says which kind of revision this is; before any is agreed on, the older one.
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
