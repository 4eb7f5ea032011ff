//! One session: its messages on their way in, and its streams on their way out.
//!
//! What belongs to a request goes on the stream of that request; everything else on the session's own.

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

use super::replay::{Replay, StreamId};
use super::watched::Watched;
use crate::layer::{InFlight, batch};

/// How many messages of a client wait to be handled: at least as many as may come together.
const WAITING: usize = batch::MOST;
/// How long a client should wait before it comes back to a stream that broke off.
pub(super) const RETRY: Duration = Duration::from_secs(3);

/// One session.
pub(super) struct Session {
    pub(super) id: SessionId,
    /// The stream of what belongs to no request.
    pub(super) common: StreamId,
    /// The revision that was agreed on.
    pub(super) version: OnceLock<ProtocolVersion>,
    pub(super) closed: CancellationToken,
    pub(super) replay: Replay,
    in_flight: InFlight,
    incoming: mpsc::Sender<ClientJsonRpcMessage>,
    greeting: Mutex<Option<oneshot::Receiver<ServerJsonRpcMessage>>>,
    /// The streams of the requests that are in flight.
    routes: Mutex<HashMap<RequestId, StreamId>>,
    /// How many streams are open.
    pub(super) streams: AtomicUsize,
    /// Those of them that are the session's own, by their age. The youngest gets the messages.
    pub(super) places: Mutex<BTreeSet<u64>>,
    pub(super) next_place: AtomicU64,
    /// The number of the next message for it.
    pub(super) delivered: AtomicU64,
    last_seen: Mutex<Instant>,
}

/// The session is gone, or what was asked for is.
#[derive(Debug, thiserror::Error)]
#[error("the session or the stream is gone")]
pub(crate) struct Gone;

impl Session {
    /// Makes a session, and what its handler reads from and writes to.
    pub(super) fn new(id: SessionId, replay: Replay) -> (Arc<Self>, Wire) {
        let (incoming, outgoing) = mpsc::channel(WAITING);
        let (greet, greeting) = oneshot::channel();
        let session = Arc::new(Self {
            // This answer never comes: the stream ends with the session.
            common: replay.open(&id, 1),
            id,
            version: OnceLock::new(),
            closed: CancellationToken::new(),
            replay,
            in_flight: InFlight::default(),
            incoming,
            greeting: Mutex::new(Some(greeting)),
            routes: Mutex::default(),
            streams: AtomicUsize::new(0),
            places: Mutex::default(),
            next_place: AtomicU64::new(0),
            delivered: AtomicU64::new(1),
            last_seen: Mutex::new(Instant::now()),
        });
        (Arc::clone(&session), Wire { session, incoming: outgoing, greet: Some(greet) })
    }

    /// Passes the handshake on and waits for its answer.
    pub(super) async fn initialize(
        &self,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Gone> {
        let greeting = lock(&self.greeting).take().ok_or(Gone)?;
        self.incoming.send(message).await.map_err(|_| Gone)?;
        greeting.await.map_err(|_| Gone)
    }

    /// Takes what came in one body and has requests in it; the answers come on one stream. A client that goes away
    /// while there is no room for them leaves nothing behind.
    pub(super) async fn take(self: Arc<Self>, messages: Vec<ClientJsonRpcMessage>) -> Result<Watched, Gone> {
        let session = Arc::clone(&self);
        let mut room = session.incoming.reserve_many(messages.len()).await.map_err(|_| Gone)?;
        let requests = messages.iter().filter(|message| matches!(message, JsonRpcMessage::Request(_)));
        let stream = self.replay.open(&self.id, requests.count());
        if self.closed.is_cancelled() {
            self.replay.forget(&self.id);
            return Err(Gone);
        }
        if self.primes() {
            self.replay.add(stream, ServerSseMessage::retry(RETRY));
        }
        for message in messages {
            if self.admits(&message, stream)
                && let Some(room) = room.next()
            {
                room.send(message);
            }
        }
        Ok(Watched::new(self, stream, 1))
    }

    /// Takes note of a message, and says whether the handler gets it; what is refused is answered on the stream.
    fn admits(&self, message: &ClientJsonRpcMessage, stream: StreamId) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                if let Err((id, refusal)) = self.in_flight.received(message) {
                    self.replay.answer(stream, ServerJsonRpcMessage::error(refusal, Some(id)));
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

    /// Takes a message that has no answer.
    pub(super) async fn accept(&self, message: ClientJsonRpcMessage) -> Result<(), Gone> {
        let room = self.incoming.reserve().await.map_err(|_| Gone)?;
        if self.admits(&message, self.common) {
            room.send(message);
        }
        Ok(())
    }

    /// Notes that a request will not be answered.
    fn withdraw(&self, id: &RequestId) {
        self.in_flight.remove(id);
        if let Some(stream) = lock(&self.routes).remove(id) {
            self.replay.withdraw(stream);
        }
    }

    /// Says whether streams begin with an event that says how to come back; clients of older revisions choke on it.
    pub(super) fn primes(&self) -> bool {
        self.version.get().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_11_25.as_str())
    }

    pub(super) fn touch(&self) {
        *lock(&self.last_seen) = Instant::now();
    }

    /// Says whether a request is in flight or a stream is open.
    pub(super) fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || self.streams.load(Ordering::Relaxed) > 0
    }

