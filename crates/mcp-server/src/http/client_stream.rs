//! Connection of a client to a stream of its session.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures_core::Stream;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;

use super::replay::{ReplayReader, StreamId, event_id};
use super::session::{RETRY, Session, lock};

/// Stream to a client.
pub(super) struct ClientStream {
    session: Arc<Session>,
    following: ReplayReader,
    /// Event that is sent before all others.
    first: Option<ServerSseMessage>,
    /// Position among the connections to the session's own stream, or `None` for the stream of a request.
    position: Option<u64>,
    /// Whether a newer connection gets the messages instead.
    is_silent: bool,
}

impl ClientStream {
    /// Creates the stream of a request.
    pub(super) fn new(session: Arc<Session>, stream: StreamId, from: u64) -> Self {
        session.streams.fetch_add(1, Ordering::Relaxed);
        let following = session.replay.follow(stream, from);
        Self { session, following, first: None, position: None, is_silent: false }
    }

    /// Creates a connection to the session's own stream, starting at an event number or at the first undelivered event.
    /// A second connection replaces the first one, which stays open but silent: if it were closed, clients would
    /// reconnect and compete for the stream.
    pub(super) fn common(session: &Arc<Session>, from: Option<u64>) -> Self {
        let next = || session.delivered.load(Ordering::Relaxed).max(session.replay.first(session.common));
        let mut connection = Self::new(Arc::clone(session), session.common, from.unwrap_or_else(next));
        let position = session.next_connection.fetch_add(1, Ordering::Relaxed);
        lock(&session.common_connections).insert(position);
        connection.position = Some(position);
        if from.is_none() && session.sends_priming_event() {
            let id = event_id(session.common, connection.following.position() - 1);
            connection.first = Some(ServerSseMessage::priming(id, RETRY));
        }
        connection
    }
}

impl Stream for ClientStream {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.position.is_some() && self.position != lock(&self.session.common_connections).last().copied()
        {
            self.is_silent = true;
            return self.following.poll_removed(context).map(|()| None);
        }
        if std::mem::take(&mut self.is_silent) {
            let delivered = self.session.delivered.load(Ordering::Relaxed);
            self.following.skip_to(delivered);
        }
        let event = std::task::ready!(Pin::new(&mut self.following).poll_next(context));
        if self.position.is_some() {
            self.session.delivered.fetch_max(self.following.position(), Ordering::Relaxed);
        }
        Poll::Ready(event)
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        self.session.streams.fetch_sub(1, Ordering::Relaxed);
        if let Some(position) = self.position {
            lock(&self.session.common_connections).remove(&position);
            // The previous connection gets the messages again.
            self.session.replay.wake(self.following.stream);
        }
        self.session.touch();
    }
}
