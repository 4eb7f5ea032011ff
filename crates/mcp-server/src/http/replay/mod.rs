//! What the streams of sessions say, kept for clients that lost their connection and come back.
//!
//! Everything that is sent to a client of a session goes into the log of a stream, and is read from there by
//! whoever follows the stream. All logs together are bounded in bytes, apart from what a client is reading right
//! now, and in time. A log goes with its session, and with its request when that is cancelled; what is forgotten
//! stays forgotten. A client that asks for what is gone is told how much that was.

#![expect(deprecated, reason = "clients of older revisions are told in log messages")]

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

/// What keeping an event costs beside its text.
const OVERHEAD: usize = 512;

/// Names a stream.
pub(super) type StreamId = u64;

/// How much is kept.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// How many events of one stream.
    pub(super) events: usize,
    /// How many bytes of one stream, unless one event is longer.
    pub(super) each: usize,
    /// How many bytes of all streams.
    pub(super) total: usize,
    /// How long.
    pub(super) time: Duration,
    /// How long a client that follows a stream may not read before nobody waits for it.
    pub(super) patience: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            events: 1024,
            each: 4 * 1024 * 1024,
            total: 64 * 1024 * 1024,
            time: Duration::from_secs(300),
            patience: Duration::from_secs(30),
        }
    }
}

/// Keeps events.
#[derive(Clone)]
pub(super) struct Replay(Arc<Mutex<Kept>>);

struct Kept {
    bounds: Bounds,
    next: StreamId,
    logs: HashMap<StreamId, Log>,
    /// How long all logs are together.
    bytes: usize,
    /// The streams that ended, the first one first.
    ended: VecDeque<StreamId>,
}

