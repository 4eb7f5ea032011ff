//! The port through which images are made, and what an image is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BoxFuture, ModelError, Provider};

/// An image to make.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImageRequest {
    /// What it shall show, or what shall be changed.
    pub prompt: String,
    /// The images to change; none where a new one is wanted.
    pub sources: Vec<Picture>,
    /// Images to go by.
    pub references: Vec<Picture>,
    /// How large it shall be.
    pub size: ImageSize,
    /// How well it shall be done.
    pub quality: ImageQuality,
    /// How it shall be encoded.
    pub format: ImageFormat,
    /// What the caller wants to pass to this provider.
    pub params: Map<String, Value>,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImageAnswer {
    /// The images.
    pub pictures: Vec<Picture>,
    /// What the provider said besides.
    pub text: Option<String>,
    /// The prompt as the provider rewrote it.
    pub revised_prompt: Option<String>,
    /// What else the provider says of it, in its form.
    pub metadata: Value,
    /// What of the request could not be had.
    pub warnings: Vec<String>,
}

/// An image and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its MIME type.
    pub media_type: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// The bytes.
    pub data: Vec<u8>,
}

/// How large an image shall be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageSize {
    /// As the provider likes.
    #[default]
    Auto,
    /// So many pixels.
    Pixels {
        /// How many across.
        width: u32,
        /// How many down.
        height: u32,
    },
}

/// How well an image shall be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageQuality {
    /// As the provider likes.
    #[default]
    Auto,
    /// Quickly.
    Low,
    /// Well enough.
    Medium,
    /// As well as can be.
    High,
}

/// How an image shall be encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageFormat {
    /// As the provider likes.
    #[default]
    Auto,
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
}

/// A model that makes images.
pub trait ImageModel: Send + Sync {
    /// Returns its id.
    fn id(&self) -> &str;

    /// Returns who serves it.
    fn provider(&self) -> Provider;

    /// Asks once. Nothing is retried here; dropping the future abandons the call.
    fn draw<'a>(&'a self, request: &'a ImageRequest) -> BoxFuture<'a, Result<ImageAnswer, ModelError>>;
}

impl ImageSize {
    /// Reads `auto` or `WIDTHxHEIGHT`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "auto" {
            return Some(Self::Auto);
        }
        let (width, height) = text.split_once('x')?;
        let pixels = |text: &str| text.parse::<u32>().ok().filter(|count| (1..=16_384).contains(count));
        Some(Self::Pixels { width: pixels(width)?, height: pixels(height)? })
    }
}

impl ImageQuality {
    /// Returns the name used on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl ImageFormat {
    /// Returns the name used on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Webp => "webp",
        }
    }
}

impl Picture {
    /// Reads what the bytes are; `None` if they are no image of a kind that is known: PNG, JPEG, GIF, WebP.
    #[must_use]
    pub fn read(data: Vec<u8>) -> Option<Self> {
        let (media_type, width, height) = png(&data)
            .map(|(width, height)| ("image/png", width, height))
            .or_else(|| jpeg(&data).map(|(width, height)| ("image/jpeg", width, height)))
            .or_else(|| gif(&data).map(|(width, height)| ("image/gif", width, height)))
            .or_else(|| webp(&data).map(|(width, height)| ("image/webp", width, height)))?;
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

/// Walks from marker to marker to the one that begins the frame.
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
            // Padding, and marks that stand alone.
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
        Picture::read(data.to_vec()).map(|picture| (picture.media_type, picture.width, picture.height))
    }

    fn is(media_type: &str) -> Option<(String, u32, u32)> {
        Some((media_type.to_owned(), 3, 2))
    }

    #[test]
    fn pictures_are_known_by_their_bytes() {
        assert_eq!(read(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x06"), is("image/png"));
        assert_eq!(read(b"GIF89a\x03\0\x02\0"), is("image/gif"));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x03x\xff\xff\xc2\0\x0b\x08\0\x02\0\x03\x03";
        assert_eq!(read(jpeg), is("image/jpeg"));
        assert_eq!(read(b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x02\0\0\x01\0\0"), is("image/webp"));
        assert_eq!(read(b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x02\x40\0\0"), is("image/webp"));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x03\0\x02\0";
        assert_eq!(read(lossy), is("image/webp"));
    }

    #[test]
    fn what_is_no_picture_is_none_however_it_is_cut() {
        let good: [&[u8]; 3] = [
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02",
            b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x0b\x08\0\x02\0\x03",
            b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x02\0\0\x01\0\0",
        ];
        for whole in good {
            assert!(read(whole).is_some());
            for cut in 0..whole.len() {
                assert_eq!(read(&whole[..cut]), None, "{cut}");
            }
        }
        assert_eq!(read(b"<html>"), None);
    }

    #[test]
    fn sizes_are_auto_or_pixels() {
        assert_eq!(ImageSize::parse("auto"), Some(ImageSize::Auto));
        assert_eq!(ImageSize::parse("1024x768"), Some(ImageSize::Pixels { width: 1024, height: 768 }));
        for bad in ["", "large", "x", "0x10", "10x", "-1x5", "99999x1"] {
            assert_eq!(ImageSize::parse(bad), None, "{bad}");
        }
    }
}
