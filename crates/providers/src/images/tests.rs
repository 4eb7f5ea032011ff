//! Image requests and responses, with a local server.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::{
    Image, ImageFormat, ImageModel, ImageQuality, ImageRequest, ImageResponse, ImageSize, ModelError,
    ModelErrorKind,
};
use meerkat_fetch::Http;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{gemini_images, openai_images};
use crate::endpoint::{Endpoint, Secret};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x06";

fn encoded() -> String {
    STANDARD.encode(PNG)
}

fn image() -> Image {
    Image::read(PNG.to_vec()).unwrap()
}

fn openai(model: &str) -> impl Fn(Endpoint) -> Arc<dyn ImageModel> {
    let model = model.to_owned();
    move |endpoint| openai_images(model.clone(), endpoint, Http::default())
}

fn gemini(model: &str) -> impl Fn(Endpoint) -> Arc<dyn ImageModel> {
    let model = model.to_owned();
    move |endpoint| gemini_images(model.clone(), endpoint, Http::default(), None)
}

/// A received request: the request line, the header with the key, the body.
type Seen = (String, String, Value);

/// Generates an image with a model whose server responds with this status and body.
async fn draw(
    make: impl Fn(Endpoint) -> Arc<dyn ImageModel>,
    request: &ImageRequest,
    (status, answer): (&str, String),
) -> (Seen, Result<ImageResponse, ModelError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let model = make(Endpoint { base_url, key: Secret::new("user-key") });
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        let (head, body) = loop {
            assert_ne!(socket.read_buf(&mut received).await.unwrap(), 0);
            let text = String::from_utf8_lossy(&received).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            if let Ok(body) = serde_json::from_str(body) {
                break (head.to_owned(), body);
            }
        };
        let head_of = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n{answer}");
        socket.write_all(head_of.as_bytes()).await.unwrap();
        let key = head.lines().find(|line| line.contains("user-key")).unwrap_or_default();
        (head.lines().next().unwrap_or_default().to_owned(), key.to_owned(), body)
    };
    let (drawn, seen) = tokio::join!(model.generate(request), serve);
    (seen, drawn)
}

fn ok(answer: &Value) -> (&'static str, String) {
    ("200 OK", answer.to_string())
}

fn full_request() -> ImageRequest {
    ImageRequest {
        prompt: "a meerkat".to_owned(),
        size: ImageSize::Pixels { width: 1536, height: 1024 },
        quality: ImageQuality::High,
        format: ImageFormat::Webp,
        params: Map::from_iter([
            ("background".to_owned(), json!("opaque")),
            ("model".to_owned(), json!("other")),
        ]),
        ..ImageRequest::default()
    }
}

fn plain_request() -> ImageRequest {
    ImageRequest { prompt: "a meerkat".to_owned(), ..ImageRequest::default() }
}

#[tokio::test]
async fn newest_openai_model_uses_the_image_tool() {
    let call = json!({
        "type": "image_generation_call", "id": "ig_1", "status": "completed", "result": encoded(),
        "revised_prompt": "a meerkat on a mound", "size": "1536x1024",
    });
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Here."}]});
    let answer = ok(&json!({"status": "completed", "error": null, "output": [call, message]}));
    let request = ImageRequest { sources: vec![image()], ..full_request() };
    let ((line, key, body), drawn) = draw(openai("gpt-image-2"), &request, answer).await;
    assert_eq!(
        (line.as_str(), key.as_str()),
        ("POST /v1/responses HTTP/1.1", "authorization: Bearer user-key")
    );
    let expected = json!({
        "model": "gpt-5.4",
        "input": [{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "a meerkat"},
            {"type": "input_image", "detail": "auto", "image_url": format!("data:image/png;base64,{}", encoded())},
        ]}],
        "tools": [{
            "size": "1536x1024", "quality": "high", "output_format": "webp", "background": "opaque",
            "type": "image_generation", "model": "gpt-image-2", "action": "edit",
        }],
        "tool_choice": {"type": "image_generation"},
        "store": false,
    });
    assert_eq!(body, expected);
    let expected = ImageResponse {
        images: vec![image()],
        text: Some("Here.".to_owned()),
        revised_prompt: Some("a meerkat on a mound".to_owned()),
        metadata: json!({"id": "ig_1", "status": "completed", "size": "1536x1024"}),
        warnings: Vec::new(),
    };
    assert_eq!(drawn, Ok(expected));
}