impl Replay {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (logs, ended) = (HashMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(Kept { bounds, next: 1, logs, bytes: 0, ended })))
    }

    /// Makes a stream that ends with so many answers.
    pub(super) fn open(&self, session: &SessionId, answers: usize) -> StreamId {
        let mut kept = self.kept();
        let stream = kept.next;
        kept.next += 1;
        kept.logs.insert(stream, Log::new(Arc::clone(session), answers));
        stream
    }

    /// Adds an event that waits for nobody.
    pub(super) fn add(&self, stream: StreamId, event: ServerSseMessage) {
        let bytes = size(&event);
        self.kept().push(stream, event, bytes);
    }

    /// Adds an event when whoever follows the stream has read what is before it, or is too slow to be waited for.
    pub(super) async fn tell(&self, stream: StreamId, event: ServerSseMessage) {
        let bytes = size(&event);
        loop {
            let (mut room, patience) = {
                let mut kept = self.kept();
                let patience = kept.bounds.patience;
                let Some(log) = kept.logs.get(&stream) else { return };
                if log.has_room() {
                    kept.push(stream, event, bytes);
                    return;
                }
                (log.room.subscribe(), patience)
            };
            if tokio::time::timeout(patience, room.changed()).await.is_err()
                && let Some(log) = self.kept().logs.get_mut(&stream)
            {
                log.is_stalled = true;
            }
        }
    }

    /// Adds an answer; the stream ends with the last one.
    pub(super) fn answer(&self, stream: StreamId, answer: ServerJsonRpcMessage) {
        let event = ServerSseMessage::from_message(answer);
        let bytes = size(&event);
        let mut kept = self.kept();
        if let Some(log) = kept.logs.get_mut(&stream) {
            log.unanswered = log.unanswered.saturating_sub(1);
            log.has_answers = true;
        }
        kept.push(stream, event, bytes);
        kept.end_if_answered(stream);
    }

    /// Waits for one answer less, and forgets a stream that will have none.
    pub(super) fn withdraw(&self, stream: StreamId) {
        let mut kept = self.kept();
        let Some(log) = kept.logs.get_mut(&stream) else { return };
        log.unanswered = log.unanswered.saturating_sub(1);
        if log.unanswered == 0 && !log.has_answers {
            kept.bytes -= log.bytes;
            kept.logs.remove(&stream);
        }
        kept.end_if_answered(stream);
    }

    /// Forgets the streams of a session.
    pub(super) fn forget(&self, session: &SessionId) {
        let mut kept = self.kept();
        kept.logs.retain(|_, log| log.session != *session);
        kept.count();
    }

    /// Forgets what has been kept for too long.
    pub(super) fn sweep(&self) {
        let mut kept = self.kept();
        let Kept { bounds, logs, ended, .. } = &mut *kept;
        logs.retain(|_, log| {
            log.drop_old(bounds);
            log.ended.is_none_or(|at| at.elapsed() <= bounds.time)
        });
        ended.retain(|stream| logs.contains_key(stream));
        kept.count();
    }

    /// Finds where a client that has seen the event with this id goes on: the stream, and a number.
    pub(super) fn find(&self, session: &SessionId, last: &str) -> Option<(StreamId, u64)> {
        let (stream, number) = parse(last)?;
        let kept = self.kept();
        let log = kept.logs.get(&stream)?;
        (log.session == *session && number < log.next()).then_some((stream, number + 1))
    }

    /// The number of the first event that is kept.
    pub(super) fn first(&self, stream: StreamId) -> u64 {
        self.kept().logs.get(&stream).map_or(1, |log| log.first)
    }

    /// Follows a stream from an event on: what is kept of it, and then what comes, until it ends.
    pub(super) fn follow(&self, stream: StreamId, next: u64) -> Following {
        if let Some(log) = self.kept().logs.get_mut(&stream) {
            log.followers += 1;
        }
        Following { replay: self.clone(), stream, next }
    }

    /// Lets everybody who follows the stream look again.
    pub(super) fn wake(&self, stream: StreamId) {
        if let Some(log) = self.kept().logs.get_mut(&stream) {
            log.wake();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Adds an event to a stream that is not forgotten.
    fn push(&mut self, stream: StreamId, event: ServerSseMessage, bytes: usize) {
        if let Some(log) = self.logs.get_mut(&stream) {
            self.bytes -= log.bytes;
            log.push(stream, event, bytes, &self.bounds);
            self.bytes += log.bytes;
            self.shrink();
        }
    }

    fn count(&mut self) {
        self.bytes = self.logs.values().map(|log| log.bytes).sum();
    }

    fn end_if_answered(&mut self, stream: StreamId) {
        if let Some(log) = self.logs.get_mut(&stream).filter(|log| log.unanswered == 0) {
            log.ended = Some(Instant::now());
            log.wake();
            self.ended.push_back(stream);
        }
    }

    /// Makes room: first of the streams that ended and that nobody reads, then of the longest ones.
    fn shrink(&mut self) {
        let Self { bounds, logs, bytes, ended, .. } = self;
        if *bytes <= bounds.total {
            return;
        }
        ended.retain(|stream| {
            let Some(log) = logs.get(stream) else { return false };
            if *bytes <= bounds.total || log.followers > 0 {
                return true;
            }
            *bytes -= log.bytes;
            logs.remove(stream);
            false
        });
        while *bytes > bounds.total {
            let unread = logs.values_mut().filter(|log| log.followers == 0 && log.len() > 1);
            let Some(longest) = unread.max_by_key(|log| log.bytes) else { return };
            *bytes -= longest.bytes;
            longest.drop_oldest();
            *bytes += longest.bytes;
        }
    }
}

/// Reads a stream from its log.
pub(super) struct Following {
    replay: Replay,
    pub(super) stream: StreamId,
    next: u64,
}

impl Following {
    /// Waits for the end alone.
    pub(super) fn poll_gone(&self, context: &Context<'_>) -> Poll<()> {
        match self.replay.kept().logs.get_mut(&self.stream) {
            None => Poll::Ready(()),
            Some(log) => {
                log.wait(context.waker());
                Poll::Pending
            }
        }
    }

    /// Passes over what is before a number.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.next = self.next.max(number);
    }

    /// The number of the event that comes next.
    pub(super) fn position(&self) -> u64 {
        self.next
    }
}

impl Stream for Following {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let (stream, next) = (self.stream, self.next);
        let replay = self.replay.clone();
        let mut kept = replay.kept();
        let Some(log) = kept.logs.get_mut(&stream) else { return Poll::Ready(None) };
        if next < log.first {
            self.next = log.first;
            return Poll::Ready(Some(lost(stream, next, log.first)));
        }
        if let Some(event) = log.take(next) {
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

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(log) = self.replay.kept().logs.get_mut(&self.stream) {
            log.followers = log.followers.saturating_sub(1);
            log.room.send_replace(());
        }
    }
}

/// Tells a client what it can have no more. A client that comes back after this event goes on behind the gap.
fn lost(stream: StreamId, from: u64, to: u64) -> ServerSseMessage {
    let lost = to - from;
    let message =
        format!("{lost} events before this one are not kept any more; ask anew for what they were about");
    let data = json!({ "source": "meerkat", "lost_events": lost, "message": message });
    let notice = LoggingMessageNotificationParam::new(LoggingLevel::Warning, data);
    let notice = ServerNotification::from(LoggingMessageNotification::new(notice));
    ServerSseMessage::new(event_id(stream, to - 1), JsonRpcMessage::notification(notice))
}

/// Makes the id of an event.
pub(super) fn event_id(stream: StreamId, number: u64) -> String {
    format!("{stream}~{number}")
}

/// Splits the id of an event into its stream and its number.
fn parse(id: &str) -> Option<(StreamId, u64)> {
    let (stream, number) = id.split_once('~')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// What keeping an event costs.
fn size(event: &ServerSseMessage) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
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
