//! Results of store queries. Times are stored to the microsecond.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{BlobId, RunId, SessionId, Timestamp, Usage, Usd};
use sha2::{Digest as _, Sha256};

/// A session as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The session's id.
    pub id: SessionId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time it was archived, if it was.
    pub archived_at: Option<Timestamp>,
    /// Number of messages.
    pub message_count: u64,
    /// Labels for finding it.
    pub labels: BTreeMap<String, String>,
    /// The encoded settings.
    pub settings: Vec<u8>,
    /// The encoded running totals.
    pub progress: Vec<u8>,
    /// Fencing number: the number of leases taken so far.
    pub fence: u64,
    /// The lease, if a live owner holds one. The caller checks whether it has expired.
    pub lease: Option<LeaseRow>,
}

/// Lease on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// The run it was taken for.
    pub run: RunId,
    /// The fencing number.
    pub fence: u64,
    /// Time of expiry.
    pub expires_at: Timestamp,
}

/// A message as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Its index in the session, from 0.
    pub seq: u64,
    /// The encoded message.
    pub message: Vec<u8>,
}

/// An open tool call as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// The call's id.
    pub id: String,
    /// The encoded call.
    pub call: Vec<u8>,
    /// The encoded result, if it is available.
    pub result: Option<Vec<u8>>,
}

/// The config document as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRow {
    /// Number of changes.
    pub generation: u64,
    /// The encoded document.
    pub document: Vec<u8>,
}

/// A piece of content, named by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its id; see [`Blob::new`].
    pub id: BlobId,
    /// The media type.
    pub media_type: String,
    /// The bytes.
    pub data: Vec<u8>,
}

impl Blob {
    /// Creates a blob whose id is the digest of its content: SHA-256 over the media type, a zero byte, and the data as
    /// standard base64 text. The same bytes with a different media type are a different blob.
    #[must_use]
    pub fn new(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        let media_type = media_type.into();
        let mut digest = Sha256::new();
        digest.update(media_type.as_bytes());
        digest.update([0]);
        // A multiple of three bytes has no padding, so the concatenated texts are the text of all data.
        for piece in data.chunks(3 * 4096) {
            digest.update(STANDARD.encode(piece));
        }
        Self { id: BlobId::from_digest(&digest.finalize().into()), media_type, data }
    }
}

/// Usage of a session on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageRow {
    /// The session.
    pub session: SessionId,
    /// Start of the day, in UTC.
    pub day: Timestamp,
    /// The tokens.
    pub usage: Usage,
    /// Their cost, where known.
    pub cost: Usd,
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Returns the day of a time, counted from 1970 in UTC.
pub(crate) fn day_of(at: Timestamp) -> i64 {
    at.as_microsecond().div_euclid(DAY)
}

/// Returns the start of a day.
pub(crate) fn start_of_day(day: i64) -> Timestamp {
    Timestamp::from_microsecond(day.saturating_mul(DAY)).unwrap_or_default()
}

/// Query for values of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateQuery {
    /// The value of a key, if it exists.
    Key {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
    },
    /// All values of a scope.
    Scope(String),
}

/// A value of the state as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRow {
    /// The key, unique in its scope.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
}

/// Changes in a scope of the state after a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateChanges {
    /// Current revision: the number of changes to the scope.
    pub revision: u64,
    /// The values that were put since and still exist, in the order in which their keys were added.
    pub put: Vec<StateRow>,
    /// All current keys in no particular order, if some were removed since.
    pub keys: Option<Vec<String>>,
}

/// Query for memories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryQuery {
    /// Words to search for; any of them matches.
    pub words: Vec<String>,
    /// Session to search; `None` for all sessions of the realm.
    pub session: Option<SessionId>,
    /// Maximum number of results.
    pub limit: u64,
}

/// A stored memory.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryRow {
    /// The session.
    pub session: SessionId,
    /// Index of its message in the session.
    pub seq: u64,
    /// Time it was stored.
    pub at: Timestamp,
    /// The text.
    pub text: String,
    /// Relevance, from 0; comparable only within one result.
    pub rank: f64,
}

/// Query for a list of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Labels that a session must have.
    pub labels: BTreeMap<String, String>,
    /// Whether to list archived sessions.
    pub archived: ArchivedFilter,
    /// Number of matching sessions to skip.
    pub offset: u64,
    /// Maximum number of results; `None` for all.
    pub limit: Option<u64>,
}

/// Whether to list archived sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArchivedFilter {
    /// Omit them.
    #[default]
    Hidden,
    /// List them with the others.
    Included,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_id_hashes_media_type_and_base64_text() {
        let digest = |text: &[u8]| BlobId::from_digest(&Sha256::digest(text).into());
        assert_eq!(Blob::new("text/plain", b"hi!?".to_vec()).id, digest(b"text/plain\0aGkhPw=="));
        assert_eq!(Blob::new("image/png", Vec::new()).id, digest(b"image/png\0"));

        let long = vec![7; 3 * 4096 * 2 + 1];
        let text = format!("a/b\0{}", STANDARD.encode(&long));
        assert_eq!(Blob::new("a/b", long).id, digest(text.as_bytes()));
    }
}
