//! `view_image`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{Content, ContentBlock, MediaSource, SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::Root;
use crate::Error;
use crate::builtin::Builtin;
use crate::work::blocking;

/// The largest image.
const MAX_BYTES: u64 = 5 * 1024 * 1024;

pub(crate) struct ViewImage(pub(crate) Arc<Root>);

/// Which image.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The image, relative to the workspace: PNG, JPEG, GIF or WebP, up to 5 MB.
    path: String,
}

impl Builtin for ViewImage {
    const NAME: &'static str = "view_image";
    const DESCRIPTION: &'static str = "Look at an image of the workspace.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, _: SessionId) -> Result<ToolOutput, Error> {
        let root = Arc::clone(&self.0);
        blocking(move |_| {
            let place = root.file_place(&arguments.path)?;
            let data = root.read(&place, MAX_BYTES, "is larger than 5 MB")?;
            let why = "is not a PNG, JPEG, GIF or WebP image; read_file shows texts, SVG among them";
            let media_type = media_type(&data).ok_or(Error::Content { path: place.shown(), why })?;
            let source = MediaSource::Inline { data: STANDARD.encode(data) };
            let image = ContentBlock::Image { media_type: media_type.to_owned(), source };
            Ok(ToolOutput { content: Content::from(vec![image]), is_error: false, images: Vec::new() })
        })
        .await
    }
}

/// Tells an image by its first bytes: a wrong name must not spoil a conversation for good.
fn media_type(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
