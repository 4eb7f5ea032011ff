//! Session of a client: incoming messages and outgoing streams.
//!
//! Messages that belong to a request are sent on the stream of that request, all others on the session's own stream.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, GetExtensions, JsonRpcMessage, ProtocolVersion, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{OriginatingRequestId, RoleServer};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::client_stream::ClientStream;
use super::replay::{ReplayBuffer, StreamId};
use crate::protocol::{InFlight, batch};

/// Maximum number of queued messages of a client: at least one full batch.
const QUEUE_SIZE: usize = batch::MAX_MESSAGES;
/// Time a client should wait before it reconnects to a broken stream.
pub(super) const RETRY: Duration = Duration::from_secs(3);

/// Session of a client.
pub(super) struct Session {
    pub(super) id: SessionId,
    /// The session's own stream, for messages that belong to no request.
    pub(super) common: StreamId,
    /// Negotiated revision.
    pub(super) version: OnceLock<ProtocolVersion>,
    pub(super) closed: CancellationToken,
    pub(super) replay: ReplayBuffer,
    in_flight: InFlight,
    incoming: mpsc::Sender<ClientJsonRpcMessage>,
    handshake_response: Mutex<Option<oneshot::Receiver<ServerJsonRpcMessage>>>,
    /// Streams of the requests in flight.
    routes: Mutex<HashMap<RequestId, StreamId>>,
    /// Number of open streams.
    pub(super) streams: AtomicUsize,
    /// Open connections to the session's own stream, by age. The newest one gets the messages.
    pub(super) common_connections: Mutex<BTreeSet<u64>>,
    pub(super) next_connection: AtomicU64,
    /// Number of the next event to deliver on the session's own stream.
    pub(super) delivered: AtomicU64,
    last_seen: Mutex<Instant>,
}

/// The session or stream no longer exists.
#[derive(Debug, thiserror::Error)]
#[error("the session or stream no longer exists")]
pub(crate) struct SessionClosed;

impl Session {
    /// Creates a session and the transport of its handler.
    pub(super) fn new(id: SessionId, replay: ReplayBuffer) -> (Arc<Self>, SessionTransport) {
        let (incoming, outgoing) = mpsc::channel(QUEUE_SIZE);
        let (handshake, handshake_response) = oneshot::channel();
        let session = Arc::new(Self {
            // The expected answer never arrives: the stream ends with the session.
            common: replay.open(&id, 1),
            id,
            version: OnceLock::new(),
            closed: CancellationToken::new(),
            replay,
            in_flight: InFlight::default(),
            incoming,
            handshake_response: Mutex::new(Some(handshake_response)),
            routes: Mutex::default(),
            streams: AtomicUsize::new(0),
            common_connections: Mutex::default(),
            next_connection: AtomicU64::new(0),
            delivered: AtomicU64::new(1),
            last_seen: Mutex::new(Instant::now()),
        });
        (Arc::clone(&session), SessionTransport { session, incoming: outgoing, handshake: Some(handshake) })
    }

    /// Forwards the handshake and waits for the response.
    pub(super) async fn initialize(
        &self,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionClosed> {
        let handshake_response = lock(&self.handshake_response).take().ok_or(SessionClosed)?;
        self.incoming.send(message).await.map_err(|_| SessionClosed)?;
        handshake_response.await.map_err(|_| SessionClosed)
    }

    /// Accepts the messages of one body with requests, and returns the stream of the responses. A client that
    /// disconnects while the queue is full leaves no state behind.
    pub(super) async fn take(
        self: Arc<Self>,
        messages: Vec<ClientJsonRpcMessage>,
    ) -> Result<ClientStream, SessionClosed> {
        let session = Arc::clone(&self);
        let mut room = session.incoming.reserve_many(messages.len()).await.map_err(|_| SessionClosed)?;
        let requests = messages.iter().filter(|message| matches!(message, JsonRpcMessage::Request(_)));
        let stream = self.replay.open(&self.id, requests.count());
        if self.closed.is_cancelled() {
            self.replay.remove_session(&self.id);
            return Err(SessionClosed);
        }
        if self.sends_priming_event() {
            self.replay.add(stream, ServerSseMessage::retry(RETRY));
        }
        for message in messages {
            if self.admits(&message, stream)
                && let Some(room) = room.next()
            {
                room.send(message);
            }
        }
        Ok(ClientStream::new(self, stream, 1))
    }

    /// Records a message. Returns `true` if the handler should get it; a rejected request is answered on the stream.
    fn admits(&self, message: &ClientJsonRpcMessage, stream: StreamId) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                if let Err((id, rejection)) = self.in_flight.received(message) {
                    self.replay.answer(stream, ServerJsonRpcMessage::error(rejection, Some(id)));
                    return false;
                }
                lock(&self.routes).insert(request.id.clone(), stream);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.withdraw(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        true
    }

    /// Accepts a message without a response.
    pub(super) async fn accept(&self, message: ClientJsonRpcMessage) -> Result<(), SessionClosed> {
        let room = self.incoming.reserve().await.map_err(|_| SessionClosed)?;
        if self.admits(&message, self.common) {
            room.send(message);
        }
        Ok(())
    }

    /// Removes a request that will not be answered.
    fn withdraw(&self, id: &RequestId) {
        self.in_flight.remove(id);
        if let Some(stream) = lock(&self.routes).remove(id) {
            self.replay.withdraw(stream);
        }
    }

    /// Returns `true` if streams start with an event for resuming them, which clients of older revisions cannot handle.
    pub(super) fn sends_priming_event(&self) -> bool {
        self.version.get().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_11_25.as_str())
    }

