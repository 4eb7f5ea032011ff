//! Image generation with OpenAI: the newest model through the image tool of Responses, which can also edit images;
//! older models through the images API.

use std::sync::Arc;

use meerkat_core::{
    Image, ImageFormat, ImageModel, ImageQuality, ImageRequest, ImageSize, ModelErrorKind, Provider,
};
use meerkat_fetch::Http;
use serde_json::{Map, Value, json};

use super::{Format, HttpImageModel, ImagePayload, RequestBody, data_url, without};
use crate::endpoint::Endpoint;
use crate::responses::{Responses, refused_in_answer, without_version};
use crate::wire::{Failure, object};

/// The model that calls the image tool.
const CALLER: &str = "gpt-5.4";
/// Keys that a caller's parameters may not override.
const RESERVED: [&str; 8] = ["model", "prompt", "n", "type", "stream", "input", "tools", "response_format"];

/// Creates an OpenAI image model. The base URL may end with `/v1`.
#[must_use]
pub fn openai_images(model: String, mut endpoint: Endpoint, http: Http) -> Arc<dyn ImageModel> {
    endpoint.base_url = without_version(&endpoint.base_url).to_owned();
    let wire = Responses { provider: Provider::OpenAi };
    if model.starts_with("gpt-image-2") {
        Arc::new(HttpImageModel { wire, format: ImageTool, model, endpoint, http })
    } else {
        Arc::new(HttpImageModel { wire, format: ImagesApi, model, endpoint, http })
    }
}

/// The image tool of the Responses API.
struct ImageTool;

/// The images API.
struct ImagesApi;

impl Format for ImageTool {
    fn path(&self, _: &str) -> String {
        "/v1/responses".to_owned()
    }

    fn body(&self, model: &str, request: &ImageRequest) -> Result<RequestBody, String> {
        let mut tool = options(request);
        tool.insert("type".to_owned(), json!("image_generation"));
        tool.insert("model".to_owned(), json!(model));
        let action = if request.sources.is_empty() { "generate" } else { "edit" };
        tool.entry("action").or_insert_with(|| json!(action));
        let image =
            |image: &Image| json!({ "type": "input_image", "detail": "auto", "image_url": data_url(image) });
        let images = request.sources.iter().chain(&request.references).map(image);
        let mut content = vec![json!({ "type": "input_text", "text": request.prompt })];
        content.extend(images);
        let json = json!({
            "model": CALLER,
            "input": [{ "type": "message", "role": "user", "content": content }],
            "tools": [tool],
            "tool_choice": { "type": "image_generation" },
            "store": false,
        });
        Ok(RequestBody { json, warnings: Vec::new() })
    }

    fn read(&self, answer: &Value) -> Result<ImagePayload, Failure> {
        if answer["status"] == "failed" || answer.get("error").is_some_and(|error| !error.is_null()) {
            return Err(refused_in_answer(answer));
        }
        let items = answer["output"].as_array().ok_or("`output` is not a list")?;
        let mut drawn = ImagePayload::default();
        for item in items {
            match item["type"].as_str() {
                Some("image_generation_call") => {
                    drawn.images.extend(item["result"].as_str().map(str::to_owned));
                    drawn.revised_prompt = text(&item["revised_prompt"]).or(drawn.revised_prompt);
                    drawn.metadata = without(item, &["result", "revised_prompt", "type"]);
                }
                Some("message") => drawn.text = message_text(item).or(drawn.text),
                _ => {}
            }
        }
        if drawn.images.is_empty() && answer["incomplete_details"]["reason"] == "content_filter" {
            return Err(Failure::new(ModelErrorKind::ContentFilter, "the content filter blocked the image"));
        }
        Ok(drawn)
    }
}

impl Format for ImagesApi {
    fn path(&self, _: &str) -> String {
        "/v1/images/generations".to_owned()
    }

    fn body(&self, model: &str, request: &ImageRequest) -> Result<RequestBody, String> {
        if !request.sources.is_empty() || !request.references.is_empty() {
            return Err(format!("`{model}` does not accept images; use `gpt-image-2` to edit one"));
        }
        let mut body = options(request);
        let mut warnings = Vec::new();
        if model.starts_with("dall-e") {
            adapt(&mut body, model, request, &mut warnings);
        }
        body.insert("model".to_owned(), json!(model));
        body.insert("prompt".to_owned(), json!(request.prompt));
        body.insert("n".to_owned(), json!(1));
        Ok(RequestBody { json: Value::Object(body), warnings })
    }

    fn read(&self, answer: &Value) -> Result<ImagePayload, Failure> {
        let data = answer["data"].as_array().ok_or("`data` is not a list")?;
        if data.iter().any(|item| item["url"].is_string() && !item["b64_json"].is_string()) {
            return Err("received a URL instead of an image".into());
        }
        Ok(ImagePayload {
            images: data.iter().filter_map(|item| text(&item["b64_json"])).collect(),
            text: None,
            revised_prompt: data.iter().find_map(|item| text(&item["revised_prompt"])),
            metadata: without(answer, &["data"]),
        })
    }
}

/// Returns the requested options in OpenAI's terms; options left to the provider are omitted.
fn options(request: &ImageRequest) -> Map<String, Value> {
    let size = match request.size {
        ImageSize::Pixels { width, height } => Some(json!(format!("{width}x{height}"))),
        ImageSize::Auto => None,
    };
    let mut options = object([
        ("size", size),
        ("quality", (request.quality != ImageQuality::Auto).then(|| json!(request.quality))),
        ("output_format", (request.format != ImageFormat::Auto).then(|| json!(request.format))),
    ]);
    let params =
        request.params.iter().filter(|(key, value)| !RESERVED.contains(&key.as_str()) && !value.is_null());
    options.extend(params.map(|(key, value)| (key.clone(), value.clone())));
    options
}

/// Adjusts the options for older models, which return URLs by default and support two qualities and one format.
fn adapt(body: &mut Map<String, Value>, model: &str, request: &ImageRequest, warnings: &mut Vec<String>) {
    body.insert("response_format".to_owned(), json!("b64_json"));
    body.shift_remove("quality");
    if request.quality == ImageQuality::High && model == "dall-e-3" {
        body.insert("quality".to_owned(), json!("hd"));
    }
    if body.shift_remove("output_format").is_some() && request.format != ImageFormat::Png {
        warnings.push(format!("`{model}` supports only PNG"));
    }
}

fn message_text(message: &Value) -> Option<String> {
    let parts = message["content"].as_array()?;
    let texts: Vec<_> =
        parts.iter().filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str())).collect();
    (!texts.is_empty()).then(|| texts.join(""))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
