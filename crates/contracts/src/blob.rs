//! Blobs on the wire.

use meerkat_core::BlobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobRequest {
    /// The blob: `sha256:` and 64 hexadecimal digits.
    pub blob_id: String,
}

/// A blob and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlobReply {
    /// The blob.
    pub blob_id: BlobId,
    /// What the bytes are.
    pub media_type: String,
    /// The bytes in base64.
    pub data: String,
}
