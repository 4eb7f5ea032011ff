//! `blob_inspect`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::builtin::{Builtin, json};
use crate::storage::ToolStorage;

pub(crate) struct BlobInspect(pub(crate) Arc<dyn ToolStorage>);

/// The blob to inspect.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id of the blob, `sha256:` and 64 hexadecimal digits.
    blob_id: String,
}

#[derive(Serialize)]
struct BlobInfo {
    blob_id: String,
    media_type: String,
    size_bytes: usize,
}

impl Builtin for BlobInspect {
    const NAME: &'static str = "blob_inspect";
    const DESCRIPTION: &'static str = "Show a blob's media type and size.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Result<ToolOutput, Error> {
        let (id, blob) = super::find(&*self.0, &arguments.blob_id).await?;
        json(&BlobInfo { blob_id: id.to_string(), media_type: blob.media_type, size_bytes: blob.data.len() })
    }
}
