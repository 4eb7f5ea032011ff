//! Streams: a reader's position in the events of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::{EventEnvelope, Timestamp};

use super::channel::{Channel, ReadLimit, ReadResult};

/// Result of reading a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReadOutcome {
    /// Events, at least one.
    Events(Vec<Arc<EventEnvelope>>),
    /// No event arrived in time.
    Timeout,
    /// No more events will follow, and the stream is closed.
    Closed,
}

/// A reader's position in a channel.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) channel: Arc<Channel>,
    cursor: Mutex<Cursor>,
}

#[derive(Debug)]
struct Cursor {
    next: u64,
    /// Message about a gap, to be reported before the next events.
    gap: Option<&'static str>,
    readers: usize,
    read_at: Timestamp,
}

/// A read in progress; a stream that is being read does not count as unread.
pub(super) struct Reader<'a>(&'a Stream);

impl Stream {
    pub(super) fn open(channel: Arc<Channel>, after: Option<u64>, now: Timestamp) -> Self {
        channel.stream_opened();
        let (next, gap) = channel.start_position(after);
        let cursor = Cursor { next, gap, readers: 0, read_at: now };
        Self { channel, cursor: Mutex::new(cursor) }
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        self.cursor().readers += 1;
        Reader(self)
    }

    /// Returns the available events, and advances past them.
    pub(super) fn take(&self, limit: ReadLimit, now: Timestamp) -> Option<ReadOutcome> {
        let mut cursor = self.cursor();
        cursor.read_at = now;
        match self.channel.read(cursor.next, cursor.gap, limit, now) {
            ReadResult::Nothing => None,
            ReadResult::End => Some(ReadOutcome::Closed),
            ReadResult::Events(events, next) => {
                cursor.next = next;
                cursor.gap = None;
                Some(ReadOutcome::Events(events))
            }
        }
    }

    /// Returns when the stream was last read, or `None` while a read is in progress.
    pub(super) fn unread_since(&self) -> Option<Timestamp> {
        let cursor = self.cursor();
        (cursor.readers == 0).then_some(cursor.read_at)
    }

    /// Returns the sequence number of the last event that was returned or skipped.
    pub(super) fn last_seq(&self) -> u64 {
        self.cursor().next.saturating_sub(1)
    }

    fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut cursor = self.0.cursor();
        cursor.readers = cursor.readers.saturating_sub(1);
    }
}
