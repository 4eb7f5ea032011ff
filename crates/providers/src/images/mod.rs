//! Models that make images, one file for each provider.
//!
//! A file owns how a request looks and where in an answer the images are. An answer comes whole, so it has a
//! limit of its own: an image is larger than any event of a stream.

#[cfg(feature = "gemini")]
mod gemini;
#[cfg(feature = "responses")]
mod openai;
#[cfg(test)]
#[cfg(all(feature = "gemini", feature = "responses"))]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{
    BoxFuture, ImageAnswer, ImageModel, ImageRequest, ModelError, ModelErrorKind, Picture, Provider,
};
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::http::{Http, Post, chunk};
use crate::wire::{Refusal, error};

#[cfg(feature = "gemini")]
pub use gemini::gemini_images;
#[cfg(feature = "responses")]
pub use openai::openai_images;

/// The longest answer that is read.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// How much of what a model said instead of drawing is shown.
const MAX_SAID: usize = 300;

/// How images are asked for and given.
trait Format: Send + Sync + 'static {
    /// Who is asked.
    fn provider(&self) -> Provider;

    /// Where a request goes, below the base URL.
    fn path(&self, model: &str) -> String;

    /// The header that holds the key.
    fn key_header(&self, key: &str) -> (&'static str, String);

    /// Makes the body of a request, or says what of it cannot be had at all.
    fn body(&self, model: &str, request: &ImageRequest) -> Result<Asked, String>;

    /// Finds the images in an answer.
    fn read(&self, answer: &Value) -> Result<Drawn, ModelError>;

    /// Reads the error that came instead of an answer.
    fn refusal(&self, status: u16, body: &Value) -> (Refusal, Option<Duration>);
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    json: Value,
    /// What was left out of it.
    warnings: Vec<String>,
}

/// What an answer holds.
#[derive(Debug, Clone, Default, PartialEq)]
struct Drawn {
    /// The images in base64.
    pictures: Vec<String>,
    text: Option<String>,
    revised_prompt: Option<String>,
    metadata: Value,
}

/// An image model behind a format.
struct Painter<F> {
    format: F,
    model: String,
    endpoint: Endpoint,
    http: Http,
}

impl<F: Format> Painter<F> {
    fn shared(format: F, model: String, endpoint: Endpoint, http: Http) -> Arc<dyn ImageModel> {
        Arc::new(Self { format, model, endpoint, http })
    }

    fn error(&self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        error(self.format.provider(), kind, message)
    }

    async fn ask(&self, body: &Value) -> Result<Value, ModelError> {
        let provider = self.format.provider();
        let key = self.endpoint.key.expose();
        let headers = if key.is_empty() { Vec::new() } else { vec![self.format.key_header(key)] };
        let path = self.format.path(&self.model);
        let post = Post { provider, endpoint: &self.endpoint, path, headers, body };
        let mut response = self.http.post(post, &|status, body| self.format.refusal(status, body)).await?;
        let mut text = Vec::new();
        while let Some(bytes) = chunk(provider, &mut response).await? {
            if text.len() + bytes.as_ref().len() > MAX_ANSWER {
                let message = format!("the answer is longer than {MAX_ANSWER} bytes");
                return Err(self.error(ModelErrorKind::Malformed, message));
            }
            text.extend_from_slice(bytes.as_ref());
        }
        serde_json::from_slice(&text)
            .map_err(|odd| self.error(ModelErrorKind::Malformed, format!("the answer is not JSON: {odd}")))
    }

    fn pictures(&self, drawn: &Drawn) -> Result<Vec<Picture>, ModelError> {
        if drawn.pictures.is_empty() {
            let said: String = drawn.text.iter().flat_map(|text| text.chars()).take(MAX_SAID).collect();
            let said = if said.is_empty() { said } else { format!("; the model said: {said}") };
            return Err(self.error(ModelErrorKind::Incomplete, format!("no image came{said}")));
        }
        let read = |data: &String| {
            let bytes = STANDARD
                .decode(data)
                .map_err(|_| self.error(ModelErrorKind::Malformed, "the image is not base64"))?;
            Picture::read(bytes).ok_or_else(|| {
                self.error(ModelErrorKind::Malformed, "what came is no PNG, JPEG, GIF or WebP image")
            })
        };
        drawn.pictures.iter().map(read).collect()
    }
}

impl<F: Format> ImageModel for Painter<F> {
    fn id(&self) -> &str {
        &self.model
    }

    fn provider(&self) -> Provider {
        self.format.provider()
    }

    fn draw<'a>(&'a self, request: &'a ImageRequest) -> BoxFuture<'a, Result<ImageAnswer, ModelError>> {
        Box::pin(async move {
            let asked = self.format.body(&self.model, request);
            let asked = asked.map_err(|reason| self.error(ModelErrorKind::BadRequest, reason))?;
            let drawn = self.format.read(&self.ask(&asked.json).await?)?;
            Ok(ImageAnswer {
                pictures: self.pictures(&drawn)?,
                text: drawn.text,
                revised_prompt: drawn.revised_prompt,
                metadata: drawn.metadata,
                warnings: asked.warnings,
            })
        })
    }
}

/// Writes an image as a data URL.
#[cfg(feature = "responses")]
fn data_url(picture: &Picture) -> String {
    format!("data:{};base64,{}", picture.media_type, STANDARD.encode(&picture.data))
}

/// Returns what remains of an answer without its images.
fn without(value: &Value, keys: &[&str]) -> Value {
    let mut rest = value.as_object().cloned().unwrap_or_default();
    rest.retain(|key, value| !keys.contains(&key.as_str()) && !value.is_null());
    json!(rest)
}
