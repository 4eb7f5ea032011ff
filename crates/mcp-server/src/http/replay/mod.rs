//! Replay buffer for the events of session streams, for clients that lose their connection and reconnect.
//!
//! All messages to a client of a session go to the log of a stream, and the stream's readers read them from there. A
//! change is not repeated while its notification is unread, and only its latest notification is kept. All logs together are bounded in time and in bytes: the
//! oldest events are dropped first, also those that a slow client has not read yet. A log is removed with its session,
//! or with its request if that is cancelled, and is never restored. A client that reads on at a dropped event gets the
//! number of missing events.

#![expect(deprecated, reason = "clients of older revisions are notified by log messages")]

mod log;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use rmcp::model::{
    JsonRpcMessage, LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use serde_json::json;

use log::Log;

/// Memory cost of an event, and of each value in it, in addition to its text.
const OVERHEAD: usize = 512;
const VALUE_OVERHEAD: usize = 128;

/// Maximum number of errors that are skipped to find an event to drop.
const MAX_KEPT: usize = 1024;

/// Identifier of a stream.
pub(super) type StreamId = u64;

/// Limits of the replay buffer.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// Maximum number of events per stream.
    pub(super) events: usize,
    /// Maximum number of bytes per stream, unless a single event is longer.
    pub(super) each: usize,
    /// Maximum number of bytes of all streams.
    pub(super) total: usize,
    /// Maximum number of bytes of all streams that have ended and were read.
    pub(super) read: usize,
    /// Time for which events are retained.
    pub(super) time: Duration,
    /// Time without a read after which writers no longer wait for a client.
    pub(super) stall_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            events: 1024,
            each: 4 * 1024 * 1024,
            total: 64 * 1024 * 1024,
            read: 4 * 1024 * 1024,
            time: Duration::from_secs(300),
            stall_timeout: Duration::from_secs(30),
        }
    }
}

/// Buffer of events for replay.
#[derive(Clone)]
pub(super) struct ReplayBuffer(Arc<Mutex<State>>);

struct State {
    bounds: Bounds,
    next: StreamId,
    logs: HashMap<StreamId, Log>,
    /// Total size of all logs.
    bytes: usize,
    /// All events, oldest first, and some that were dropped already.
    order: VecDeque<(StreamId, u64)>,
    /// Length of `order` at which those that were dropped are removed from it.
    compact_at: usize,
    /// Streams that have ended and were read, with their sizes, and some that were removed already.
    read: VecDeque<(StreamId, usize)>,
    /// Sum of the sizes of `read`.
    read_bytes: usize,
}

