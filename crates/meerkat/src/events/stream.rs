//! Streams: one reader's place among the events of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::{EventEnvelope, Timestamp};
use uuid::Uuid;

use super::channel::{Channel, Found, Room};

/// Names a stream.
pub(crate) type StreamId = Uuid;

/// What a read gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    /// Events, at least one.
    Events(Vec<Arc<EventEnvelope>>),
    /// Nothing came in time.
    Timeout,
    /// Nothing will come any more, and the stream is closed.
    Closed,
}

/// A reader's place in a channel.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) channel: Arc<Channel>,
    place: Mutex<Place>,
}

#[derive(Debug)]
struct Place {
    next: u64,
    /// What the reader must be told before anything else.
    gap: Option<&'static str>,
    readers: usize,
    read_at: Timestamp,
}

/// A read on its way: a stream that is being read is not unread.
pub(super) struct Reader<'a>(&'a Stream);

impl Stream {
    pub(super) fn open(channel: Arc<Channel>, after: Option<u64>, now: Timestamp) -> Self {
        channel.stream_opens();
        let (next, gap) = channel.place(after);
        let place = Place { next, gap, readers: 0, read_at: now };
        Self { channel, place: Mutex::new(place) }
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        self.place().readers += 1;
        Reader(self)
    }

    /// Takes what there is; the place moves on only with what is given out.
    pub(super) fn take(&self, room: Room, now: Timestamp) -> Option<Reading> {
        let mut place = self.place();
        place.read_at = now;
        match self.channel.read(place.next, place.gap, room, now) {
            Found::Nothing => None,
            Found::End => Some(Reading::Closed),
            Found::Events(events, next) => {
                place.next = next;
                place.gap = None;
                Some(Reading::Events(events))
            }
        }
    }

    /// Says since when nobody has read it; `None` while somebody does.
    pub(super) fn unread_since(&self) -> Option<Timestamp> {
        let place = self.place();
        (place.readers == 0).then_some(place.read_at)
    }

    /// Returns the number of the last event that was given out or passed over.
    pub(super) fn read_up_to(&self) -> u64 {
        self.place().next.saturating_sub(1)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut place = self.0.place();
        place.readers = place.readers.saturating_sub(1);
    }
}
