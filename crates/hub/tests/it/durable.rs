//! State, its triggers, and queues that survive a restart.

use std::sync::Arc;

use meerkat_hub::{Access, Limits, LocalFunction};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::store::MemoryStore;
use crate::support::{TestHub, serve, serve_with};

/// Registers a function on the hub that reports its input.
fn report_calls(served: &TestHub, id: &str) -> mpsc::UnboundedReceiver<Value> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let handler = move |call: meerkat_hub::Invocation| {
        let _ = sender.send(call.data);
        async { Ok(Value::Null) }
    };
    served.hub.register(LocalFunction::new(id, handler)).unwrap();
    receiver
}

#[tokio::test]
async fn state_is_stored_listed_changed_and_watched() {
    let served = serve();
    let mut raw = served.raw().await;
    let mut events = report_calls(&served, "on::state");
    raw.send(
        json!({ "type": "registertrigger", "id": "x", "trigger_type": "state", "function_id": "on::state",
        "config": { "scope": "p" } }),
    )
    .await;
    let at = json!({ "scope": "p", "key": "k" });
    let missing = raw.call("state::get", at.clone()).await;
    assert_eq!((missing.get("result"), missing.get("error")), (None, None));
    let set = raw.call("state::set", json!({ "scope": "p", "key": "k", "value": { "a": 2 } })).await;
    assert_eq!(set["result"], json!({ "old_value": null, "new_value": { "a": 2 } }));
    raw.call("state::set", json!({ "scope": "other", "key": "k", "data": 1 })).await;
    let ops =
        json!([{ "type": "increment", "path": "a", "by": 3 }, { "type": "append", "path": "l", "value": 1 }]);
    let updated = raw.call("state::update", json!({ "scope": "p", "key": "k", "ops": ops })).await;
    assert_eq!(updated["result"], json!({ "old_value": { "a": 2 }, "new_value": { "a": 5, "l": [1] } }));
    assert_eq!(
        raw.call("state::list", json!({ "scope": "p" })).await["result"],
        json!([{ "a": 5, "l": [1] }])
    );
    assert_eq!(
        raw.call("state::list_groups", json!({})).await["result"],
        json!({ "groups": ["other", "p"] })
    );
    assert_eq!(raw.call("state::delete", at.clone()).await["result"], json!({ "a": 5, "l": [1] }));
    assert_eq!(raw.call("state::delete", at).await.get("result"), None);
    let wrong = raw.call("state::set", json!({ "scope": "p" })).await;
    let text = "Failed to deserialize input for state::set: missing field `key`";
    assert_eq!(wrong["error"], json!({ "code": "deserialization_error", "message": text }));
    for (event, old, new) in [
        ("state:created", Value::Null, json!({ "a": 2 })),
        ("state:updated", json!({ "a": 2 }), json!({ "a": 5, "l": [1] })),
        ("state:deleted", json!({ "a": 5, "l": [1] }), Value::Null),
    ] {
        let expected = json!({ "type": "state", "event_type": event, "scope": "p", "key": "k",
            "old_value": old, "new_value": new });
        assert_eq!(events.recv().await, Some(expected));
    }
}

#[tokio::test]
async fn queued_call_runs_after_a_restart() {
    let store = Arc::new(MemoryStore::default());
    let first = serve_with(store.clone(), Limits::default(), Access::default(), "127.0.0.1:0");
    let mut raw = first.raw().await;
    let id = uuid::Uuid::new_v4().to_string();
    raw.send(
        json!({ "type": "invokefunction", "invocation_id": id, "function_id": "later", "data": { "n": 1 },
        "action": { "type": "enqueue", "queue": "q" } }),
    )
    .await;
    assert!(raw.receive().await["result"]["messageReceiptId"].is_string());
    first.over.cancel();
    drop(raw);
    let second = serve_with(store, Limits::default(), Access::default(), "127.0.0.1:0");
    let mut calls = report_calls(&second, "later");
    assert_eq!(calls.recv().await, Some(json!({ "n": 1 })));
}
