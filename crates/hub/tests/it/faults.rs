//! Misbehaving workers, and rejected connections.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use meerkat_hub::{Access, Client, ClientOptions, Limits, LocalFunction, Rbac};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::store::MemoryStore;
use crate::support::{Raw, TIMEOUT, serve, serve_with};

#[tokio::test]
async fn unknown_messages_are_ignored_and_fragments_read() {
    let served = serve();
    let mut raw = served.raw().await;
    for text in ["not json", "", "{\"type\":\"fancy\",\"x\":1}", "[]"] {
        raw.0.send(Message::text(text)).await.unwrap();
    }
    for bytes in [&b"OTLP{}"[..], b"MTRC{}", b"\xff\xfe"] {
        raw.0.send(Message::Binary(Bytes::copy_from_slice(bytes))).await.unwrap();
    }
    raw.0.send(Message::Binary(Bytes::from_static(b"{\"type\":\"ping\"}"))).await.unwrap();
    assert_eq!(raw.receive().await, json!({ "type": "pong" }));
    let pieces =
        [("{\"type\":", OpCode::Data(Data::Text), false), ("\"ping\"}", OpCode::Data(Data::Continue), true)];
    for (text, code, last) in pieces {
        raw.0.send(Message::Frame(Frame::message(text, code, last))).await.unwrap();
    }
    assert_eq!(raw.receive().await, json!({ "type": "pong" }));
    raw.0.send(Message::Ping(Bytes::from_static(b"x"))).await.unwrap();
    assert_eq!(raw.0.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"x")));
}

#[tokio::test]
async fn too_long_message_ends_only_its_connection() {
    let limits = Limits { message_bytes: 1024 * 1024, ..Limits::default() };
    let served = serve_with(Arc::new(MemoryStore::default()), limits, Access::default(), "127.0.0.1:0");
    let (mut long, mut other) = (served.raw().await, served.raw().await);
    let answer =
        other.call("state::set", json!({ "scope": "s", "key": "k", "value": "x".repeat(500_000) })).await;
    assert_eq!(answer["result"]["old_value"], Value::Null);
    // The connection may be closed while it still writes.
    let _ = long.0.send(Message::text("x".repeat(2 * 1024 * 1024))).await;
    while let Some(Ok(_)) = long.0.next().await {}
    assert_eq!(other.call("state::list_groups", json!({})).await["result"], json!({ "groups": ["s"] }));
}

