//! Images on the wire: requests and replies.

use meerkat_core::{BlobRef, ImageFormat, ImageQuality, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An image to generate or edit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageInput {
    /// `generate` a new image, or `edit` one.
    pub intent: Option<ImageIntent>,
    /// Image description (for `generate`).
    pub prompt: Option<String>,
    /// Change to make (for `edit`).
    pub instruction: Option<String>,
    /// Images to change (for `edit`).
    pub source_images: Option<Vec<ImageRef>>,
    /// Images to use as a reference.
    pub reference_images: Option<Vec<ImageRef>>,
    /// `auto`, or pixels such as `1024x1024`, `1024x1536`, or `1536x1024`.
    #[schemars(regex(pattern = "^(auto|[1-9][0-9]{0,3}x[1-9][0-9]{0,3})$"))]
    pub size: Option<String>,
    /// Quality of the image.
    pub quality: Option<ImageQuality>,
    /// Encoding of the image.
    pub format: Option<ImageEncoding>,
    /// Number of images; only 1 is supported.
    #[schemars(range(min = 1, max = 1))]
    pub count: Option<u32>,
    /// Alias for `count`.
    #[schemars(range(min = 1, max = 1))]
    pub n: Option<u32>,
    /// Always `auto`.
    pub target: Option<ImageTarget>,
    /// Provider: `openai` or `gemini`; one with an API key if omitted.
    pub provider: Option<ImageProvider>,
    /// Image model; the provider's default if omitted.
    pub model: Option<String>,
    /// Provider parameters.
    pub provider_params: Option<Map<String, Value>>,
}

/// Kind of image request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageIntent {
    /// Generate a new image.
    #[default]
    Generate,
    /// Change an existing image.
    Edit,
}

/// Rule for choosing the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageTarget {
    /// Based on the request and the available API keys.
    #[default]
    Auto,
}

/// Provider of image models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageProvider {
    /// OpenAI.
    #[serde(rename = "openai")]
    OpenAi,
    /// Google Gemini.
    Gemini,
    /// Alias for `gemini`.
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

/// Encoding of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageEncoding {
    /// The provider's choice.
    #[default]
    Auto,
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// Alias for `jpeg`.
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

/// An existing image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ImageRef {
    /// An image generated in this session.
    AssistantImage {
        /// The image's id.
        image_id: String,
    },
    /// An image in the realm's store.
    Blob {
        /// Reference to the blob.
        blob_ref: BlobRef,
    },
}

/// Result of an image request.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ImageReply {
    /// The id of this request.
    pub operation_id: String,
    /// Outcome of the request.
    pub terminal: ImageTerminal,
    /// Generated images.
    pub images: Vec<ImageView>,
    /// Text the provider returned along with the image.
    pub provider_text: Option<String>,
    /// The prompt as rewritten by the provider.
    pub revised_prompt: Option<String>,
    /// Further metadata from the provider, in the provider's format.
    pub native_metadata: Value,
    /// Request options that were ignored or adjusted.
    pub warnings: Vec<String>,
    /// Provider that was called.
    pub provider: Provider,
    /// Model that was called.
    pub model: String,
}

/// Outcome of an image request, as an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageTerminal {
    /// The outcome.
    pub terminal: ImageEnd,
}

/// Possible outcomes of an image request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageEnd {
    /// An image was generated.
    Generated,
    /// The provider returned no image and no reason.
    EmptyResult,
    /// The request was not allowed: the credentials are missing or invalid.
    Denied,
    /// The provider rejected the request.
    RefusedByProvider,
    /// The provider's safety filter blocked it.
    SafetyFiltered,
    /// The provider or the connection to it failed.
    Failed,
    /// The request timed out.
    Timeout,
}

/// A generated image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageView {
    /// The image's id.
    pub image_id: String,
    /// Reference to the blob with the bytes.
    pub blob_ref: BlobRef,
    /// MIME type of the bytes.
    pub media_type: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}
