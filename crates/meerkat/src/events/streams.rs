//! The open streams, and where those stood that were closed because nobody read them.
//!
//! There is room for so many. When all of it is taken, the stream that was left unread longest gives way: readers
//! that went away without a word must not keep others out. Whoever comes back to such a stream is told where it
//! stood, so that it can go on from there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{SessionId, Timestamp};

use super::stream::{Stream, StreamId};
use crate::Error;

/// How many streams may be open at once.
pub(super) const MAX_STREAMS: usize = 256;
/// How long a stream may go unread before it is closed.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Of how many closed streams it is known where they stood.
const REMEMBERED: usize = 1024;

/// The streams of one process.
#[derive(Default)]
pub(super) struct Streams {
    open: HashMap<StreamId, Arc<Stream>>,
    unread: VecDeque<(StreamId, Stood)>,
}

/// Where a stream stood when it was closed.
#[derive(Debug, Clone, Copy)]
struct Stood {
    session: SessionId,
    after: u64,
}

impl Streams {
    /// Opens a stream that [`Self::make_room`] has made room for.
    pub(super) fn add(&mut self, id: StreamId, stream: Stream) {
        self.open.insert(id, Arc::new(stream));
    }

    /// Makes sure that another stream can be opened.
    pub(super) fn make_room(&mut self, now: Timestamp) -> Result<(), Error> {
        self.drop_unread(now);
        if self.open.len() < MAX_STREAMS {
            return Ok(());
        }
        let unread = self.open.iter().filter_map(|(id, stream)| stream.unread_since().map(|at| (at, *id)));
        let (_, longest) = unread.min().ok_or(Error::TooManyStreams { limit: MAX_STREAMS })?;
        self.give_up(longest, now);
        Ok(())
    }

    /// Finds a stream, or says why it is not there.
    pub(super) fn find(&self, id: StreamId) -> Result<Arc<Stream>, Error> {
        if let Some(stream) = self.open.get(&id) {
            return Ok(Arc::clone(stream));
        }
        let stood = self.unread.iter().find(|(known, _)| *known == id).map(|(_, stood)| *stood);
        Err(match stood {
            Some(Stood { session, after }) => Error::StreamUnread { id, session, after },
            None => Error::UnknownStream(id),
        })
    }

    /// Takes a stream out, if it is open.
    pub(super) fn remove(&mut self, id: StreamId) -> Option<Arc<Stream>> {
        self.open.remove(&id)
    }

    /// Closes streams that were not read for long.
    pub(super) fn drop_unread(&mut self, now: Timestamp) {
        let is_old = |stream: &Stream| stream.unread_since().is_some_and(|at| is_over(at, PATIENCE, now));
        let old: Vec<_> = self.open.iter().filter(|(_, stream)| is_old(stream)).map(|(id, _)| *id).collect();
        for id in old {
            self.give_up(id, now);
        }
    }

    fn give_up(&mut self, id: StreamId, now: Timestamp) {
        let Some(stream) = self.open.remove(&id) else { return };
        stream.channel.stream_closes(now);
        if self.unread.len() >= REMEMBERED {
            self.unread.pop_front();
        }
        self.unread.push_back((id, Stood { session: stream.channel.session, after: stream.read_up_to() }));
    }
}

/// Says whether a span has passed; a clock that went back has not.
pub(super) fn is_over(since: Timestamp, span: Duration, now: Timestamp) -> bool {
    now.duration_since(since).unsigned_abs() >= span && now > since
}
