//! Event streams of a session: opened, read, and closed by operations.

use std::time::Duration;

use meerkat_core::{SessionId, StreamId};
use tokio_util::sync::CancellationToken;

use super::SessionService;
use crate::Error;
use crate::events::{ReadLimit, ReadOutcome};

/// Interval between checks whether another process archived the session.
const ARCHIVE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl SessionService {
    /// Opens a stream of the session's events after a sequence number, or from now on.
    pub(crate) async fn open_stream(&self, id: SessionId, after: Option<u64>) -> Result<StreamId, Error> {
        if self.read(id).await?.is_archived {
            return Err(meerkat_store::Error::Archived(id).into());
        }
        Ok(self.inner.planner.events.open(id, after)?)
    }

    /// Returns the session of a stream.
    pub(crate) fn stream_session(&self, stream: StreamId) -> Result<SessionId, Error> {
        Ok(self.inner.planner.events.session(stream)?)
    }

    /// Reads a stream until the timeout; waits forever if it is `None`.
    pub(crate) async fn read_stream(
        &self,
        stream: StreamId,
        limit: ReadLimit,
        timeout: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Result<ReadOutcome, Error> {
        let session = self.stream_session(stream)?;
        let mut left = timeout;
        loop {
            let slice = left.map_or(ARCHIVE_CHECK_INTERVAL, |left| left.min(ARCHIVE_CHECK_INTERVAL));
            let outcome = self.inner.planner.events.read(stream, limit, slice, cancel).await?;
            if outcome != ReadOutcome::Timeout {
                return Ok(outcome);
            }
            if self.is_ended(session).await? {
                self.inner.planner.events.end_session(session);
            } else if cancel.is_cancelled() || left == Some(slice) {
                return Ok(ReadOutcome::Timeout);
            }
            left = left.map(|left| left.saturating_sub(slice));
        }
    }

    /// Closes a stream and returns its session, or `None` if it was not open.
    pub(crate) fn close_stream(&self, stream: StreamId) -> Option<SessionId> {
        let session = self.inner.planner.events.session(stream).ok()?;
        self.inner.planner.events.close(stream).then_some(session)
    }

    async fn is_ended(&self, id: SessionId) -> Result<bool, Error> {
        let row = self.inner.planner.store.session(id).await?;
        Ok(row.is_none_or(|row| row.archived_at.is_some()))
    }
}
