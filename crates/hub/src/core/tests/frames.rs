//! Messages recorded from SDKs of all versions, one by one.

use super::{Effect, TestCore, decode};
use serde_json::{Value, json};

/// Recorded from Rust 0.11.3, 0.11.5 and 0.26, Node 0.9, 0.11.6 and 0.22.1, Python 0.11.3 and 0.25, and a probe.
const FRAMES: &str = include_str!("frames.jsonl");

/// Returns `true` for messages with which the probe tested that invalid ones are ignored.
fn is_nonsense(message: &Value) -> bool {
    message.is_string() || message["type"] == "fancy" || message["action"]["type"] == "weird"
}

#[test]
fn sdk_messages_decode_and_invalid_ones_are_ignored() {
    for line in FRAMES.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let message = &recorded["message"];
        let mut table = TestCore::new();
        let worker = table.worker();
        let text = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
        table.core.handle_message(worker, decode(&text));
        let sent = table.take_messages();
        let noted = table
            .others
            .iter()
            .any(|effect| matches!(effect, Effect::Note(text) if text.contains("ignored a message")));
        assert_eq!(noted, is_nonsense(message), "{line}");
        let waits = message["type"] == "invokefunction"
            && message["invocation_id"].is_string()
            && message["action"]["type"] != "void"
            && !is_nonsense(message);
        let ran = table.others.iter().any(|effect| matches!(effect, Effect::Run(_) | Effect::Enqueue(_)));
        let answered = sent.iter().any(|(peer, answer)| {
            *peer == worker
                && answer["invocation_id"] == message["invocation_id"]
                && answer["type"] == "invocationresult"
        });
        assert_eq!(answered || (ran && waits), waits, "{line}");
    }
}

#[test]
fn first_messages_have_the_recorded_shape() {
    let mut table = TestCore::new();
    table.core.connect(super::NewConnection::default());
    let hello = table.take_messages().remove(0).1;
    assert_eq!(
        hello,
        json!({ "type": "workerregistered", "worker_id": super::id(2), "reattach_token": super::id(3),
            "features": ["observe.v1"] })
    );
}

#[test]
fn blank_and_broken_messages_change_nothing() {
    let mut table = TestCore::new();
    let worker = table.worker();
    let messages = [
        "",
        "  \n",
        "null",
        "[]",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"registerfunction\"}",
        "{\"type\":\"registerfunction\",\"id\":\"  \"}",
        "{\"type\":\"invokefunction\",\"function_id\":3}",
        "{\"type\":\"invokefunction\",\"function_id\":\"a\",\"invocation_id\":\"not-a-uuid\",\"data\":{}}",
        "{\"type\":\"invocationresult\"}",
        "{\"type\":\"observe\",\"id\":\"x\"}",
        "{\"type\":\"registertrigger\",\"id\":\"t\"}",
    ];
    for message in messages {
        table.core.handle_message(worker, decode(message));
        assert_eq!(table.take_messages(), [], "{message}");
    }
    assert_eq!(table.send(worker, json!({ "type": "ping" })), [(worker, json!({ "type": "pong" }))]);
}
