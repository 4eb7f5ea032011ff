//! Event streams, as opened, read, and closed by operations.

use meerkat::{Error, ErrorKind, RunControl, SessionId};
use meerkat_testkit::Script;
use serde_json::{Value, json};

use crate::world::{self, World, fits, say, then};

async fn call(world: &World, name: &str, arguments: Value) -> Result<Value, Error> {
    world::call(world, &format!("meerkat_event_stream_{name}"), arguments).await
}

async fn open(world: &World, arguments: Value) -> Value {
    call(world, "open", arguments).await.unwrap()["stream_id"].clone()
}

/// Reads the available events and returns their types.
async fn types(world: &World, stream: &Value) -> Vec<String> {
    let arguments = json!({"stream_id": stream, "timeout_ms": 0, "limit": 1000});
    let reply = call(world, "read", arguments).await.unwrap();
    let events = reply["events"].as_array().unwrap();
    events.iter().map(|event| event["payload"]["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn idle_stream_delivers_the_next_run() {
    let world = World::new([Script::say("one"), Script::say("two")]);
    let id = world.session("hi").await;
    let opened = call(&world, "open", json!({"session_id": id})).await.unwrap();
    assert_eq!(opened, json!({"stream_id": opened["stream_id"], "session_id": id}));
    let stream = &opened["stream_id"];
    let nothing = call(&world, "read", json!({"stream_id": stream, "timeout_ms": 0})).await.unwrap();
    assert_eq!(nothing, json!({"stream_id": stream, "session_id": id, "status": "timeout"}));
    fits("meerkat_event_stream_read", &nothing);

    world.resume(id, then("again")).await.unwrap();
    let first = call(&world, "read", json!({"stream_id": stream})).await.unwrap();
    fits("meerkat_event_stream_read", &first);
    assert_eq!(first["status"], "event");
    let payload = json!({"type": "run_started", "session_id": id, "prompt": "again"});
    assert_eq!(first["event"]["payload"], payload);
    assert_eq!(first["event"]["source"], json!({"type": "session", "session_id": id}));
    assert_eq!(first["event"]["source_id"], format!("session:{id}"));
    assert_eq!(
        types(&world, stream).await,
        ["turn_started", "text_delta", "text_complete", "turn_completed", "run_completed"]
    );
    let closed = call(&world, "close", json!({"stream_id": stream})).await.unwrap();
    assert_eq!(closed, json!({"stream_id": stream, "closed": true, "session_id": id}));
    let again = call(&world, "close", json!({"stream_id": stream})).await.unwrap();
    assert_eq!(again, json!({"stream_id": stream, "closed": false}));
    fits("meerkat_event_stream_close", &again);
}

#[tokio::test]
async fn missed_events_are_replayed() {
    let world = World::new([Script::say("one"), Script::say("two")]);
    let id = world.session("hi").await;
    world.resume(id, then("again")).await.unwrap();
    let all = open(&world, json!({"session_id": id, "after": 0})).await;
    let types = types(&world, &all).await;
    assert_eq!(types.len(), 12);
    assert_eq!((types[0].as_str(), types[6].as_str()), ("run_started", "run_started"));
}

#[tokio::test]
async fn read_returns_as_soon_as_an_event_arrives() {
    let world = World::new([Script::say("one"), Script::Hang]);
    let id = world.session("hi").await;
    let stream = open(&world, json!({"session_id": id})).await;
    let running = world.start(id, then("two"), RunControl::default());
    let read = json!({"stream_id": stream, "no_timeout": true, "timeout_ms": 0});
    let event = call(&world, "read", read).await.unwrap();
    assert_eq!(event["event"]["payload"]["type"], "run_started");
    world.model.wait_for_requests(2).await;
    world.sessions().interrupt(id).await.unwrap();
    running.await.unwrap().unwrap_err();
    assert_eq!(types(&world, &stream).await, ["turn_started", "run_failed"]);
}

#[tokio::test]
async fn archiving_closes_streams() {
    let world = World::new([]);
    let id = world.session("hi").await;
    let stream = open(&world, json!({"session_id": id})).await;
    world.sessions().archive(id).await.unwrap();
    let closed = call(&world, "read", json!({"stream_id": stream})).await.unwrap();
    assert_eq!(closed, json!({"stream_id": stream, "session_id": id, "status": "closed"}));
    let error = call(&world, "read", json!({"stream_id": stream})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParams);
    let reopened = call(&world, "open", json!({"session_id": id})).await.unwrap_err();
    assert_eq!(reopened.kind(), ErrorKind::SessionNotFound);
}

#[cfg(feature = "session-store")]
#[tokio::test]
async fn archiving_elsewhere_closes_streams() {
    let world = World::new([]);
    let id = world.session("hi").await;
    let stream = open(&world, json!({"session_id": id})).await;
    world.another([]).sessions().archive(id).await.unwrap();
    let closed = call(&world, "read", json!({"stream_id": stream, "timeout_ms": 0})).await.unwrap();
    assert_eq!(closed["status"], "closed");
}

#[tokio::test]
async fn invalid_arguments_are_rejected() {
    let world = World::new([]);
    let id = world.create(say("hi")).await.unwrap().session_id;
    let stream = open(&world, json!({"session_id": id})).await;
    let unknown = SessionId::from_uuid(uuid::Uuid::nil());
    let cases = [
        ("open", json!({"session_id": unknown}), ErrorKind::SessionNotFound, "session"),
        (
            "open",
            json!({"session_id": "x"}),
            ErrorKind::InvalidParams,
            "`session_id`: `x` is not a session id",
        ),
        ("open", json!({"session_id": id, "after": -1}), ErrorKind::InvalidParams, "`after`"),
        ("read", json!({"stream_id": "x"}), ErrorKind::InvalidParams, "`stream_id`: `x` is not a stream id"),
        (
            "read",
            json!({"stream_id": unknown}),
            ErrorKind::InvalidParams,
            "event stream `00000000-0000-0000-0000-000000000000` is not open",
        ),
        (
            "read",
            json!({"stream_id": stream, "limit": 0}),
            ErrorKind::InvalidParams,
            "`limit`: `0` is less than the minimum of 1",
        ),
        (
            "read",
            json!({"stream_id": stream, "timeout_ms": 600_001}),
            ErrorKind::InvalidParams,
            "`timeout_ms`: `600001` is greater than the maximum of 600000",
        ),
        ("close", json!({}), ErrorKind::InvalidParams, "missing field `stream_id`"),
    ];
    for (name, arguments, kind, message) in cases {
        let error = call(&world, name, arguments.clone()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{name} {arguments}: {error}");
        assert!(error.to_string().starts_with(message), "{name} {arguments}: {error}");
    }
}

#[tokio::test]
async fn long_event_is_truncated() {
    let text = "word ".repeat(2000);
    let world = World::new([Script::say("one"), Script::say(&text)]);
    world.configure(json!({"limits": {"max_reply_bytes": 1024}})).await;
    let id = world.session("hi").await;
    let stream = open(&world, json!({"session_id": id})).await;
    world.resume(id, then("more")).await.unwrap();
    let mut longest = 0;
    loop {
        let reply = call(&world, "read", json!({"stream_id": stream, "limit": 9})).await.unwrap();
        fits("meerkat_event_stream_read", &reply);
        longest = longest.max(reply.to_string().len());
        let last = reply["events"].as_array().unwrap().last().unwrap().clone();
        if last["payload"]["type"] == "run_completed" {
            let id = last["blob_id"].as_str().unwrap().parse().unwrap();
            let full: Value = serde_json::from_slice(&world.runtime.blob(&id).await.unwrap().data).unwrap();
            assert_eq!(full["payload"]["result"], json!(text));
            break;
        }
    }
    assert!(longest < 4096, "{longest}");
}
