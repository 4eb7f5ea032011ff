//! The sessions of clients that shook hands: how many there are, when they expire, and what is in flight.
//!
//! The SDK keeps a session alive as long as something passes through it. Here it lives while a request is in
//! flight or a stream is open, and for a while after: a client that waits for a long run is not idle, and one
//! that is gone without a word does not stay for ever.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::sync::mpsc;

use super::replay::{Received, Replay, parse};
use crate::layer::InFlight;

/// How many messages of a request wait for a slow client.
const WAITING: usize = 64;
/// How often is looked for sessions that have expired.
const ROUND: Duration = Duration::from_secs(30);

/// The sessions of one server.
pub(crate) struct Sessions {
    inner: LocalSessionManager,
    replay: Replay,
    known: Mutex<HashMap<SessionId, Arc<Session>>>,
    most: usize,
    idle: Duration,
}

struct Session {
    in_flight: InFlight,
    /// How many streams of its own, apart from requests, are open.
    streams: AtomicUsize,
    /// Which of those streams gets the messages: the last one.
    current: AtomicU64,
    /// The number of the next message for it.
    delivered: AtomicU64,
    last_seen: Mutex<Instant>,
}

impl Sessions {
    pub(super) fn new(most: usize, idle: Duration) -> Arc<Self> {
        let replay = Replay::default();
        let mut inner = LocalSessionManager::default().with_event_store(Arc::new(replay.clone()));
        inner.session_config.keep_alive = None;
        inner.session_config.channel_capacity = WAITING;
        Arc::new(Self { inner, replay, known: Mutex::default(), most, idle })
    }

    /// Says whether there is room for another session.
    pub(super) fn has_room(&self) -> bool {
        self.known().len() < self.most
    }

    fn session(&self, id: &SessionId) -> Arc<Session> {
        let session = self.known().get(id).cloned().unwrap_or_else(|| Arc::new(Session::new()));
        session.touch();
        session
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows what a session says apart from requests. A second stream takes the place of the first, which
    /// stays open and silent: clients fight over streams that are closed on them.
    fn common(&self, id: &SessionId, from: u64) -> Watched {
        let session = self.session(id);
        session.streams.fetch_add(1, Ordering::Relaxed);
        let place = session.current.fetch_add(1, Ordering::Relaxed) + 1;
        let received = self.replay.follow(&common_stream(id), from);
        Watched { inner: Box::pin(received), session, place: Some(place) }
    }
}

/// Closes sessions that nobody uses, for ever.
pub(super) async fn expire(sessions: Arc<Sessions>) {
    let mut rounds = tokio::time::interval(ROUND.min(sessions.idle));
    loop {
        rounds.tick().await;
        let expired: Vec<_> = {
            let known = sessions.known();
            let idle = known.iter().filter(|(_, session)| session.idle_for() >= sessions.idle);
            idle.map(|(id, _)| id.clone()).collect()
        };
        for id in expired {
            let _ = sessions.close_session(&id).await;
        }
    }
}

impl Session {
    fn new() -> Self {
        Self {
            in_flight: InFlight::default(),
            streams: AtomicUsize::new(0),
            current: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            last_seen: Mutex::new(Instant::now()),
        }
    }

    fn touch(&self) {
        *self.last_seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle_for(&self) -> Duration {
        if !self.in_flight.is_empty() || self.streams.load(Ordering::Relaxed) > 0 {
            // It is counted from the end of what goes on.
            self.touch();
        }
        self.last_seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

fn common_stream(id: &SessionId) -> String {
    format!("{id}:common")
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = Noted;

    async fn create_session(&self) -> Result<(SessionId, Noted), Self::Error> {
        let (id, transport) = self.inner.create_session().await?;
        let session = Arc::new(Session::new());
        self.known().insert(id.clone(), Arc::clone(&session));
        Ok((id, Noted { inner: transport, session }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.known().remove(id);
        self.replay.forget(&common_stream(id));
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.session(id);
        if let Err((request, refusal)) = session.in_flight.received(&message) {
            let (sender, receiver) = mpsc::channel(1);
            let refused = ServerJsonRpcMessage::error(refusal, Some(request));
            let _ = sender.try_send(ServerSseMessage::from_message(refused));
            return Ok(Watched { inner: Box::pin(Received(receiver)), session, place: None });
        }
        let inner = Box::pin(self.inner.create_stream(id, message).await?);
        Ok(Watched { inner, session, place: None })
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        // A notification cannot be a duplicate.
        let _ = self.session(id).in_flight.received(&message);
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.common(id, self.session(id).delivered.load(Ordering::Relaxed)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        match parse(&last) {
            // The first event of such a stream has no number of its own.
            None => Ok(self.common(id, self.session(id).delivered.load(Ordering::Relaxed))),
            Some((stream, number)) if stream == common_stream(id) => {
                Ok(self.common(id, number.saturating_add(1)))
            }
            Some(_) => {
                let inner = Box::pin(self.inner.resume(id, last).await?);
                Ok(Watched { inner, session: self.session(id), place: None })
            }
        }
    }
}

/// The transport of a session, noting which requests are answered.
pub(crate) struct Noted {
    inner: SessionTransport,
    session: Arc<Session>,
}

impl Transport<RoleServer> for Noted {
    type Error = <SessionTransport as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.session.in_flight.sent(&item);
        self.session.touch();
        self.inner.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// A stream to a client, and its session.
struct Watched {
    inner: Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>,
    session: Arc<Session>,
    /// Which of the session's own streams it is; none for the stream of a request.
    place: Option<u64>,
}

impl Stream for Watched {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        if self.place.is_some_and(|place| place != self.session.current.load(Ordering::Relaxed)) {
            return Poll::Pending;
        }
        let event = std::task::ready!(self.inner.as_mut().poll_next(context));
        if self.place.is_some()
            && let Some((_, number)) = event.as_ref().and_then(|event| parse(event.event_id.as_deref()?))
        {
            self.session.delivered.fetch_max(number + 1, Ordering::Relaxed);
        }
        Poll::Ready(event)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.place.is_some() {
            self.session.streams.fetch_sub(1, Ordering::Relaxed);
        }
        self.session.touch();
    }
}
