//! The open streams, and the last positions of evicted ones.
//!
//! The number of open streams is limited. At the limit, the stream that has been unread longest is evicted, so that
//! readers that disconnected silently do not block others. A reader that returns to an evicted stream gets its last
//! position and can continue from there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{SessionId, StreamId, Timestamp};

use super::error::StreamError;
use super::stream::Stream;

/// Maximum number of open streams.
pub(super) const MAX_STREAMS: usize = 256;
/// Time after which an unread stream is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Maximum number of evicted streams whose positions are remembered.
const MAX_EVICTED: usize = 1024;

/// The streams of one process.
#[derive(Default)]
pub(super) struct Streams {
    open: HashMap<StreamId, Arc<Stream>>,
    evicted: VecDeque<(StreamId, EvictedStream)>,
}

/// Last position of an evicted stream.
#[derive(Debug, Clone, Copy)]
struct EvictedStream {
    session: SessionId,
    after: u64,
}

impl Streams {
    /// Adds a stream. The caller must ensure first that the limit is not exceeded.
    pub(super) fn add(&mut self, id: StreamId, stream: Stream) {
        self.open.insert(id, Arc::new(stream));
    }

    /// Ensures that another stream can be opened, by evicting unread ones if necessary.
    pub(super) fn ensure_capacity(&mut self, now: Timestamp) -> Result<(), StreamError> {
        self.drop_unread(now);
        if self.open.len() < MAX_STREAMS {
            return Ok(());
        }
        let unread = self.open.iter().filter_map(|(id, stream)| stream.unread_since().map(|at| (at, *id)));
        let (_, longest) = unread.min().ok_or(StreamError::TooMany { limit: MAX_STREAMS })?;
        self.evict(longest, now);
        Ok(())
    }

    /// Returns a stream, or an error for an evicted or unknown one.
    pub(super) fn find(&self, id: StreamId) -> Result<Arc<Stream>, StreamError> {
        if let Some(stream) = self.open.get(&id) {
            return Ok(Arc::clone(stream));
        }
        let evicted = self.evicted.iter().find(|(known, _)| *known == id).map(|(_, evicted)| *evicted);
        Err(match evicted {
            Some(EvictedStream { session, after }) => StreamError::Unread { id, session, after },
            None => StreamError::Unknown(id),
        })
    }

    /// Removes a stream and returns it, if it is open.
    pub(super) fn remove(&mut self, id: StreamId) -> Option<Arc<Stream>> {
        self.open.remove(&id)
    }

    /// Evicts streams that were not read for too long.
    pub(super) fn drop_unread(&mut self, now: Timestamp) {
        let is_old =
            |stream: &Stream| stream.unread_since().is_some_and(|at| has_elapsed(at, IDLE_TIMEOUT, now));
        let old: Vec<_> = self.open.iter().filter(|(_, stream)| is_old(stream)).map(|(id, _)| *id).collect();
        for id in old {
            self.evict(id, now);
        }
    }

    fn evict(&mut self, id: StreamId, now: Timestamp) {
        let Some(stream) = self.open.remove(&id) else { return };
        stream.channel.stream_closed(now);
        if self.evicted.len() >= MAX_EVICTED {
            self.evicted.pop_front();
        }
        self.evicted
            .push_back((id, EvictedStream { session: stream.channel.session, after: stream.last_seq() }));
    }
}

/// Returns `true` if a duration has passed since a time; `false` if the clock went backward.
pub(super) fn has_elapsed(since: Timestamp, duration: Duration, now: Timestamp) -> bool {
    now.duration_since(since).unsigned_abs() >= duration && now > since
}
