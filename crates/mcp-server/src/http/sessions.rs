//! Sessions of clients that completed the handshake: their number, their expiry, and the routing of messages.
//!
//! A session lives while a request is in flight or a stream is open, and for some time after that: a client that waits
//! for a long run is not idle, and one that disconnects silently expires. At the limit, a new session evicts the one
//! that has been idle the longest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use futures_core::Stream;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

use super::client_stream::ClientStream;
use super::replay::{Bounds, ReplayBuffer};
use super::session::{Session, SessionClosed, SessionTransport};

/// Interval between checks for expired sessions and events.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

/// Sessions of one server.
pub(crate) struct Sessions {
    replay: ReplayBuffer,
    known: Mutex<HashMap<SessionId, Arc<Session>>>,
    max_sessions: usize,
    idle: Duration,
}

/// All messages of the batch whose first request is passed to the SDK.
#[derive(Clone)]
pub(super) struct Batch(pub(super) Arc<Vec<ClientJsonRpcMessage>>);

impl Sessions {
    pub(super) fn new(max_sessions: usize, idle: Duration) -> Arc<Self> {
        Arc::new(Self {
            replay: ReplayBuffer::new(Bounds::default()),
            known: Mutex::default(),
            max_sessions,
            idle,
        })
    }

    /// Makes room for another session, evicting an idle one if needed. Returns `false` if all are busy.
    pub(super) fn make_room(&self) -> bool {
        let longest = {
            let known = self.known();
            if known.len() < self.max_sessions {
                return true;
            }
            let idle = known.values().filter(|session| !session.is_busy());
            idle.max_by_key(|session| session.idle_for()).map(|session| Arc::clone(&session.id))
        };
        longest.map(|id| self.end(&id)).is_some()
    }

    /// Returns `true` if a stream can be resumed, or if the session is unknown.
    pub(super) fn can_resume(&self, id: &str, last: &str) -> bool {
        // An unknown session is reported separately.
        self.known().get(id).is_none_or(|session| self.replay.find(&session.id, last).is_some())
    }

    /// Returns the negotiated revision of a session.
    pub(super) fn version(&self, id: &str) -> Option<ProtocolVersion> {
        self.known().get(id)?.version.get().cloned()
    }

    fn session(&self, id: &SessionId) -> Result<Arc<Session>, SessionClosed> {
        let session = self.known().get(id).cloned().ok_or(SessionClosed)?;
        session.touch();
        Ok(session)
    }

    fn end(&self, id: &SessionId) {
        if let Some(session) = self.known().remove(id) {
            session.closed.cancel();
        }
        self.replay.remove_session(id);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes idle sessions and removes expired events, forever.
pub(super) async fn expire(sessions: Arc<Sessions>) {
    let mut ticks = tokio::time::interval(EXPIRY_INTERVAL.min(sessions.idle));
    loop {
        ticks.tick().await;
        let expired: Vec<_> = {
            let known = sessions.known();
            let idle = known.values().filter(|session| session.idle_for() >= sessions.idle);
            idle.map(|session| Arc::clone(&session.id)).collect()
        };
        expired.iter().for_each(|id| sessions.end(id));
        sessions.replay.sweep();
    }
}

/// Returns all messages of the body that a message arrived in.
fn batch_messages(message: ClientJsonRpcMessage) -> Vec<ClientJsonRpcMessage> {
    let parts = match &message {
        JsonRpcMessage::Request(request) => request.request.extensions().get::<Parts>(),
        _ => None,
    };
    match parts.and_then(|parts| parts.extensions.get::<Batch>()) {
        Some(Batch(all)) => all.to_vec(),
        None => vec![message],
    }
}

impl SessionManager for Sessions {
    type Error = SessionClosed;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, SessionTransport), SessionClosed> {
        let id: SessionId = uuid::Uuid::new_v4().to_string().into();
        let (session, wire) = Session::new(Arc::clone(&id), self.replay.clone());
        self.known().insert(Arc::clone(&id), session);
        Ok((id, wire))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionClosed> {
        self.session(id)?.initialize(message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionClosed> {
        Ok(self.known().contains_key(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionClosed> {
        self.end(id);
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionClosed> {
        self.session(id)?.take(batch_messages(message)).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionClosed> {
        self.session(id)?.accept(message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionClosed> {
        Ok(ClientStream::common(&self.session(id)?, None))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionClosed> {
        let session = self.session(id)?;
        let (stream, from) = self.replay.find(id, &last).ok_or(SessionClosed)?;
        let is_common = stream == session.common;
        Ok(if is_common {
            ClientStream::common(&session, Some(from))
        } else {
            ClientStream::new(session, stream, from)
        })
    }
}
