//! Streams that break in the middle, from a server on this machine.

use std::sync::{Arc, Mutex};

use meerkat_core::{
    Content, Delta, Message, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Provider, Timestamp,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Endpoint, Http};
use crate::endpoint::Secret;

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

/// Makes a model of a provider.
type Make = fn(ModelInfo, Endpoint, Http) -> Arc<dyn Model>;

/// The head of an answer that is a stream.
const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Asks a model of a server that answers every request with this stream.
async fn ask(make: Make, provider: Provider, stream: &[u8]) -> (Vec<Delta>, ModelError) {
    ask_for(make, provider, STREAM, stream).await.0
}

/// Asks a model of a server that answers every request with this; returns its address too.
async fn ask_for(
    make: Make,
    provider: Provider,
    head: &str,
    body: &[u8],
) -> ((Vec<Delta>, ModelError), String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = Endpoint { base_url: base_url.clone(), key: Secret::new("k") };
    let model = make(ModelInfo::new("m", provider), endpoint, Http::new());
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = vec![0; 64 * 1024];
        assert_ne!(socket.read(&mut seen).await.unwrap(), 0);
        socket.write_all(head.as_bytes()).await.unwrap();
        // The reader hangs up when it has seen enough.
        let _ = socket.write_all(body).await;
    };
    let deltas = Mutex::new(Vec::new());
    let sink = |delta| deltas.lock().unwrap().push(delta);
    let request = request();
    let (answer, ()) = tokio::join!(model.ask(&request, &sink), serve);
    ((deltas.into_inner().unwrap(), answer.unwrap_err()), base_url)
}

fn chat(info: ModelInfo, endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    crate::chat(info, "m".to_owned(), endpoint, http)
}

#[tokio::test]
async fn a_line_without_end_is_an_error_of_its_provider() {
    let mut line = b"data: \"".to_vec();
    line.resize(10 * 1024 * 1024, b'x');
    let message = "an event of the stream is longer than 8388608 bytes".to_owned();
    let (kind, status, retry_after) = (ModelErrorKind::Malformed, None, None);
    let makers: [(Provider, Make); 4] = [
        (Provider::Anthropic, crate::anthropic),
        (Provider::OpenAi, crate::responses),
        (Provider::Gemini, crate::gemini),
        (Provider::SelfHosted, chat),
    ];
    for (provider, make) in makers {
        let expected = ModelError { kind, provider, status, retry_after, message: message.clone() };
        assert_eq!(ask(make, provider, &line).await, (Vec::new(), expected));
    }
}

#[tokio::test]
async fn what_came_before_a_broken_line_is_shown() {
    let good = json!({ "choices": [{ "index": 0, "delta": { "content": "so far" } }] });
    let stream = [format!("data: {good}\n\n").as_bytes(), b"data: \xff\xfe\n\n"].concat();
    let (deltas, error) = ask(chat, Provider::SelfHosted, &stream).await;
    assert_eq!(deltas, [Delta::Text("so far".to_owned())]);
    assert_eq!(error.to_string(), "self_hosted: a line of the stream is not UTF-8");
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    // Comments are passed over, so that nothing but their length can be wrong with them.
    let stream = format!(": {}\n", "x".repeat(1 << 20)).repeat(65);
    let (deltas, error) = ask(chat, Provider::SelfHosted, stream.as_bytes()).await;
    assert_eq!(deltas, []);
    assert_eq!(error.to_string(), "self_hosted: the answer is longer than 67108864 bytes");
}

#[tokio::test]
async fn a_web_page_is_no_answer_and_is_not_asked_for_again() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\nconnection: close\r\n\r\n";
    let body = b"<!doctype html><title>Welcome</title>";
    let ((deltas, error), base_url) = ask_for(crate::anthropic, Provider::Anthropic, head, body).await;
    let message =
        format!("HTTP 200: {base_url} answers with a web page, not as a model does; check the `base_url`");
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
async fn a_redirect_says_where_to_and_is_not_followed() {
    let cases = [
        (
            "location: https://me:word@other.example:8443/v1/x?token=t\r\n",
            " to https://other.example:8443/v1/x",
        ),
        ("", ""),
    ];
    for (location, place) in cases {
        let head = format!("HTTP/1.1 308 Permanent Redirect\r\n{location}connection: close\r\n\r\n");
        let ((_, error), base_url) = ask_for(crate::gemini, Provider::Gemini, &head, b"").await;
        let message = format!(
            "HTTP 308: {base_url} redirects{place}, where the key is not taken; set the `base_url` to where the \
             provider is"
        );
        assert_eq!(
            (error.kind, error.status, error.message),
            (ModelErrorKind::BadRequest, Some(308), message)
        );
    }
}
