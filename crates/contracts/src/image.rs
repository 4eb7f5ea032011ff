//! Images on the wire: what is asked for and what is given.

use meerkat_core::{BlobRef, ImageFormat, ImageQuality, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An image to make or to change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageInput {
    /// `generate` a new image, or `edit` one.
    pub intent: Option<ImageIntent>,
    /// What the image shall show (to generate).
    pub prompt: Option<String>,
    /// What shall be changed (to edit).
    pub instruction: Option<String>,
    /// The images to change (to edit).
    pub source_images: Option<Vec<ImageRef>>,
    /// Images to go by.
    pub reference_images: Option<Vec<ImageRef>>,
    /// `auto`, or pixels such as `1024x1024`, `1024x1536` and `1536x1024`.
    pub size: Option<String>,
    /// How well it shall be done.
    pub quality: Option<ImageQuality>,
    /// How it shall be encoded.
    pub format: Option<ImageEncoding>,
    /// How many images; only 1 is possible.
    pub count: Option<u32>,
    /// The same as `count`.
    pub n: Option<u32>,
    /// Always `auto`.
    pub target: Option<ImageTarget>,
    /// Who makes it: `openai` or `gemini`; whoever there is a key for if left out.
    pub provider: Option<ImageProvider>,
    /// Which model makes it; the provider's default if left out.
    pub model: Option<String>,
    /// Parameters for the provider.
    pub provider_params: Option<Map<String, Value>>,
}

/// What to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageIntent {
    /// Make a new image.
    #[default]
    Generate,
    /// Change one.
    Edit,
}

/// How the model is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageTarget {
    /// By what the request says and which keys there are.
    #[default]
    Auto,
}

/// Who makes images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageProvider {
    /// OpenAI.
    #[serde(rename = "openai")]
    OpenAi,
    /// Google Gemini.
    Gemini,
    /// Google Gemini, by its other name.
    Google,
}

impl From<ImageProvider> for Provider {
    fn from(provider: ImageProvider) -> Self {
        match provider {
            ImageProvider::OpenAi => Self::OpenAi,
            ImageProvider::Gemini | ImageProvider::Google => Self::Gemini,
        }
    }
}

/// How an image shall be encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageEncoding {
    /// As the provider likes.
    #[default]
    Auto,
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// JPEG, by its other name.
    Jpg,
    /// WebP.
    Webp,
}

impl From<ImageEncoding> for ImageFormat {
    fn from(encoding: ImageEncoding) -> Self {
        match encoding {
            ImageEncoding::Auto => Self::Auto,
            ImageEncoding::Png => Self::Png,
            ImageEncoding::Jpeg | ImageEncoding::Jpg => Self::Jpeg,
            ImageEncoding::Webp => Self::Webp,
        }
    }
}

/// An image that is there already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ImageRef {
    /// One that was made in this session.
    AssistantImage {
        /// Its id.
        image_id: String,
    },
    /// One in the realm's store.
    Blob {
        /// Where.
        blob_ref: BlobRef,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ImageReply {
    /// The id of this request.
    pub operation_id: String,
    /// How it ended.
    pub terminal: ImageTerminal,
    /// The images.
    pub images: Vec<ImageView>,
    /// What the provider said besides.
    pub provider_text: Option<String>,
    /// The prompt as the provider rewrote it.
    pub revised_prompt: Option<String>,
    /// What else the provider says of it, in its form.
    pub native_metadata: Value,
    /// What of the request could not be had.
    pub warnings: Vec<String>,
    /// Who was asked.
    pub provider: Provider,
    /// The model that was asked.
    pub model: String,
}

/// How a request for an image ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageTerminal {
    /// The end.
    pub terminal: ImageEnd,
}

/// The ends of a request for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageEnd {
    /// There is an image.
    Generated,
    /// There is none, and the provider does not say why.
    EmptyResult,
    /// The request was not allowed: the credentials are missing or wrong.
    Denied,
    /// The provider did not take the request.
    RefusedByProvider,
    /// The provider's filter stopped it.
    SafetyFiltered,
    /// The provider or the way to it failed.
    Failed,
    /// It took too long.
    Timeout,
}

/// An image that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageView {
    /// Its id.
    pub image_id: String,
    /// Where the bytes are.
    pub blob_ref: BlobRef,
    /// Its MIME type.
    pub media_type: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
}
