//! Log of one stream: its latest events, the read position, and the waiting readers.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::watch;

use super::{Bounds, StreamId, event_id};

/// Maximum number of unread events, and of their bytes, for a slow client.
const MAX_UNREAD: usize = 64;
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// Log of one stream. Its events are numbered from 1.
pub(super) struct Log {
    pub(super) session: SessionId,
    /// Number of the first retained event.
    pub(super) first: u64,
    events: VecDeque<Event>,
    pub(super) bytes: usize,
    /// Number of outstanding responses. A session's own stream waits for one that never arrives.
    pub(super) unanswered: usize,
    pub(super) has_answers: bool,
    pub(super) ended: Option<Instant>,
    pub(super) followers: usize,
    /// Number of the first unread event.
    unread_from: u64,
    /// Whether the readers have not read for so long that writers no longer wait for them.
    pub(super) is_stalled: bool,
    wakers: Vec<Waker>,
    /// Signals that an event was read; closed when the log is removed.
    pub(super) room: watch::Sender<()>,
}

struct Event {
    message: ServerSseMessage,
    bytes: usize,
    at: Instant,
}

impl Log {
    pub(super) fn new(session: SessionId, unanswered: usize) -> Self {
        Self {
            session,
            first: 1,
            events: VecDeque::new(),
            bytes: 0,
            unanswered,
            has_answers: false,
            ended: None,
            followers: 0,
            unread_from: 1,
            is_stalled: false,
            wakers: Vec::new(),
            room: watch::Sender::new(()),
        }
    }

    /// Returns the number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Returns `true` if another event can be added without dropping one that is about to be read.
    pub(super) fn has_room(&self) -> bool {
        if self.followers == 0 || self.is_stalled {
            return true;
        }
        let unread = self.events.iter().skip(index(self.unread_from, self.first));
        let (count, bytes) = unread.fold((0, 0), |(count, bytes), event| (count + 1, bytes + event.bytes));
        count < MAX_UNREAD && bytes < MAX_UNREAD_BYTES
    }

    /// Adds an event and drops the oldest ones over the limits.
    pub(super) fn push(
        &mut self,
        stream: StreamId,
        mut message: ServerSseMessage,
        bytes: usize,
        bounds: &Bounds,
    ) {
        message.event_id = Some(event_id(stream, self.next()));
        self.events.push_back(Event { message, bytes, at: Instant::now() });
        self.bytes += bytes;
        while self.events.len() > bounds.events || (self.bytes > bounds.each && self.events.len() > 1) {
            self.drop_oldest();
        }
        self.wake();
    }

    /// Drops the oldest event, if there is one.
    pub(super) fn drop_oldest(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.bytes;
            self.first += 1;
        }
    }

    /// Drops expired events.
    pub(super) fn drop_old(&mut self, bounds: &Bounds) {
        while self.events.front().is_some_and(|event| event.at.elapsed() > bounds.time) {
            self.drop_oldest();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns a retained event and marks it as read.
    pub(super) fn take(&mut self, number: u64) -> Option<ServerSseMessage> {
        let event = self.events.get(index(number, self.first))?.message.clone();
        self.unread_from = self.unread_from.max(number + 1);
        self.is_stalled = false;
        self.room.send_replace(());
        Some(event)
    }

    /// Wakes the task when there are more events, or when the log is removed.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    pub(super) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.wake();
    }
}

fn index(number: u64, first: u64) -> usize {
    usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX)
}
