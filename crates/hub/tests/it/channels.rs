//! Channels and telemetry.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use crate::support::{Raw, serve};

#[tokio::test]
async fn channel_keeps_order_and_ends_with_its_writer() {
    let served = serve();
    let mut raw = served.raw().await;
    let created = raw.call("engine::channels::create", json!({ "buffer_size": 4 })).await["result"].take();
    let path = |end: &str| {
        let end = &created[end];
        let text = |name: &str| end[name].as_str().unwrap().to_owned();
        format!("/ws/channels/{}?key={}&dir={}", text("channel_id"), text("access_key"), text("direction"))
    };
    let mut writer = Raw::open(&served.address, &path("writer")).await.unwrap();
    let mut reader = Raw::open(&served.address, &path("reader")).await.unwrap();
    let sent = [Message::text("one"), Message::Binary(Bytes::from_static(&[0, 255])), Message::text("three")];
    for message in &sent {
        writer.0.send(message.clone()).await.unwrap();
    }
    for message in sent {
        assert_eq!(reader.0.next().await.unwrap().unwrap(), message);
    }
    let mut second = Raw::open(&served.address, &path("reader")).await.unwrap();
    assert!(matches!(second.0.next().await, Some(Ok(Message::Close(_)))));
    writer.0.close(None).await.unwrap();
    assert!(matches!(reader.0.next().await, Some(Ok(Message::Close(_)))));
}

#[tokio::test]
async fn only_known_paths_are_admitted() {
    let served = serve();
    let mut telemetry = Raw::open(&served.address, "/otel").await.unwrap();
    telemetry.0.send(Message::Binary(Bytes::from_static(b"OTLP{}"))).await.unwrap();
    for path in ["/ws/channels/zz?key=a&dir=read", "/elsewhere"] {
        let refused = Raw::open(&served.address, path).await.err().unwrap();
        assert!(matches!(*refused, Error::Http(response) if response.status() == 404), "{path}");
    }
}