    /// Says since when it is idle.
    pub(super) fn idle_for(&self) -> Duration {
        if self.is_busy() {
            // It is counted from the end of what goes on.
            self.touch();
        }
        lock(&self.last_seen).elapsed()
    }

    /// Says on which stream a message goes; what is about a request that is done with goes nowhere.
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

/// What the handler of a session reads from and writes to.
pub(crate) struct Wire {
    session: Arc<Session>,
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    /// Takes the answer to the handshake, which has no stream yet.
    greet: Option<oneshot::Sender<ServerJsonRpcMessage>>,
}

impl Wire {
    /// Sends what need not wait; returns the rest with its stream.
    fn send_now(&mut self, item: ServerJsonRpcMessage) -> Option<(StreamId, ServerJsonRpcMessage)> {
        self.session.touch();
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if let Some(greet) = self.greet.take_if(|_| is_answer) {
            if let JsonRpcMessage::Response(response) = &item
                && let ServerResult::InitializeResult(result) = &response.result
            {
                let _ = self.session.version.set(result.protocol_version.clone());
            }
            // Whoever shook hands may be gone again.
            let _ = greet.send(item);
            return None;
        }
        // Before the client can read the answer: it may use the id again at once.
        self.session.in_flight.sent(&item);
        let stream = self.session.route(&item)?;
        if is_answer && stream != self.session.common {
            self.session.replay.answer(stream, item);
            return None;
        }
        Some((stream, item))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.session.closed.cancel();
    }
}

impl Transport<RoleServer> for Wire {
    type Error = Gone;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Gone>> + Send + 'static {
        let waiting = self.send_now(item);
        let replay = self.session.replay.clone();
        async move {
            if let Some((stream, item)) = waiting {
                replay.tell(stream, ServerSseMessage::from_message(item)).await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.session.closed.run_until_cancelled(self.incoming.recv()).await.flatten()
    }

    async fn close(&mut self) -> Result<(), Gone> {
        self.session.closed.cancel();
        Ok(())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::replay::{Bounds, Replay};
    use super::{ClientJsonRpcMessage, Gone, Session, WAITING, Wire};
    use std::sync::Arc;
    use std::task::{Context, Waker};

    fn session() -> (Arc<Session>, Wire) {
        Session::new(Arc::from("a"), Replay::new(Bounds::default()))
    }

    fn message(text: &str) -> ClientJsonRpcMessage {
        serde_json::from_str(text).unwrap()
    }

    fn ping() -> ClientJsonRpcMessage {
        message(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
    }

    /// Says whether the streams are kept that would be those of the session itself and of its first request.
    fn streams(session: &Session) -> [bool; 2] {
        [1, 2].map(|stream| session.replay.find(&session.id, &format!("{stream}~0")).is_some())
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_passed_on_leaves_nothing_behind() {
        let (session, wire) = session();
        drop(wire);
        assert!(matches!(Arc::clone(&session).take(vec![ping()]).await, Err(Gone)));
        assert_eq!((session.is_busy(), streams(&session)), (false, [true, false]));
    }

    #[tokio::test]
    async fn a_client_that_goes_away_before_its_request_is_taken_leaves_nothing_behind() {
        let (session, _wire) = session();
        let notice = message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        for _ in 0..WAITING {
            session.accept(notice.clone()).await.unwrap();
        }
        let mut taking = Box::pin(Arc::clone(&session).take(vec![ping()]));
        assert!(taking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(taking);
        assert_eq!((session.is_busy(), streams(&session)), (false, [true, false]));
    }

    #[tokio::test]
    async fn a_session_that_ended_meanwhile_takes_nothing() {
        let (session, _wire) = session();
        session.closed.cancel();
        assert!(matches!(Arc::clone(&session).take(vec![ping()]).await, Err(Gone)));
        assert_eq!((session.is_busy(), streams(&session)), (false, [false, false]));
    }
}