#[tokio::test]
async fn older_openai_models_use_the_images_api() {
    let answer = || ok(&json!({"created": 1, "data": [{"b64_json": encoded(), "revised_prompt": "so"}]}));
    let ((line, _, body), drawn) = draw(openai("gpt-image-1"), &full_request(), answer()).await;
    assert_eq!(line, "POST /v1/images/generations HTTP/1.1");
    let expected = json!({
        "size": "1536x1024", "quality": "high", "output_format": "webp", "background": "opaque",
        "model": "gpt-image-1", "prompt": "a meerkat", "n": 1,
    });
    assert_eq!(body, expected);
    let expected = ImageResponse {
        images: vec![image()],
        revised_prompt: Some("so".to_owned()),
        metadata: json!({"created": 1}),
        ..ImageResponse::default()
    };
    assert_eq!(drawn, Ok(expected.clone()));

    let ((_, _, body), drawn) = draw(openai("dall-e-3"), &full_request(), answer()).await;
    let sent = json!({
        "size": "1536x1024", "background": "opaque", "response_format": "b64_json", "quality": "hd",
        "model": "dall-e-3", "prompt": "a meerkat", "n": 1,
    });
    assert_eq!(body, sent);
    let warnings = vec!["`dall-e-3` supports only PNG".to_owned()];
    assert_eq!(drawn, Ok(ImageResponse { warnings, ..expected }));
}

#[tokio::test]
async fn gemini_returns_images_along_with_text() {
    let parts = json!([
        {"thought": true, "inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"text": "Here."},
        {"inlineData": {"mimeType": "image/png", "data": encoded()}},
    ]);
    let candidate = json!({"content": {"parts": parts}, "finishReason": "STOP"});
    let answer = ok(&json!({"candidates": [candidate], "modelVersion": "g"}));
    let params = Map::from_iter([("image_size".to_owned(), json!("2K")), ("top_k".to_owned(), json!(3))]);
    let size = ImageSize::Pixels { width: 1000, height: 600 };
    let request = ImageRequest { references: vec![image()], size, params, ..plain_request() };
    let ((line, key, body), drawn) = draw(gemini("gemini-2.5-flash-image"), &request, answer).await;
    assert_eq!(line, "POST /v1beta/models/gemini-2.5-flash-image:generateContent HTTP/1.1");
    assert_eq!(key, "x-goog-api-key: user-key");
    let expected = json!({
        "contents": [{"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": encoded()}}, {"text": "a meerkat"},
        ]}],
        "generationConfig": {
            "responseModalities": ["TEXT", "IMAGE"],
            "imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"},
        },
    });
    assert_eq!(body, expected);
    let warnings =
        ["1000x600 is generated as 16:9", "`provider_params.top_k` is not supported for Gemini images"];
    let expected = ImageResponse {
        images: vec![image()],
        text: Some("Here.".to_owned()),
        revised_prompt: None,
        metadata: json!({"modelVersion": "g"}),
        warnings: warnings.map(str::to_owned).to_vec(),
    };
    assert_eq!(drawn, Ok(expected));
}

async fn failure(
    make: impl Fn(Endpoint) -> Arc<dyn ImageModel>,
    answer: (&str, String),
) -> (ModelErrorKind, String) {
    let (_, drawn) = draw(make, &plain_request(), answer).await;
    let error = drawn.unwrap_err();
    assert!(!error.message.contains("user-key"));
    (error.kind, error.to_string())
}

