//! A call to a local server through the `Model` interface.

use std::sync::Mutex;

use meerkat_core::{Delta, ModelErrorKind, Provider};
use meerkat_fetch::Http;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::super::chat;
use super::{complete_stream, delta, info, request, text, user};
use crate::endpoint::{Endpoint, Secret};

/// Responds to one request; returns its head and its body.
async fn serve(listener: &TcpListener, reply: String) -> (String, Value) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    let (head, body) = loop {
        assert_ne!(socket.read_buf(&mut received).await.unwrap(), 0);
        let text = String::from_utf8_lossy(&received);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        if let Ok(body) = serde_json::from_str(body) {
            break (head.to_lowercase(), body);
        }
    };
    socket.write_all(reply.as_bytes()).await.unwrap();
    (head, body)
}

#[tokio::test]
async fn request_uses_the_servers_model_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let endpoint = Endpoint { base_url, key: Secret::new("k") };
    let model = chat(info(), "qwen3:8b".to_owned(), endpoint, Http::default());
    assert_eq!(model.info(), &info());
    let stream = complete_stream(&[delta(json!({ "content": "hello" }))], "stop");
    let reply =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{stream}");
    let deltas = Mutex::new(Vec::new());
    let (request, sink) = (request(vec![user("hi")]), |delta| match delta {
        Delta::Received => {}
        delta => deltas.lock().unwrap().push(delta),
    });
    let ((head, body), answer) = tokio::join!(serve(&listener, reply), model.generate(&request, &sink));
    assert_eq!(answer.unwrap().blocks, [text("hello")]);
    assert_eq!(*deltas.lock().unwrap(), [Delta::Text("hello".to_owned())]);
    assert!(head.starts_with("post /v1/chat/completions http/1.1"), "{head}");
    assert!(head.contains("authorization: bearer k"), "{head}");
    assert_eq!(body["model"], "qwen3:8b");

    let reply = "HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"Loading model\"}}"
        .to_owned();
    let (_, answer) = tokio::join!(serve(&listener, reply), model.generate(&request, &|_| {}));
    let error = answer.unwrap_err();
    assert_eq!(
        (error.kind, error.provider, error.status),
        (ModelErrorKind::Overloaded, Provider::SelfHosted, Some(503))
    );
    assert_eq!(error.message, "HTTP 503: Loading model");
}
