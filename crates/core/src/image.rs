//! The image generation port, and the image type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BoxFuture, ModelError, Provider};

/// A request to generate or edit an image.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImageRequest {
    /// Description of the image, or of the change.
    pub prompt: String,
    /// Images to edit; empty to generate a new one.
    pub sources: Vec<Image>,
    /// Reference images.
    pub references: Vec<Image>,
    /// Requested size.
    pub size: ImageSize,
    /// Requested quality.
    pub quality: ImageQuality,
    /// Requested encoding.
    pub format: ImageFormat,
    /// Extra parameters from the caller for this provider.
    pub params: Map<String, Value>,
}

/// Response to an image request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImageResponse {
    /// Generated images.
    pub images: Vec<Image>,
    /// Text the provider returned alongside the images.
    pub text: Option<String>,
    /// Prompt as revised by the provider.
    pub revised_prompt: Option<String>,
    /// Other metadata from the provider, in its format.
    pub metadata: Value,
    /// Request options that were ignored or adjusted.
    pub warnings: Vec<String>,
}

/// An image with its type and dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// MIME type.
    pub media_type: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Encoded bytes.
    pub data: Vec<u8>,
}

/// Size of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageSize {
    /// Chosen by the provider.
    #[default]
    Auto,
    /// An exact size in pixels.
    Pixels {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
}

/// Quality of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageQuality {
    /// Chosen by the provider.
    #[default]
    Auto,
    /// Low quality, fastest.
    Low,
    /// Medium quality.
    Medium,
    /// High quality.
    High,
}

/// Encoding of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// Chosen by the provider.
    #[default]
    Auto,
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
}

/// A model that generates images.
pub trait ImageModel: Send + Sync {
    /// Returns the id of the model.
    fn id(&self) -> &str;

    /// Returns the provider of the model.
    fn provider(&self) -> Provider;

    /// Calls the model once. Nothing is retried here; dropping the future cancels the call.
    fn generate<'a>(&'a self, request: &'a ImageRequest) -> BoxFuture<'a, Result<ImageResponse, ModelError>>;
}

impl ImageSize {
    /// Parses `auto` or `WIDTHxHEIGHT`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "auto" {
            return Some(Self::Auto);
        }
        let (width, height) = text.split_once('x')?;
        let is_plain = |text: &str| !text.starts_with(['0', '+']);
        let pixels =
            |text: &str| text.parse().ok().filter(|count| is_plain(text) && (1..=9999).contains(count));
        Some(Self::Pixels { width: pixels(width)?, height: pixels(height)? })
    }
}

impl Image {
    /// Detects type and dimensions of an image; `None` if the format is unknown (not PNG, JPEG, GIF, or WebP).
    #[must_use]
    pub fn read(data: Vec<u8>) -> Option<Self> {
        let (media_type, (width, height)) = png(&data)
            .map(|extents| ("image/png", extents))
            .or_else(|| jpeg(&data).map(|extents| ("image/jpeg", extents)))
            .or_else(|| gif(&data).map(|extents| ("image/gif", extents)))
            .or_else(|| webp(&data).map(|extents| ("image/webp", extents)))?;
        Some(Self { media_type: media_type.to_owned(), width, height, data })
    }
}

/// Width and height.
type Extents = (u32, u32);

fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn png(data: &[u8]) -> Option<Extents> {
    let is_png = data.starts_with(b"\x89PNG\r\n\x1a\n") && bytes(data, 12)? == *b"IHDR";
    is_png.then_some((u32::from_be_bytes(bytes(data, 16)?), u32::from_be_bytes(bytes(data, 20)?)))
}

fn gif(data: &[u8]) -> Option<Extents> {
    let is_gif = data.starts_with(b"GIF87a") || data.starts_with(b"GIF89a");
    let side = |at| Some(u32::from(u16::from_le_bytes(bytes(data, at)?)));
    is_gif.then_some((side(6)?, side(8)?))
}

/// Walks the markers up to the one that starts the frame.
fn jpeg(data: &[u8]) -> Option<Extents> {
    if !data.starts_with(&[0xff, 0xd8, 0xff]) {
        return None;
    }
    let mut at = 2;
    loop {
        let [mark, kind] = bytes(data, at)?;
        if mark != 0xff {
            return None;
        }
        match kind {
            // Padding, and markers without a length.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xcf if !matches!(kind, 0xc4 | 0xc8 | 0xcc) => {
                let side = |at| Some(u32::from(u16::from_be_bytes(bytes(data, at)?)));
                return Some((side(at + 7)?, side(at + 5)?));
            }
            _ => at += 2 + usize::from(u16::from_be_bytes(bytes(data, at + 2)?)),
        }
    }
}

fn webp(data: &[u8]) -> Option<Extents> {
    if !data.starts_with(b"RIFF") || bytes(data, 8)? != *b"WEBP" {
        return None;
    }
    let three = |at| bytes::<3>(data, at).map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]));
    match &bytes(data, 12)? {
        b"VP8X" => Some((three(24)? + 1, three(27)? + 1)),
        b"VP8L" => {
            let bits = u32::from_le_bytes(bytes(data, 21)?);
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => {
            let side = |at| Some(u32::from(u16::from_le_bytes(bytes(data, at)?) & 0x3fff));
            Some((side(26)?, side(28)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[u8]) -> Option<(String, u32, u32)> {
        Image::read(data.to_vec()).map(|image| (image.media_type, image.width, image.height))
    }

    fn expected(media_type: &str) -> Option<(String, u32, u32)> {
        Some((media_type.to_owned(), 3, 2))
    }

    #[test]
    fn image_types_are_detected_from_bytes() {
        assert_eq!(
            read(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x06"),
            expected("image/png")
        );
        assert_eq!(read(b"GIF89a\x03\0\x02\0"), expected("image/gif"));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x03x\xff\xff\xc2\0\x0b\x08\0\x02\0\x03\x03";
        assert_eq!(read(jpeg), expected("image/jpeg"));
        assert_eq!(read(b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x02\0\0\x01\0\0"), expected("image/webp"));
        assert_eq!(read(b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x02\x40\0\0"), expected("image/webp"));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x03\0\x02\0";
        assert_eq!(read(lossy), expected("image/webp"));
    }

    #[test]
    fn truncated_or_unknown_image_is_rejected() {
        let good: [&[u8]; 3] = [
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02",
            b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x0b\x08\0\x02\0\x03",
            b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x02\0\0\x01\0\0",
        ];
        for complete in good {
            assert!(read(complete).is_some());
            for cut in 0..complete.len() {
                assert_eq!(read(&complete[..cut]), None, "{cut}");
            }
        }
        assert_eq!(read(b"<html>"), None);
    }

    #[test]
    fn sizes_are_auto_or_pixels() {
        assert_eq!(ImageSize::parse("auto"), Some(ImageSize::Auto));
        assert_eq!(ImageSize::parse("1024x768"), Some(ImageSize::Pixels { width: 1024, height: 768 }));
        for bad in ["", "large", "x", "0x10", "10x", "-1x5", "10000x1", "1x+1", "01x1"] {
            assert_eq!(ImageSize::parse(bad), None, "{bad}");
        }
    }
}