#[tokio::test]
async fn message_limit_is_64_mebibytes() {
    let served = serve();
    let (mut long, mut other) = (served.raw().await, served.raw().await);
    let frame = r#"{"type":"ping","x":""}"#;
    let limit = Limits::default().message_bytes;
    let most = frame.replace(r#""""#, &format!("\"{}\"", "x".repeat(limit - frame.len())));
    assert_eq!(most.len(), 64 * 1024 * 1024);
    long.0.send(Message::text(most)).await.unwrap();
    assert_eq!(long.receive().await, json!({ "type": "pong" }));
    // The frame header contains the length: nothing else has to be sent.
    let mut head = vec![0x81, 0xff];
    head.extend_from_slice(&(limit as u64 + 1).to_be_bytes());
    head.extend_from_slice(&[0; 4]);
    long.0.get_mut().write_all(&head).await.unwrap();
    let Some(Ok(Message::Close(Some(closed)))) = long.0.next().await else { panic!("a reason") };
    assert_eq!((closed.code, closed.reason.as_str()), (CloseCode::Size, "message too long"));
    assert_eq!(other.call("state::list_groups", json!({})).await["result"], json!({ "groups": [] }));
}

#[tokio::test]
async fn throttled_worker_does_not_delay_others() {
    let limits = Limits { messages_per_second: 50, ..Limits::default() };
    let served = serve_with(Arc::new(MemoryStore::default()), limits, Access::default(), "127.0.0.1:0");
    let (mut loud, mut other) = (served.raw().await, served.raw().await);
    let start = std::time::Instant::now();
    for _ in 0..60 {
        loud.0.feed(Message::text(r#"{"type":"ping"}"#)).await.unwrap();
    }
    loud.0.flush().await.unwrap();
    assert_eq!(other.call("engine::health::check", json!({})).await["result"]["status"], "healthy");
    for _ in 0..60 {
        assert_eq!(loud.receive().await, json!({ "type": "pong" }));
    }
    // However slow the machine is, the last messages were not read in the first second.
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn callers_get_errors_from_silent_and_lost_workers() {
    let limits = Limits { call_time: Duration::from_millis(200), ..Limits::default() };
    let served = serve_with(Arc::new(MemoryStore::default()), limits, Access::default(), "127.0.0.1:0");
    let (mut silent, mut caller) = (served.raw().await, served.raw().await);
    silent.send(json!({ "type": "registerfunction", "id": "never" })).await;
    silent.call("engine::health::check", json!({})).await;
    assert_eq!(caller.call("never", json!({})).await["error"]["code"], "TIMEOUT");
    let id = uuid::Uuid::new_v4().to_string();
    caller
        .send(json!({ "type": "invokefunction", "invocation_id": id, "function_id": "never", "data": {} }))
        .await;
    assert_eq!(silent.receive().await["type"], "invokefunction");
    drop(silent);
    let stopped = json!({ "code": "invocation_stopped", "message": "Invocation stopped" });
    assert_eq!(caller.receive().await["error"], stopped);
}

#[tokio::test]
async fn token_and_page_origin_are_required() {
    let access = Access { token: Some("secret".to_owned()), ..Access::default() };
    let served = serve_with(Arc::new(MemoryStore::default()), Limits::default(), access, "127.0.0.1:0");
    let url = format!("ws://{}", served.address);
    let connect = |token: Option<&str>| {
        Client::connect(ClientOptions {
            url: url.clone(),
            token: token.map(str::to_owned),
            name: "x".to_owned(),
        })
    };
    assert!(connect(None).await.is_err());
    assert!(connect(Some("secreT")).await.is_err());
    assert!(connect(Some("secret")).await.is_ok());
    let open = serve();
    let mut stream = tokio::net::TcpStream::connect(&open.address).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: https://evil.example\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403");
}

#[tokio::test]
async fn auth_function_determines_rights() {
    let rbac: Rbac = serde_json::from_value(json!({ "auth_function_id": "auth::check",
        "expose_functions": ["match(\"api::*\")"] }))
    .unwrap();
    let access = Access { rbac: Some(rbac), ..Access::default() };
    let served = serve_with(Arc::new(MemoryStore::default()), Limits::default(), access, "127.0.0.1:0");
    let check = |call: meerkat_hub::Invocation| async move {
        match call.data["query_params"]["who"][0].as_str() {
            Some("guest") => {
                Ok(json!({ "allowed_functions": ["extra"], "forbidden_functions": ["api::secret"] }))
            }
            _ => Err(meerkat_hub::CallError::failed("who are you?")),
        }
    };
    served.hub.register(LocalFunction::new("auth::check", check)).unwrap();
    for id in ["api::get", "api::secret", "extra", "other"] {
        served.hub.register(LocalFunction::new(id, |_| async { Ok(json!("done")) })).unwrap();
    }
    let mut refused = Raw::open(&served.address, "/").await.unwrap();
    let error = json!({ "type": "error", "error": { "code": "AUTH_ERROR", "message": "who are you?" } });
    assert_eq!(refused.receive().await, error);
    let mut guest = Raw::open(&served.address, "/?who=guest").await.unwrap();
    for (id, allowed) in
        [("api::get", true), ("api::secret", false), ("extra", true), ("other", false), ("state::get", false)]
    {
        let answer = guest.call(id, json!({})).await;
        assert_eq!(answer["result"] == "done", allowed, "{id}: {answer}");
        assert_eq!(answer["error"]["code"] == "FORBIDDEN", !allowed, "{id}: {answer}");
    }
}

#[tokio::test]
async fn functions_that_call_each_other_get_an_error() {
    let limits = Limits { calls: 50, ..Limits::default() };
    let served = serve_with(Arc::new(MemoryStore::default()), limits, Access::default(), "127.0.0.1:0");
    let (one, other) = (served.client("one").await, served.client("other").await);
    for (client, own, next) in [(&one, "a", "b"), (&other, "b", "a")] {
        let calling = client.clone();
        client.register_function(LocalFunction::new(own, move |_| {
            let client = calling.clone();
            async move { client.call(next, &json!({}), TIMEOUT).await }
        }));
        client.call("engine::health::check", &json!({}), TIMEOUT).await.unwrap();
    }
    let error = one.call("a", &json!({}), TIMEOUT).await.unwrap_err();
    assert_eq!(error.code, "invocation_error");
}