impl ReplayBuffer {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (logs, order, read) = (HashMap::new(), VecDeque::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(State {
            bounds,
            next: 1,
            logs,
            bytes: 0,
            order,
            compact_at: 0,
            read,
            read_bytes: 0,
        })))
    }

    /// Creates a stream that ends after `answers` responses.
    pub(super) fn open(&self, session: &SessionId, answers: usize) -> StreamId {
        let mut state = self.state();
        let stream = state.next;
        state.next += 1;
        state.logs.insert(stream, Log::new(Arc::clone(session), answers));
        stream
    }

    /// Adds an event without waiting for readers.
    pub(super) fn add(&self, stream: StreamId, event: ServerSseMessage) {
        let bytes = size(&event);
        self.state().push(stream, event, bytes);
    }

    /// Adds an event once the readers of the stream have read enough of the earlier ones, or are too slow to wait for.
    pub(super) async fn send(&self, stream: StreamId, event: ServerSseMessage) {
        let bytes = size(&event);
        loop {
            let (mut room, stall_timeout) = {
                let mut state = self.state();
                let stall_timeout = state.bounds.stall_timeout;
                let Some(log) = state.logs.get(&stream) else { return };
                if log.has_room() {
                    state.push(stream, event, bytes);
                    return;
                }
                (log.room.subscribe(), stall_timeout)
            };
            if tokio::time::timeout(stall_timeout, room.changed()).await.is_err()
                && let Some(log) = self.state().logs.get_mut(&stream)
            {
                log.is_stalled = true;
            }
        }
    }

    /// Adds a response; the stream ends after the last one.
    pub(super) fn answer(&self, stream: StreamId, answer: ServerJsonRpcMessage) {
        let event = ServerSseMessage::from_message(answer);
        let bytes = size(&event);
        let mut state = self.state();
        if let Some(log) = state.logs.get_mut(&stream) {
            log.unanswered = log.unanswered.saturating_sub(1);
            log.has_answers = true;
        }
        state.push(stream, event, bytes);
        state.end_if_answered(stream);
    }

    /// Expects one response less, and removes a stream that will have none.
    pub(super) fn withdraw(&self, stream: StreamId) {
        let mut state = self.state();
        let Some(log) = state.logs.get_mut(&stream) else { return };
        log.unanswered = log.unanswered.saturating_sub(1);
        if log.unanswered == 0 && !log.has_answers {
            state.bytes -= log.bytes;
            state.logs.remove(&stream);
        }
        state.end_if_answered(stream);
    }

    /// Removes the streams of a session.
    pub(super) fn remove_session(&self, session: &SessionId) {
        let mut state = self.state();
        state.logs.retain(|_, log| log.session != *session);
        state.count();
    }

    /// Removes expired events and streams.
    pub(super) fn sweep(&self) {
        let mut state = self.state();
        let State { bounds, logs, read, read_bytes, .. } = &mut *state;
        logs.retain(|_, log| {
            log.drop_old(bounds);
            log.ended.is_none_or(|at| at.elapsed() <= bounds.time)
        });
        read.retain(|(stream, _)| logs.contains_key(stream));
        *read_bytes = read.iter().map(|(_, bytes)| bytes).sum();
        state.compact();
        state.count();
    }

    /// Returns the stream and event number at which a client resumes after the event with this id.
    pub(super) fn find(&self, session: &SessionId, last: &str) -> Option<(StreamId, u64)> {
        let (stream, number) = parse(last)?;
        let state = self.state();
        let log = state.logs.get(&stream)?;
        (log.session == *session && number < log.next()).then_some((stream, number + 1))
    }

    /// Returns the number of the first retained event.
    pub(super) fn first(&self, stream: StreamId) -> u64 {
        self.state().logs.get(&stream).map_or(1, |log| log.first)
    }

    /// Returns a reader of a stream from an event on: first its retained events, then new ones, until it ends.
    pub(super) fn follow(&self, stream: StreamId, next: u64) -> ReplayReader {
        if let Some(log) = self.state().logs.get_mut(&stream) {
            log.followers += 1;
        }
        ReplayReader { replay: self.clone(), stream, next }
    }

    /// Wakes all readers of the stream.
    pub(super) fn wake(&self, stream: StreamId) {
        if let Some(log) = self.state().logs.get_mut(&stream) {
            log.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds an event to a stream, unless the stream was removed.
    fn push(&mut self, stream: StreamId, event: ServerSseMessage, bytes: usize) {
        if let Some(log) = self.logs.get_mut(&stream) {
            self.bytes -= log.bytes;
            let number = log.next();
            if log.push(event, bytes, &self.bounds) {
                self.order.extend((number..log.next()).map(|number| (stream, number)));
            }
            self.bytes += log.bytes;
            self.shrink();
        }
        if self.order.len() > self.compact_at {
            self.compact();
        }
    }

    /// Removes dropped events from the order.
    fn compact(&mut self) {
        let Self { order, logs, .. } = self;
        order.retain(|(stream, number)| logs.get(stream).is_some_and(|log| *number >= log.first));
        self.compact_at = 1024.max(2 * order.len());
    }

    fn count(&mut self) {
        self.bytes = self.logs.values().map(|log| log.bytes).sum();
    }

    fn end_if_answered(&mut self, stream: StreamId) {
        if let Some(log) = self.logs.get_mut(&stream).filter(|log| log.unanswered == 0) {
            log.ended = Some(Instant::now());
            log.wake();
        }
    }

    /// Adds a stream that has ended and was read, and removes the oldest such streams over the limit.
    fn add_read(&mut self, stream: StreamId, bytes: usize) {
        self.read.push_back((stream, bytes));
        self.read_bytes += bytes;
        while self.read_bytes > self.bounds.read {
            let Some((stream, bytes)) = self.read.pop_front() else { return };
            self.read_bytes -= bytes;
            if let Some(log) = self.logs.get(&stream).filter(|log| log.followers == 0) {
                self.bytes -= log.bytes;
                self.logs.remove(&stream);
            }
        }
    }

    /// Drops the oldest events over the limit, but never the latest one. Errors in place of unread responses are
    /// dropped last.
    fn shrink(&mut self) {
        let latest = self.order.back().copied();
        let mut kept = 0;
        while self.bytes > self.bounds.total && self.order.len() > 1 {
            let Some((stream, number)) = self.order.pop_front() else { return };
            if latest == Some((stream, number)) {
                self.order.push_back((stream, number));
                kept = MAX_KEPT;
                continue;
            }
            let Some(log) = self.logs.get_mut(&stream) else { continue };
            self.bytes -= log.bytes;
            let next = log.next();
            let retained = log.evict(number, kept < MAX_KEPT).then_some(number);
            kept += usize::from(retained.is_some());
            self.bytes += log.bytes;
            self.order.extend(retained.into_iter().chain(next..log.next()).map(|number| (stream, number)));
            if log.is_finished() && log.followers == 0 {
                self.logs.remove(&stream);
            }
        }
    }
}

/// Reader of a stream.
pub(super) struct ReplayReader {
    replay: ReplayBuffer,
    pub(super) stream: StreamId,
    next: u64,
}

impl ReplayReader {
    /// Waits until the stream is removed, ignoring events.
    pub(super) fn poll_removed(&self, context: &Context<'_>) -> Poll<()> {
        match self.replay.state().logs.get_mut(&self.stream) {
            None => Poll::Ready(()),
            Some(log) => {
                log.wait(context.waker());
                Poll::Pending
            }
        }
    }

    /// Skips the events before a number.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.next = self.next.max(number);
    }

    /// Returns the number of the next event.
    pub(super) fn position(&self) -> u64 {
        self.next
    }
}

