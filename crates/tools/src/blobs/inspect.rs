//! `blob_inspect`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{Builtin, Reply, reply};
use crate::storage::ToolStorage;

pub(crate) struct BlobInspect(pub(crate) Arc<dyn ToolStorage>);

/// The blob to inspect.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id of the blob, `sha256:` and 64 hexadecimal digits.
    blob_id: String,
}

impl Builtin for BlobInspect {
    const NAME: &'static str = "blob_inspect";
    const DESCRIPTION: &'static str = "Show a blob's media type and size.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let (id, blob) = super::find(&*self.0, &arguments.blob_id).await?;
        reply(&json!({ "blob_id": id, "media_type": blob.media_type, "size_bytes": blob.data.len() }))
    }
}
