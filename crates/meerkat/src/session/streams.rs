//! Streams of a session's events, as operations open, read and close them.

use std::time::Duration;

use meerkat_core::SessionId;
use tokio_util::sync::CancellationToken;

use super::service::SessionService;
use crate::Error;
use crate::events::{Reading, Room, StreamId};

/// How long to wait at most before looking whether another process archived the session.
const LOOK: Duration = Duration::from_secs(5);

impl SessionService {
    /// Opens a stream of what the session tells after a number, or from now on.
    pub(crate) async fn open_stream(&self, id: SessionId, after: Option<u64>) -> Result<StreamId, Error> {
        if self.read(id).await?.is_archived {
            return Err(meerkat_store::Error::Archived(id).into());
        }
        self.shared.events.open(id, after)
    }

    /// Says which session a stream is of.
    pub(crate) fn stream_session(&self, stream: StreamId) -> Result<SessionId, Error> {
        self.shared.events.session(stream)
    }

    /// Reads a stream for as long as the patience lasts; forever without one.
    pub(crate) async fn read_stream(
        &self,
        stream: StreamId,
        room: Room,
        patience: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Result<Reading, Error> {
        let session = self.stream_session(stream)?;
        let mut left = patience;
        loop {
            let slice = left.map_or(LOOK, |left| left.min(LOOK));
            let reading = self.shared.events.read(stream, room, slice, cancel).await?;
            if reading != Reading::Timeout {
                return Ok(reading);
            }
            if self.is_over(session).await? {
                self.shared.events.end(session);
            } else if cancel.is_cancelled() || left == Some(slice) {
                return Ok(Reading::Timeout);
            }
            left = left.map(|left| left.saturating_sub(slice));
        }
    }

    /// Closes a stream; `None` when it was not open.
    pub(crate) fn close_stream(&self, stream: StreamId) -> Option<SessionId> {
        let session = self.shared.events.session(stream).ok()?;
        self.shared.events.close(stream).then_some(session)
    }

    async fn is_over(&self, id: SessionId) -> Result<bool, Error> {
        let row = self.shared.store.session(id).await?;
        Ok(row.is_none_or(|row| row.archived_at.is_some()))
    }
}
