//! A stream of a session on its way to a client.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures_core::Stream;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;

use super::replay::{Following, StreamId, event_id};
use super::session::{RETRY, Session, lock};

/// A stream to a client.
pub(super) struct Watched {
    session: Arc<Session>,
    following: Following,
    /// What is sent before anything else.
    first: Option<ServerSseMessage>,
    /// Which of the session's own streams it is; none for the stream of a request.
    place: Option<u64>,
    /// Whether another one has its place.
    is_silent: bool,
}

impl Watched {
    /// The stream of a request.
    pub(super) fn new(session: Arc<Session>, stream: StreamId, from: u64) -> Self {
        session.streams.fetch_add(1, Ordering::Relaxed);
        let following = session.replay.follow(stream, from);
        Self { session, following, first: None, place: None, is_silent: false }
    }

    /// What a session says apart from requests, from a number on or as far as it was not delivered yet. A second
    /// stream takes the place of the first, which stays open and silent: clients fight over streams that are
    /// closed on them.
    pub(super) fn common(session: &Arc<Session>, from: Option<u64>) -> Self {
        let next = || session.delivered.load(Ordering::Relaxed).max(session.replay.first(session.common));
        let mut watched = Self::new(Arc::clone(session), session.common, from.unwrap_or_else(next));
        let place = session.next_place.fetch_add(1, Ordering::Relaxed);
        lock(&session.places).insert(place);
        watched.place = Some(place);
        if from.is_none() && session.primes() {
            let id = event_id(session.common, watched.following.position() - 1);
            watched.first = Some(ServerSseMessage::priming(id, RETRY));
        }
        watched
    }
}

impl Stream for Watched {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.place.is_some() && self.place != lock(&self.session.places).last().copied() {
            self.is_silent = true;
            return self.following.poll_gone(context).map(|()| None);
        }
        if std::mem::take(&mut self.is_silent) {
            let delivered = self.session.delivered.load(Ordering::Relaxed);
            self.following.skip_to(delivered);
        }
        let event = std::task::ready!(Pin::new(&mut self.following).poll_next(context));
        if self.place.is_some() {
            self.session.delivered.fetch_max(self.following.position(), Ordering::Relaxed);
        }
        Poll::Ready(event)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.session.streams.fetch_sub(1, Ordering::Relaxed);
        if let Some(place) = self.place {
            lock(&self.session.places).remove(&place);
            // The one before it takes its place again.
            self.session.replay.wake(self.following.stream);
        }
        self.session.touch();
    }
}