impl Stream for ReplayReader {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let (stream, next) = (self.stream, self.next);
        let replay = self.replay.clone();
        let mut state = replay.state();
        let Some(log) = state.logs.get_mut(&stream) else { return Poll::Ready(None) };
        let next = log.skip_superseded(next);
        self.next = next;
        if next < log.first {
            self.next = log.first;
            return Poll::Ready(Some(dropped_events_notice(stream, next, log.first)));
        }
        if let Some(event) = log.take(stream, next) {
            self.next += 1;
            return Poll::Ready(Some(event));
        }
        if log.ended.is_some() {
            return Poll::Ready(None);
        }
        log.wait(context.waker());
        Poll::Pending
    }
}

impl Drop for ReplayReader {
    fn drop(&mut self) {
        let mut state = self.replay.state();
        let Some(log) = state.logs.get_mut(&self.stream) else { return };
        log.followers = log.followers.saturating_sub(1);
        log.room.send_replace(());
        if log.is_read() && log.followers == 0 {
            let bytes = log.bytes;
            state.add_read(self.stream, bytes);
        }
    }
}

/// Creates an event that reports dropped events. A client that resumes after it continues behind the gap.
fn dropped_events_notice(stream: StreamId, from: u64, to: u64) -> ServerSseMessage {
    let count = to - from;
    let message = format!("{count} earlier events are no longer available; request their data again");
    let data = json!({ "source": "meerkat", "lost_events": count, "message": message });
    let notice = LoggingMessageNotificationParam::new(LoggingLevel::Warning, data);
    let notice = ServerNotification::from(LoggingMessageNotification::new(notice));
    ServerSseMessage::new(event_id(stream, to - 1), JsonRpcMessage::notification(notice))
}

/// Formats the id of an event.
pub(super) fn event_id(stream: StreamId, number: u64) -> String {
    format!("{stream}~{number}")
}

/// Splits the id of an event into its stream and its number.
fn parse(id: &str) -> Option<(StreamId, u64)> {
    let (stream, number) = id.split_once('~')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// Returns the memory cost of an event.
fn size(event: &ServerSseMessage) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // A value follows each of these, unless they are in a text.
            let values = usize::from(matches!(bytes, b"," | b":" | b"["));
            self.0 += bytes.len() + values * VALUE_OVERHEAD;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(OVERHEAD);
    // Writing to a counter cannot fail, and a message that cannot be written is never sent.
    let _ = serde_json::to_writer(&mut count, &event.message.as_deref());
    count.0
}
