//! The port to what is durable: blobs, and the tasks of a session.

use meerkat_core::{BlobId, BoxFuture, SessionId};

/// A blob as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its MIME type.
    pub media_type: String,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// The store of a realm failed.
#[derive(Debug, thiserror::Error)]
#[error("the realm's store failed")]
pub struct ShelfError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Where tools keep what must last.
pub trait Shelf: Send + Sync {
    /// Reads a blob.
    fn blob(&self, id: BlobId) -> BoxFuture<'_, Result<Option<StoredBlob>, ShelfError>>;

    /// Keeps a blob.
    fn put_blob(&self, blob: StoredBlob) -> BoxFuture<'_, Result<BlobId, ShelfError>>;

    /// Reads the encoded tasks of a session, in the order in which they were made.
    fn tasks(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<Vec<u8>>, ShelfError>>;

    /// Stores a new task of a session; returns false, and stores nothing, if the session has `limit` tasks.
    fn add_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
        limit: usize,
    ) -> BoxFuture<'_, Result<bool, ShelfError>>;

    /// Keeps a task of a session, in place of the one with its id if there is one.
    fn put_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), ShelfError>>;
}
