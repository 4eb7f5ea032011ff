//! `meerkat_blob_get`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_contracts::{BlobReply, BlobRequest};

use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_blob_get`.
pub struct BlobGet;

impl Operation for BlobGet {
    const NAME: &'static str = "meerkat_blob_get";
    const TITLE: &'static str = "Fetch a blob";
    const DOC: &'static str = "Fetch a blob by id, base64-encoded: an image, or the full text of a truncated answer or \
        message. Ids come from blob_id fields in other replies.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = BlobRequest;
    type Output = BlobReply;

    async fn call(call: Call, input: BlobRequest) -> Result<BlobReply, Error> {
        let blob = call.runtime.blob(&input.blob_id).await?;
        Ok(BlobReply { blob_id: blob.id, media_type: blob.media_type, data: STANDARD.encode(&blob.data) })
    }
}