#[tokio::test]
async fn failures_are_classified() {
    use ModelErrorKind as Kind;
    let error_body =
        |code: &str, message: &str| json!({"error": {"code": code, "message": message}}).to_string();
    let item = |result: &str| ok(&json!({"output": [{"type": "image_generation_call", "result": result}]}));
    let sorry =
        json!({"type": "message", "content": [{"type": "refusal", "refusal": "I would rather not."}]});
    let openai_failures = [
        (
            ("401 Unauthorized", error_body("invalid_api_key", "bad key")),
            Kind::Auth,
            "openai: HTTP 401: bad key",
        ),
        (
            ("400 Bad Request", error_body("moderation_blocked", "rejected")),
            Kind::ContentFilter,
            "openai: HTTP 400: rejected",
        ),
        (
            ("404 Not Found", error_body("model_not_found", "no such model")),
            Kind::BadRequest,
            "openai: HTTP 404: no such model",
        ),
        (
            ("429 Slow", error_body("rate_limit_exceeded", "slow down")),
            Kind::RateLimited,
            "openai: HTTP 429: slow down",
        ),
        (
            ("502 Bad Gateway", "<html><h1>Bad Gateway</h1></html>".to_owned()),
            Kind::Server,
            "openai: HTTP 502: Bad Gateway",
        ),
        (
            ok(&json!({"output": [sorry]})),
            Kind::Incomplete,
            "openai: the response has no image; the model said: I would rather not.",
        ),
        (ok(&json!({"output": []})), Kind::Incomplete, "openai: the response has no image"),
        (
            ok(&json!({"output": [], "incomplete_details": {"reason": "content_filter"}})),
            Kind::ContentFilter,
            "openai: the content filter blocked the image",
        ),
        (
            ok(&json!({"status": "failed", "error": {"code": "server_error", "message": "broken"}})),
            Kind::Server,
            "openai: broken",
        ),
        (ok(&json!({})), Kind::Malformed, "openai: invalid response: `output` is not a list"),
        (item("%%%"), Kind::Malformed, "openai: the image is not base64"),
        (item("PGh0bWw+"), Kind::Malformed, "openai: the image is not PNG, JPEG, GIF, or WebP"),
        (
            ("200 OK", "nothing".to_owned()),
            Kind::Malformed,
            "openai: the response is not JSON: expected ident at line 1 column 2",
        ),
    ];
    for (answer, kind, message) in openai_failures {
        assert_eq!(failure(openai("gpt-image-2"), answer).await, (kind, message.to_owned()));
    }
    let url_response = ok(&json!({"data": [{"url": "https://e.org/a.png"}]}));
    let message = "openai: invalid response: received a URL instead of an image".to_owned();
    assert_eq!(failure(openai("gpt-image-1"), url_response).await, (Kind::Malformed, message));
    let gemini_failures = [
        (
            ok(&json!({"promptFeedback": {"blockReason": "SAFETY"}})),
            Kind::ContentFilter,
            "gemini: the prompt was blocked (SAFETY)",
        ),
        (
            ok(&json!({"candidates": [{"finishReason": "IMAGE_SAFETY"}]})),
            Kind::ContentFilter,
            "gemini: IMAGE_SAFETY: the provider gave no reason",
        ),
        (ok(&json!({"candidates": []})), Kind::Incomplete, "gemini: the response has no image"),
        (
            ok(&json!({"candidates": 1})),
            Kind::Malformed,
            "gemini: invalid response: `candidates` is not a list",
        ),
    ];
    for (answer, kind, message) in gemini_failures {
        assert_eq!(failure(gemini("g"), answer).await, (kind, message.to_owned()));
    }
}

#[tokio::test]
async fn image_larger_than_a_stream_event_is_read() {
    let mut large = PNG.to_vec();
    large.resize(12 * 1024 * 1024, 0);
    let answer = ok(&json!({"data": [{"b64_json": STANDARD.encode(&large)}]}));
    let (_, drawn) = draw(openai("gpt-image-1"), &plain_request(), answer).await;
    assert_eq!(drawn.unwrap().images[0].data.len(), large.len());
}

#[tokio::test]
async fn model_without_image_input_is_not_called() {
    let endpoint = Endpoint { base_url: "http://127.0.0.1:1".to_owned(), key: Secret::new("k") };
    let request = ImageRequest { sources: vec![image()], ..plain_request() };
    let error = openai("dall-e-3")(endpoint).generate(&request).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert_eq!(error.message, "`dall-e-3` does not accept images; use `gpt-image-2` to edit one");
}
