//! Errors of event streams.

use meerkat_core::{ErrorKind, SessionId, StreamId};
use serde_json::{Value, json};

use crate::coded::Coded;

/// Error of an event stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// No event stream has this id.
    #[error("event stream `{0}` is not open: it was closed or predates a restart; open a new one")]
    Unknown(StreamId),
    /// An event stream was closed because it was idle.
    #[error(
        "event stream `{id}` was closed because it was idle; open a new one with `after: {after}` to continue"
    )]
    Unread {
        /// Id of the stream.
        id: StreamId,
        /// The stream's session.
        session: SessionId,
        /// Sequence number of the last event that was read from it.
        after: u64,
    },
    /// Too many event streams are being read.
    #[error("cannot open another event stream: {limit} are being read, which is the limit; close one first")]
    TooMany {
        /// Maximum number of open streams.
        limit: usize,
    },
}

impl Coded for StreamError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown(_) | Self::Unread { .. } => ErrorKind::InvalidParams,
            Self::TooMany { .. } => ErrorKind::CapabilityUnavailable,
        }
    }

    fn data(&self) -> Option<Value> {
        match self {
            Self::Unknown(_) => None,
            Self::Unread { session, after, .. } => {
                Some(json!({ "type": "stream_unread", "session_id": session, "after": after }))
            }
            Self::TooMany { limit } => Some(json!({ "type": "limit_reached", "limit": limit })),
        }
    }
}
