//! `blob_load_file`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::blocking;
use crate::builtin::{Builtin, Reply, reply};
use crate::files::{Root, WorkspacePath};
use crate::storage::{StoredBlob, ToolStorage};

/// Maximum size of a file to store.
const MAX_BYTES: u64 = 25 * 1024 * 1024;

pub(crate) struct BlobLoadFile {
    pub(crate) root: Arc<Root>,
    pub(crate) shelf: Arc<dyn ToolStorage>,
}

/// The file to store.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The file, relative to the workspace; up to 25 MB.
    path: String,
    /// Media type; inferred from the file name if omitted.
    media_type: Option<String>,
}

impl Builtin for BlobLoadFile {
    const NAME: &'static str = "blob_load_file";
    const DESCRIPTION: &'static str = "Store a workspace file as a blob and return its id.";
    const IMPACT: ToolImpact = ToolImpact::Additive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let root = Arc::clone(&self.root);
        let (place, data) = blocking(move |_| {
            let place = root.parse_file_path(&arguments.path)?;
            let data = root.read(&place, MAX_BYTES, "is larger than 25 MB")?;
            Ok((place, data))
        })
        .await?;
        let media_type = arguments.media_type.unwrap_or_else(|| media_type(&place).to_owned());
        let bytes_read = data.len();
        let id = self.shelf.put_blob(StoredBlob { media_type: media_type.clone(), data }).await?;
        reply(&json!({
            "blob_id": id,
            "media_type": media_type,
            "path": place.display_path(),
            "bytes_read": bytes_read,
        }))
    }
}

fn media_type(place: &WorkspacePath) -> &'static str {
    match place.path().extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "md" => "text/markdown",
        "txt" | "rs" | "py" | "js" | "ts" | "toml" | "yaml" | "yml" | "log" => "text/plain",
        _ => "application/octet-stream",
    }
}
