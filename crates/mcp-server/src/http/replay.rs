//! The events of streams, kept for clients that lost their connection and come back.
//!
//! What is kept is bounded: the last events of each stream, and of the streams that ended the last ones, for a
//! few minutes.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use rmcp::model::JsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
};
use tokio::sync::{mpsc, watch};

/// How many events of one stream are kept.
const EVENTS: usize = 512;
/// How many streams that ended are kept, and how long.
const ENDED: usize = 256;
const ENDED_FOR: Duration = Duration::from_secs(300);
/// How many events wait for a client that follows a stream.
const WAITING: usize = 16;

/// Keeps events.
#[derive(Clone, Default)]
pub(super) struct Replay(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    streams: HashMap<String, Log>,
    ended: VecDeque<(Instant, String)>,
}

#[derive(Default)]
struct Log {
    /// The number of the first event that is kept.
    first: u64,
    events: VecDeque<ServerSseMessage>,
    has_ended: bool,
    /// Says that there is more, and ends when the stream is forgotten.
    grown: watch::Sender<()>,
}

/// The stream is not kept, or not any more.
#[derive(Debug, thiserror::Error)]
#[error("the stream of this event is not kept")]
struct Unknown;

impl Replay {
    /// Follows a stream from an event on: what is kept of it, and then what comes, until it ends.
    pub(super) fn follow(&self, stream: &str, from: u64) -> Received {
        let (sender, receiver) = mpsc::channel(WAITING);
        let (replay, stream) = (self.clone(), stream.to_owned());
        tokio::spawn(async move {
            let gone = sender.clone();
            tokio::select! {
                () = gone.closed() => {}
                () = replay.send_on(&stream, from, &sender) => {}
            }
        });
        Received(receiver)
    }

    async fn send_on(&self, stream: &str, mut next: u64, sender: &mpsc::Sender<ServerSseMessage>) {
        let mut grown = self.kept().streams.entry(stream.to_owned()).or_default().grown.subscribe();
        loop {
            let Some((events, has_ended)) = self.since(stream, &mut next) else { return };
            for event in events {
                if sender.send(event).await.is_err() {
                    return;
                }
            }
            if has_ended || grown.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns what is kept from an event on, and whether the stream has ended.
    fn since(&self, stream: &str, next: &mut u64) -> Option<(Vec<ServerSseMessage>, bool)> {
        let kept = self.kept();
        let log = kept.streams.get(stream)?;
        let skipped = usize::try_from(next.saturating_sub(log.first)).unwrap_or(usize::MAX);
        *next = (*next).max(log.first + log.events.len() as u64);
        Some((log.events.iter().skip(skipped).cloned().collect(), log.has_ended))
    }

    /// Forgets a stream.
    pub(super) fn forget(&self, stream: &str) {
        self.kept().streams.remove(stream);
    }

    fn store(&self, stream: &str, event: &ServerSseMessage) -> EventId {
        let mut kept = self.kept();
        let log = kept.streams.entry(stream.to_owned()).or_default();
        let id = event_id(stream, log.first + log.events.len() as u64);
        let mut event = event.clone();
        event.event_id = Some(id.clone());
        let ends =
            matches!(event.message.as_deref(), Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
        log.events.push_back(event);
        if log.events.len() > EVENTS {
            log.events.pop_front();
            log.first += 1;
        }
        log.has_ended |= ends;
        log.grown.send_replace(());
        if ends {
            kept.ended.push_back((Instant::now(), stream.to_owned()));
            kept.sweep();
        }
        id
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn sweep(&mut self) {
        let old = |ended: &VecDeque<(Instant, String)>| {
            ended.len() > ENDED || ended.front().is_some_and(|(at, _)| at.elapsed() > ENDED_FOR)
        };
        while old(&self.ended) {
            if let Some((_, stream)) = self.ended.pop_front() {
                self.streams.remove(&stream);
            }
        }
    }
}

fn event_id(stream: &str, number: u64) -> EventId {
    format!("{stream}~{number}")
}

/// Splits the id of an event into its stream and its number.
pub(super) fn parse(id: &str) -> Option<(&str, u64)> {
    let (stream, number) = id.rsplit_once('~')?;
    Some((stream, number.parse().ok()?))
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl EventStore for Replay {
    fn store_event<'a, 'b, 'c, 'd>(
        &'a self,
        stream: &'b str,
        event: &'c ServerSseMessage,
    ) -> Boxed<'d, Result<EventId, EventStoreError>>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        Box::pin(std::future::ready(Ok(self.store(stream, event))))
    }

    fn replay_events_after<'a, 'b, 'c>(
        &'a self,
        last: &'b str,
    ) -> Boxed<'c, Result<EventStream, EventStoreError>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        let found = parse(last).filter(|(stream, _)| self.kept().streams.contains_key(*stream));
        let stream: Result<EventStream, EventStoreError> = match found {
            Some((stream, number)) => Ok(Box::pin(self.follow(stream, number.saturating_add(1)))),
            None => Err(Unknown.into()),
        };
        Box::pin(std::future::ready(stream))
    }
}

/// What arrives on a channel, as a stream.
pub(super) struct Received(pub(super) mpsc::Receiver<ServerSseMessage>);

impl Stream for Received {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        self.0.poll_recv(context)
    }
}
