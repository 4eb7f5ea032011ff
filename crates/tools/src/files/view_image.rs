//! `view_image`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{Content, ContentBlock, MediaSource, SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::Root;
use crate::blocking::blocking;
use crate::builtin::{Builtin, Reply};

/// Maximum size of an image.
const MAX_BYTES: u64 = 5 * 1024 * 1024;

pub(crate) struct ViewImage(pub(crate) Arc<Root>);

/// The image to view.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Path of the image, relative to the workspace: PNG, JPEG, GIF, or WebP, up to 5 MB.
    path: String,
}

impl Builtin for ViewImage {
    const NAME: &'static str = "view_image";
    const DESCRIPTION: &'static str = "View an image in the workspace.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Reply {
        let root = Arc::clone(&self.0);
        blocking(move |_| {
            let place = root.parse_file_path(&arguments.path)?;
            let data = root.read(&place, MAX_BYTES, "is larger than 5 MB")?;
            let why = "is not a PNG, JPEG, GIF, or WebP image; use read_file for text, including SVG";
            let media_type = media_type(&data).ok_or_else(|| place.unusable(why))?;
            let source = MediaSource::Inline { data: STANDARD.encode(data) };
            let image = ContentBlock::Image { media_type: media_type.to_owned(), source };
            Ok(ToolOutput { content: Content::from(vec![image]), is_error: false, images: Vec::new() })
        })
        .await
    }
}

/// Detects an image type by the first bytes: a wrong type would make every later request of the conversation fail.
fn media_type(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
