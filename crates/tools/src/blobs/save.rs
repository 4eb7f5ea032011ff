//! `blob_save_file`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::blocking;
use crate::builtin::{Builtin, Reply, reply};
use crate::files::{Existing, Root};
use crate::storage::ToolStorage;

pub(crate) struct BlobSaveFile {
    pub(crate) root: Arc<Root>,
    pub(crate) shelf: Arc<dyn ToolStorage>,
}

/// The blob to write, and its destination.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id of the blob, `sha256:` and 64 hexadecimal digits.
    blob_id: String,
    /// The file to write, relative to the workspace.
    path: String,
    /// Whether to replace an existing file.
    #[serde(default)]
    overwrite: bool,
}

impl Builtin for BlobSaveFile {
    const NAME: &'static str = "blob_save_file";
    const DESCRIPTION: &'static str = "Write a blob to a file in the workspace.";
    const IMPACT: ToolImpact = ToolImpact::Destructive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let (id, blob) = super::find(&*self.shelf, &arguments.blob_id).await?;
        let root = Arc::clone(&self.root);
        let existing = if arguments.overwrite { Existing::Replaced } else { Existing::Refused };
        blocking(move |_| {
            let place = root.parse_write_path(&arguments.path)?;
            let mode = root.permissions(&place)?;
            root.make_parents(&place)?;
            root.stage(&place, &blob.data, mode)?.put(existing)?;
            reply(&json!({
                "blob_id": id,
                "media_type": blob.media_type,
                "path": place.display_path(),
                "bytes_written": blob.data.len(),
            }))
        })
        .await
    }
}