    pub(super) fn touch(&self) {
        *lock(&self.last_seen) = Instant::now();
    }

    /// Returns `true` if a request is in flight or a stream is open.
    pub(super) fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || self.streams.load(Ordering::Relaxed) > 0
    }

    /// Returns how long the session has been idle.
    pub(super) fn idle_for(&self) -> Duration {
        if self.is_busy() {
            // Idle time starts when the last request or stream ends.
            self.touch();
        }
        lock(&self.last_seen).elapsed()
    }

    /// Returns the stream of a message, or `None` if its request is no longer in flight.
    fn route(&self, item: &ServerJsonRpcMessage) -> Option<StreamId> {
        let stream_of = |id: &RequestId| lock(&self.routes).get(id).copied();
        let origin = |extensions: &dyn GetExtensions| {
            extensions.extensions().get::<OriginatingRequestId>().map(|origin| stream_of(&origin.0))
        };
        match item {
            JsonRpcMessage::Response(response) => lock(&self.routes).remove(&response.id),
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => lock(&self.routes).remove(id),
                None => Some(self.common),
            },
            JsonRpcMessage::Request(request) => {
                Some(origin(&request.request).flatten().unwrap_or(self.common))
            }
            JsonRpcMessage::Notification(notification) => {
                origin(&notification.notification).unwrap_or(Some(self.common))
            }
        }
    }
}

/// Transport of a session's handler.
pub(crate) struct SessionTransport {
    session: Arc<Session>,
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    /// Receiver of the handshake response, which has no stream yet.
    handshake: Option<oneshot::Sender<ServerJsonRpcMessage>>,
}

impl SessionTransport {
    /// Sends a message that need not wait, or returns it with its stream.
    fn send_now(&mut self, item: ServerJsonRpcMessage) -> Option<(StreamId, ServerJsonRpcMessage)> {
        self.session.touch();
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if let Some(handshake) = self.handshake.take_if(|_| is_answer) {
            if let JsonRpcMessage::Response(response) = &item
                && let ServerResult::InitializeResult(result) = &response.result
            {
                let _ = self.session.version.set(result.protocol_version.clone());
            }
            // The client may have disconnected during the handshake.
            let _ = handshake.send(item);
            return None;
        }
        // This must happen before the client can read the response: it may reuse the id immediately.
        self.session.in_flight.sent(&item);
        let stream = self.session.route(&item)?;
        if is_answer && stream != self.session.common {
            self.session.replay.answer(stream, item);
            return None;
        }
        Some((stream, item))
    }
}

impl Drop for SessionTransport {
    fn drop(&mut self) {
        self.session.closed.cancel();
    }
}

impl Transport<RoleServer> for SessionTransport {
    type Error = SessionClosed;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SessionClosed>> + Send + 'static {
        let queued = self.send_now(item);
        let replay = self.session.replay.clone();
        async move {
            if let Some((stream, item)) = queued {
                replay.send(stream, ServerSseMessage::from_message(item)).await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.session.closed.run_until_cancelled(self.incoming.recv()).await.flatten()
    }

    async fn close(&mut self) -> Result<(), SessionClosed> {
        self.session.closed.cancel();
        Ok(())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::replay::{Bounds, ReplayBuffer};
    use super::{ClientJsonRpcMessage, QUEUE_SIZE, Session, SessionClosed, SessionTransport};
    use std::sync::Arc;
    use std::task::{Context, Waker};

    fn session() -> (Arc<Session>, SessionTransport) {
        Session::new(Arc::from("a"), ReplayBuffer::new(Bounds::default()))
    }

    fn message(text: &str) -> ClientJsonRpcMessage {
        serde_json::from_str(text).unwrap()
    }

    fn ping() -> ClientJsonRpcMessage {
        message(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
    }

    /// Returns whether the session's own stream and the stream of its first request exist.
    fn streams(session: &Session) -> [bool; 2] {
        [1, 2].map(|stream| session.replay.find(&session.id, &format!("{stream}~0")).is_some())
    }

    #[tokio::test]
    async fn undeliverable_request_leaves_no_state() {
        let (session, wire) = session();
        drop(wire);
        assert!(matches!(Arc::clone(&session).take(vec![ping()]).await, Err(SessionClosed)));
        assert_eq!((session.is_busy(), streams(&session)), (false, [true, false]));
    }

    #[tokio::test]
    async fn dropped_request_leaves_no_state() {
        let (session, _wire) = session();
        let notice = message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        for _ in 0..QUEUE_SIZE {
            session.accept(notice.clone()).await.unwrap();
        }
        let mut taking = Box::pin(Arc::clone(&session).take(vec![ping()]));
        assert!(taking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(taking);
        assert_eq!((session.is_busy(), streams(&session)), (false, [true, false]));
    }

    #[tokio::test]
    async fn closed_session_rejects_requests() {
        let (session, _wire) = session();
        session.closed.cancel();
        assert!(matches!(Arc::clone(&session).take(vec![ping()]).await, Err(SessionClosed)));
        assert_eq!((session.is_busy(), streams(&session)), (false, [false, false]));
    }
}
