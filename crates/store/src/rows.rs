//! What a store gives back. Times are kept to the microsecond.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{BlobId, RunId, SessionId, Timestamp};
use sha2::{Digest as _, Sha256};

/// A session as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was archived, if it was.
    pub archived_at: Option<Timestamp>,
    /// How many messages it has.
    pub message_count: u64,
    /// What it can be found by.
    pub labels: BTreeMap<String, String>,
    /// The encoded settings.
    pub settings: Vec<u8>,
    /// The encoded running totals.
    pub progress: Vec<u8>,
    /// How often the session was leased; grows with every lease.
    pub fence: u64,
    /// The lease, if one is held by a living owner; whether it ran out is for the caller's clock to say.
    pub lease: Option<LeaseRow>,
}

/// Who may run a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// The run it was taken for.
    pub run: RunId,
    /// The fencing number.
    pub fence: u64,
    /// When it runs out.
    pub expires_at: Timestamp,
}

/// A message as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Its place in the session, from 0.
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
    /// The encoded result, if it is in.
    pub result: Option<Vec<u8>>,
}

/// The config document as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRow {
    /// How many times it was changed.
    pub generation: u64,
    /// The encoded document.
    pub document: Vec<u8>,
}

/// A piece of content, named by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its id: see [`Blob::new`].
    pub id: BlobId,
    /// What the bytes are.
    pub media_type: String,
    /// The bytes.
    pub data: Vec<u8>,
}

impl Blob {
    /// Names content by its digest: SHA-256 over the media type, a zero byte, and the data as standard
    /// base64 text. The same bytes under another media type are another blob.
    #[must_use]
    pub fn new(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        let media_type = media_type.into();
        let mut digest = Sha256::new();
        digest.update(media_type.as_bytes());
        digest.update([0]);
        // A multiple of three bytes has no padding, so the pieces' texts join to the text of the whole.
        for piece in data.chunks(3 * 4096) {
            digest.update(STANDARD.encode(piece));
        }
        Self { id: BlobId::from_digest(&digest.finalize().into()), media_type, data }
    }
}

/// Which values of the state to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateQuery {
    /// The one under a key, if there is one.
    Key {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
    },
    /// All of a scope.
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

/// What changed in a scope of the state after some revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateChanges {
    /// How often the scope was changed by now.
    pub revision: u64,
    /// The values that were put since and are still there, in the order in which their keys were new.
    pub put: Vec<StateRow>,
    /// All keys that there are now, in no order, if some were removed since.
    pub keys: Option<Vec<String>>,
}

/// What to look for in what was remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryQuery {
    /// Any of these words.
    pub words: Vec<String>,
    /// Only of this session; `None` for all of the realm.
    pub session: Option<SessionId>,
    /// How many to return at most.
    pub limit: u64,
}

/// Something that was remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryRow {
    /// The session it was said in.
    pub session: SessionId,
    /// Its place among the session's messages.
    pub seq: u64,
    /// When it was remembered.
    pub at: Timestamp,
    /// What was said.
    pub text: String,
    /// How well it fits, from 0; comparable within one answer only.
    pub rank: f64,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only sessions with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Whether archived sessions are listed.
    pub archived: Archived,
    /// How many matching sessions to pass over.
    pub offset: u64,
    /// How many to return at most; `None` for all.
    pub limit: Option<u64>,
}

/// Whether archived sessions are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Archived {
    /// They are left out.
    #[default]
    Hidden,
    /// They are listed with the others.
    Included,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_named_by_media_type_and_base64_text() {
        let digest = |text: &[u8]| BlobId::from_digest(&Sha256::digest(text).into());
        assert_eq!(Blob::new("text/plain", b"hi!?".to_vec()).id, digest(b"text/plain\0aGkhPw=="));
        assert_eq!(Blob::new("image/png", Vec::new()).id, digest(b"image/png\0"));

        let long = vec![7; 3 * 4096 * 2 + 1];
        let text = format!("a/b\0{}", STANDARD.encode(&long));
        assert_eq!(Blob::new("a/b", long).id, digest(text.as_bytes()));
    }
}
