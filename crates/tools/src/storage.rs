//! The port to durable storage: blobs, and the tasks of a session.

use meerkat_core::{BlobId, BoxFuture, SessionId};

/// A stored blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// MIME type.
    pub media_type: String,
    /// Content.
    pub data: Vec<u8>,
}

/// The store of a realm failed.
#[derive(Debug, thiserror::Error)]
#[error("the realm's store failed")]
pub struct StorageError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Durable storage for tools.
pub trait ToolStorage: Send + Sync {
    /// Reads a blob.
    fn blob(&self, id: BlobId) -> BoxFuture<'_, Result<Option<StoredBlob>, StorageError>>;

    /// Stores a blob.
    fn put_blob(&self, blob: StoredBlob) -> BoxFuture<'_, Result<BlobId, StorageError>>;

    /// Returns the encoded tasks of a session, in creation order.
    fn tasks(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<Vec<u8>>, StorageError>>;

    /// Stores a new task of a session; returns false, and stores nothing, if the session has `limit` tasks.
    fn add_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
        limit: usize,
    ) -> BoxFuture<'_, Result<bool, StorageError>>;

    /// Stores a task of a session, replacing the one with its id if it exists.
    fn put_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), StorageError>>;
}
