//! Streams from a local server that break off.

use std::sync::{Arc, Mutex};

use meerkat_core::{
    Content, Delta, Message, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Provider, Timestamp,
};
use meerkat_fetch::Http;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::endpoint::{Endpoint, Secret};

fn request() -> ModelRequest {
    let content = Content::text("hi");
    ModelRequest {
        system: String::new(),
        messages: vec![Arc::new(Message::User { content, created_at: Timestamp::UNIX_EPOCH })],
        tools: Arc::new([]),
        max_tokens: 100,
        temperature: None,
        output_schema: None,
        provider_params: None,
    }
}

/// Constructor of a provider's model.
type Make = fn(ModelInfo, Endpoint, Http) -> Arc<dyn Model>;

/// Head of a streaming response.
const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Calls a model whose server responds with this stream.
async fn ask(make: Make, provider: Provider, stream: &[u8]) -> (Vec<Delta>, ModelError) {
    ask_for(make, provider, STREAM, stream).await.0
}

fn anthropic(info: ModelInfo, endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    crate::anthropic(info, endpoint, http, None)
}

fn gemini(info: ModelInfo, endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    crate::gemini(info, endpoint, http, None)
}

/// Calls a model whose server responds with this head and body; also returns the base URL.
async fn ask_for(
    make: Make,
    provider: Provider,
    head: &str,
    body: &[u8],
) -> ((Vec<Delta>, ModelError), String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = Endpoint { base_url: base_url.clone(), key: Secret::new("k") };
    let model = make(ModelInfo::new("m", provider), endpoint, Http::default());
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut received = vec![0; 64 * 1024];
        assert_ne!(socket.read(&mut received).await.unwrap(), 0);
        socket.write_all(head.as_bytes()).await.unwrap();
        // The reader disconnects when it has received enough.
        let _ = socket.write_all(body).await;
    };
    let deltas = Mutex::new(Vec::new());
    let sink = |delta| match delta {
        Delta::Received => {}
        delta => deltas.lock().unwrap().push(delta),
    };
    let request = request();
    let (answer, ()) = tokio::join!(model.generate(&request, &sink), serve);
    ((deltas.into_inner().unwrap(), answer.unwrap_err()), base_url)
}

fn chat(info: ModelInfo, endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    crate::chat(info, "m".to_owned(), endpoint, http)
}

#[tokio::test]
async fn endless_line_is_an_error_of_its_provider() {
    let mut line = b"data: \"".to_vec();
    line.resize(10 * 1024 * 1024, b'x');
    let message = "an event of the stream is longer than 8388608 bytes".to_owned();
    let (kind, status, retry_after) = (ModelErrorKind::Malformed, None, None);
    let makers: [(Provider, Make); 4] = [
        (Provider::Anthropic, anthropic),
        (Provider::OpenAi, crate::responses),
        (Provider::Gemini, gemini),
        (Provider::SelfHosted, chat),
    ];
    for (provider, make) in makers {
        let expected = ModelError { kind, provider, status, retry_after, message: message.clone() };
        assert_eq!(ask(make, provider, &line).await, (Vec::new(), expected));
    }
}

#[tokio::test]
async fn text_before_an_invalid_line_is_emitted() {
    let good = json!({ "choices": [{ "index": 0, "delta": { "content": "so far" } }] });
    let stream = [format!("data: {good}\n\n").as_bytes(), b"data: \xff\xfe\n\n"].concat();
    let (deltas, error) = ask(chat, Provider::SelfHosted, &stream).await;
    assert_eq!(deltas, [Delta::Text("so far".to_owned())]);
    assert_eq!(error.to_string(), "self_hosted: a line of the stream is not UTF-8");
}

#[tokio::test]
async fn endless_response_is_aborted() {
    // Comments are ignored, so only the length can be invalid.
    let stream = format!(": {}\n", "x".repeat(1 << 20)).repeat(65);
    let (deltas, error) = ask(chat, Provider::SelfHosted, stream.as_bytes()).await;
    assert_eq!(deltas, []);
    assert_eq!(error.to_string(), "self_hosted: the response is longer than 67108864 bytes");
}

#[tokio::test]
async fn comments_show_that_a_response_continues() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = Endpoint { base_url, key: Secret::new("k") };
    let model = chat(ModelInfo::new("m", Provider::SelfHosted), endpoint, Http::default());
    let (heard, mut received) = tokio::sync::mpsc::unbounded_channel();
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert_ne!(socket.read(&mut [0; 4096]).await.unwrap(), 0);
        for part in [STREAM, ": still thinking\n\n"] {
            socket.write_all(part.as_bytes()).await.unwrap();
            assert_eq!(received.recv().await, Some(Delta::Received));
        }
    };
    let sink = |delta| heard.send(delta).unwrap();
    let request = request();
    tokio::select! {
        answer = model.generate(&request, &sink) => panic!("{answer:?}"),
        () = serve => {}
    }
}

#[tokio::test]
async fn web_page_is_an_error_without_retry() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\nconnection: close\r\n\r\n";
    let body = b"<!doctype html><title>Welcome</title>";
    let ((deltas, error), base_url) = ask_for(anthropic, Provider::Anthropic, head, body).await;
    let message =
        format!("HTTP 200: {base_url} returned a web page instead of a model response; check the `base_url`");
    let expected = ModelError {
        kind: ModelErrorKind::BadRequest,
        provider: Provider::Anthropic,
        status: Some(200),
        retry_after: None,
        message,
    };
    assert_eq!((deltas, &error), (Vec::new(), &expected));
    let decision = meerkat_core::RetryPolicy::default().decide(&error, 1, 0.5);
    assert_eq!(decision, meerkat_core::RetryDecision::GiveUp);
}

#[tokio::test]
async fn redirect_is_reported_and_not_followed() {
    let cases = [
        (
            "location: https://me:word@other.example:8443/v1/x?token=t\r\n",
            " to https://other.example:8443/v1/x",
        ),
        ("", ""),
    ];
    for (location, target) in cases {
        let head = format!("HTTP/1.1 308 Permanent Redirect\r\n{location}connection: close\r\n\r\n");
        let ((_, error), base_url) = ask_for(gemini, Provider::Gemini, &head, b"").await;
        let message = format!(
            "HTTP 308: {base_url} redirects{target}, which is not followed; set `base_url` to the \
             provider's URL"
        );
        assert_eq!(
            (error.kind, error.status, error.message),
            (ModelErrorKind::BadRequest, Some(308), message)
        );
    }
}
