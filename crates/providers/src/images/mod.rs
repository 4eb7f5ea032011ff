//! Image models, one file for each provider.
//!
//! Each file owns the request format and the location of images in a response. A response is not streamed, so it
//! has a separate size limit: an image is larger than any event of a stream.

#[cfg(feature = "gemini")]
mod gemini;
#[cfg(feature = "responses")]
mod openai;
#[cfg(test)]
#[cfg(all(feature = "gemini", feature = "responses"))]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{
    BoxFuture, Image, ImageModel, ImageRequest, ImageResponse, ModelError, ModelErrorKind, Provider,
};
use meerkat_fetch::Http;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::http::{Post, chunk, post};
use crate::wire::{Failure, Wire, error};

#[cfg(feature = "gemini")]
pub use gemini::gemini_images;
#[cfg(feature = "responses")]
pub use openai::openai_images;

/// Maximum size of a response in bytes.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// Maximum number of characters of the model's text quoted in an error.
const MAX_QUOTE: usize = 300;

/// The format of requests and responses of an image API.
trait Format: Send + Sync + 'static {
    /// The path of a request, below the base URL.
    fn path(&self, model: &str) -> String;

    /// Builds the body of a request, or returns why the request cannot be served.
    fn body(&self, model: &str, request: &ImageRequest) -> Result<RequestBody, String>;

    /// Extracts the images from a response.
    fn read(&self, answer: &Value) -> Result<ImagePayload, Failure>;
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq)]
struct RequestBody {
    json: Value,
    /// Options that were ignored or adjusted.
    warnings: Vec<String>,
}

/// Content of a response.
#[derive(Debug, Clone, Default, PartialEq)]
struct ImagePayload {
    /// The images in base64.
    images: Vec<String>,
    text: Option<String>,
    revised_prompt: Option<String>,
    metadata: Value,
}

/// An image model behind a format. The key and errors are those of the provider's text models.
struct HttpImageModel<W, F> {
    wire: W,
    format: F,
    model: String,
    endpoint: Endpoint,
    http: Http,
}

impl<W: Wire, F: Format> HttpImageModel<W, F> {
    fn error(&self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        error(self.wire.provider(), kind, message)
    }

    async fn ask(&self, body: &Value) -> Result<Value, ModelError> {
        let headers = self.wire.headers(self.endpoint.key.expose());
        let path = self.format.path(&self.model);
        let call = Post { wire: &self.wire, endpoint: &self.endpoint, path, headers, body };
        let mut response = post(&self.http, call).await?;
        let mut text = Vec::new();
        while let Some(bytes) = chunk(self.wire.provider(), &mut response).await? {
            if text.len() + bytes.as_ref().len() > MAX_ANSWER {
                let message = format!("the response is longer than {MAX_ANSWER} bytes");
                return Err(self.error(ModelErrorKind::Malformed, message));
            }
            text.extend_from_slice(bytes.as_ref());
        }
        serde_json::from_slice(&text).map_err(|error| {
            self.error(ModelErrorKind::Malformed, format!("the response is not JSON: {error}"))
        })
    }

    fn images(&self, drawn: &ImagePayload) -> Result<Vec<Image>, ModelError> {
        if drawn.images.is_empty() {
            let quote: String = drawn.text.iter().flat_map(|text| text.chars()).take(MAX_QUOTE).collect();
            let quote = if quote.is_empty() { quote } else { format!("; the model said: {quote}") };
            return Err(self.error(ModelErrorKind::Incomplete, format!("the response has no image{quote}")));
        }
        let read = |data: &String| {
            let bytes = STANDARD
                .decode(data)
                .map_err(|_| self.error(ModelErrorKind::Malformed, "the image is not base64"))?;
            Image::read(bytes).ok_or_else(|| {
                self.error(ModelErrorKind::Malformed, "the image is not PNG, JPEG, GIF, or WebP")
            })
        };
        drawn.images.iter().map(read).collect()
    }
}

impl<W: Wire, F: Format> ImageModel for HttpImageModel<W, F> {
    fn id(&self) -> &str {
        &self.model
    }

    fn provider(&self) -> Provider {
        self.wire.provider()
    }

    fn generate<'a>(&'a self, request: &'a ImageRequest) -> BoxFuture<'a, Result<ImageResponse, ModelError>> {
        Box::pin(async move {
            let body = self.format.body(&self.model, request);
            let body = body.map_err(|reason| self.error(ModelErrorKind::BadRequest, reason))?;
            let drawn = self.format.read(&self.ask(&body.json).await?);
            let drawn = drawn.map_err(|failure| failure.within("invalid response").of(self.provider()))?;
            Ok(ImageResponse {
                images: self.images(&drawn)?,
                text: drawn.text,
                revised_prompt: drawn.revised_prompt,
                metadata: drawn.metadata,
                warnings: body.warnings,
            })
        })
    }
}

/// Formats an image as a data URL.
#[cfg(feature = "responses")]
fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, STANDARD.encode(&image.data))
}

/// Returns the fields of a response without its images.
fn without(value: &Value, keys: &[&str]) -> Value {
    let mut rest = value.as_object().cloned().unwrap_or_default();
    rest.retain(|key, value| !keys.contains(&key.as_str()) && !value.is_null());
    json!(rest)
}
