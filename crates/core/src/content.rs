//! Content of user messages and tool results.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::BlobId;

/// A list of blocks.
///
/// On the wire, a single text block is a plain string; anything else is a list of blocks. Both forms are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content(Vec<ContentBlock>);

/// One piece of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// MIME type.
        media_type: String,
        /// Location of the bytes.
        #[serde(flatten)]
        source: MediaSource,
    },
    /// A video clip.
    Video {
        /// MIME type.
        media_type: String,
        /// Duration in milliseconds.
        duration_ms: u64,
        /// Location of the bytes.
        #[serde(flatten)]
        source: MediaSource,
    },
    /// A file of another kind, such as audio or a document. The model sees a placeholder instead of the content.
    File {
        /// MIME type.
        media_type: String,
        /// Location of the bytes.
        #[serde(flatten)]
        source: MediaSource,
    },
}

/// Location of the bytes of an image, video, or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum MediaSource {
    /// Inline, in base64.
    Inline {
        /// The bytes in base64.
        data: String,
    },
    /// In the realm's blob store.
    Blob {
        /// The blob's id.
        blob_id: BlobId,
    },
}

impl Content {
    /// Creates content with one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self(vec![ContentBlock::Text { text: text.into() }])
    }

    /// Returns the blocks.
    #[must_use]
    pub fn into_blocks(self) -> Vec<ContentBlock> {
        self.0
    }

    /// Returns the blocks.
    #[must_use]
    pub fn blocks(&self) -> &[ContentBlock] {
        &self.0
    }

    /// Returns `true` if the content is empty or only blank text.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.0.iter().all(|block| matches!(block, ContentBlock::Text { text } if text.trim().is_empty()))
    }

    /// Returns the content as text, with placeholders for other blocks.
    #[must_use]
    pub fn to_text(&self) -> String {
        let parts: Vec<_> = self.0.iter().map(ContentBlock::to_text).collect();
        parts.join("\n")
    }

    /// Changes every text.
    pub(crate) fn change_texts(&mut self, change: impl Fn(&mut String)) {
        for block in &mut self.0 {
            if let ContentBlock::Text { text } = block {
                change(text);
            }
        }
    }
}

impl ContentBlock {
    /// Returns the text of the block, or a placeholder such as `[image: image/png]`.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Image { media_type, .. } => format!("[image: {media_type}]"),
            Self::Video { media_type, .. } => format!("[video: {media_type}]"),
            Self::File { media_type, source: MediaSource::Inline { .. } } => format!("[file: {media_type}]"),
            Self::File { media_type, source: MediaSource::Blob { blob_id } } => {
                format!("[file: {media_type}, stored as {blob_id}]")
            }
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Vec<ContentBlock>> for Content {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self(blocks)
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [ContentBlock::Text { text }] => serializer.serialize_str(text),
            blocks => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBlocks)
    }
}

/// Visitor that accepts both forms and reports errors of individual blocks.
struct TextOrBlocks;

impl<'de> Visitor<'de> for TextOrBlocks {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of content blocks")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content::text(text))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Content, E> {
        Ok(Content::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Content, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Content)
    }
}

impl JsonSchema for Content {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Content".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let blocks = generator.subschema_for::<Vec<ContentBlock>>();
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, blocks] })
    }
}
