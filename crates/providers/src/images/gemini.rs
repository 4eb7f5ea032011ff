//! Image generation with Gemini: a model that returns images along with text.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{Image, ImageFormat, ImageModel, ImageQuality, ImageRequest, ImageSize, ModelErrorKind};
use meerkat_fetch::Http;
use serde_json::{Map, Value, json};

use super::{Format, HttpImageModel, ImagePayload, RequestBody, without};
use crate::endpoint::Endpoint;
use crate::gemini::{Gemini, is_filtered, split_version};
use crate::wire::Failure;

/// Supported aspect ratios, widest first.
const RATIOS: [(u32, u32); 10] =
    [(21, 9), (16, 9), (3, 2), (4, 3), (5, 4), (1, 1), (4, 5), (3, 4), (2, 3), (9, 16)];

/// Creates a Gemini image model. `version` is the API version, unless the base URL ends with one.
#[must_use]
pub fn gemini_images(
    model: String,
    endpoint: Endpoint,
    http: Http,
    version: Option<String>,
) -> Arc<dyn ImageModel> {
    let (base_url, own) = split_version(&endpoint.base_url);
    let version = version.unwrap_or(own);
    let (wire, format) = (Gemini { version: version.clone() }, GenerateContent { version });
    let endpoint = Endpoint { base_url, key: endpoint.key };
    Arc::new(HttpImageModel { wire, format, model, endpoint, http })
}

struct GenerateContent {
    version: String,
}

impl Format for GenerateContent {
    fn path(&self, model: &str) -> String {
        format!("/{}/models/{model}:generateContent", self.version)
    }

    fn body(&self, model: &str, request: &ImageRequest) -> Result<RequestBody, String> {
        let mut warnings = Vec::new();
        if request.quality != ImageQuality::Auto {
            warnings.push(format!(
                "`{model}` does not support `quality`; pass `image_size` in `provider_params`"
            ));
        }
        if request.format != ImageFormat::Auto {
            warnings.push(format!("`{model}` chooses the format itself"));
        }
        let mut config = json!({ "responseModalities": ["TEXT", "IMAGE"] });
        let image = image_config(request, &mut warnings);
        if !image.is_empty() {
            config["imageConfig"] = Value::Object(image);
        }
        let mut parts: Vec<_> = request.sources.iter().chain(&request.references).map(part).collect();
        parts.push(json!({ "text": request.prompt }));
        let json = json!({ "contents": [{ "role": "user", "parts": parts }], "generationConfig": config });
        Ok(RequestBody { json, warnings })
    }

    fn read(&self, answer: &Value) -> Result<ImagePayload, Failure> {
        if let Some(reason) = answer["promptFeedback"]["blockReason"].as_str() {
            let why = format!("the prompt was blocked ({reason})");
            return Err(Failure::new(ModelErrorKind::ContentFilter, why));
        }
        let candidates = answer["candidates"].as_array().ok_or("`candidates` is not a list")?;
        let Some(first) = candidates.first() else { return Ok(ImagePayload::default()) };
        let mut drawn =
            ImagePayload { metadata: without(answer, &["candidates"]), ..ImagePayload::default() };
        let mut texts = Vec::new();
        // Images created during thinking are not part of the answer.
        let parts = first["content"]["parts"].as_array().into_iter().flatten();
        for part in parts.filter(|part| part["thought"] != true) {
            drawn.images.extend(part["inlineData"]["data"].as_str().map(str::to_owned));
            texts.extend(part["text"].as_str());
        }
        drawn.text = (!texts.is_empty()).then(|| texts.concat());
        let reason = first["finishReason"].as_str().unwrap_or_default();
        if drawn.images.is_empty() && is_filtered(reason) {
            let message = first["finishMessage"].as_str().unwrap_or("the provider gave no reason");
            return Err(Failure::new(ModelErrorKind::ContentFilter, format!("{reason}: {message}")));
        }
        Ok(drawn)
    }
}

fn part(image: &Image) -> Value {
    let data = STANDARD.encode(&image.data);
    json!({ "inlineData": { "mimeType": image.media_type, "data": data } })
}

/// Returns the image size in Gemini's terms: an aspect ratio and one of three sizes.
fn image_config(request: &ImageRequest, warnings: &mut Vec<String>) -> Map<String, Value> {
    let mut config = Map::new();
    if let ImageSize::Pixels { width, height } = request.size {
        let (across, down) = nearest(width, height);
        if u64::from(width) * u64::from(down) != u64::from(height) * u64::from(across) {
            warnings.push(format!("{width}x{height} is generated as {across}:{down}"));
        }
        config.insert("aspectRatio".to_owned(), json!(format!("{across}:{down}")));
    }
    for (key, value) in request.params.iter().filter(|(_, value)| !value.is_null()) {
        let name = match key.as_str() {
            "aspect_ratio" => "aspectRatio",
            "image_size" => "imageSize",
            other => {
                warnings.push(format!("`provider_params.{other}` is not supported for Gemini images"));
                continue;
            }
        };
        config.insert(name.to_owned(), value.clone());
    }
    config
}

/// Returns the nearest aspect ratio.
fn nearest(width: u32, height: u32) -> (u32, u32) {
    let distance = |(across, down): &(u32, u32)| {
        let (own, wanted) = (f64::from(*across) / f64::from(*down), f64::from(width) / f64::from(height));
        (own / wanted).ln().abs()
    };
    RATIOS.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or((1, 1))
}
