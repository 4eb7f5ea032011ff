//! The log of one stream: its last events, how far they were read, and who waits for more.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::watch;

use super::{Bounds, StreamId, event_id};

/// How many events, and how many bytes of them, may wait for a client that is slow to read.
const WAITING: usize = 64;
const WAITING_BYTES: usize = 1024 * 1024;

/// The log of one stream. Its events are numbered from 1 on.
pub(super) struct Log {
    pub(super) session: SessionId,
    /// The number of the first event that is kept.
    pub(super) first: u64,
    events: VecDeque<Event>,
    pub(super) bytes: usize,
    /// How many answers are still to come. The stream of a session itself waits for one that never does.
    pub(super) unanswered: usize,
    pub(super) has_answers: bool,
    pub(super) ended: Option<Instant>,
    pub(super) followers: usize,
    /// The first number that nobody has read yet.
    taken: u64,
    /// Whether those who follow have not read for so long that nobody waits for them.
    pub(super) is_stalled: bool,
    wakers: Vec<Waker>,
    /// Says that something was read, and ends when the log is forgotten.
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
            taken: 1,
            is_stalled: false,
            wakers: Vec::new(),
            room: watch::Sender::new(()),
        }
    }

    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Says whether another event can be added without losing one that is about to be read.
    pub(super) fn has_room(&self) -> bool {
        if self.followers == 0 || self.is_stalled {
            return true;
        }
        let unread = self.events.iter().skip(index(self.taken, self.first));
        let (count, bytes) = unread.fold((0, 0), |(count, bytes), event| (count + 1, bytes + event.bytes));
        count < WAITING && bytes < WAITING_BYTES
    }

    /// Adds an event and drops the oldest ones that are too many.
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

    /// Drops what has been kept for too long.
    pub(super) fn drop_old(&mut self, bounds: &Bounds) {
        while self.events.front().is_some_and(|event| event.at.elapsed() > bounds.time) {
            self.drop_oldest();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns an event that is kept, and notes that it was read.
    pub(super) fn take(&mut self, number: u64) -> Option<ServerSseMessage> {
        let event = self.events.get(index(number, self.first))?.message.clone();
        self.taken = self.taken.max(number + 1);
        self.is_stalled = false;
        self.room.send_replace(());
        Some(event)
    }

    /// Wakes this task when there is more, and when the log is forgotten.
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
