//! Blobs on the wire.

use meerkat_core::BlobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Request for a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobRequest {
    /// The blob's id: `sha256:` and 64 hexadecimal digits.
    pub blob_id: BlobId,
}

/// A blob and its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlobReply {
    /// The blob's id.
    pub blob_id: BlobId,
    /// MIME type of the bytes.
    pub media_type: String,
    /// The bytes, base64-encoded.
    pub data: String,
}
