//! Queues: an acknowledged call is stored, runs in order, and is neither lost nor duplicated.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use meerkat_hub::{Access, Hub, HubOptions, Limits, LocalFunction, Rbac, StateStore};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::store::MemoryStore;
use crate::support::{Raw, TIMEOUT, TestHub, serve_with};

fn served(store: Arc<dyn StateStore>, limits: Limits) -> TestHub {
    serve_with(store, limits, Access::default(), "127.0.0.1:0")
}

/// Registers a function that reports its input.
fn recorded(hub: &Hub, id: &str) -> mpsc::UnboundedReceiver<Value> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let record = move |call: meerkat_hub::Invocation| {
        let _ = sender.send(call.data);
        async { Ok(Value::Null) }
    };
    hub.register(LocalFunction::new(id, record)).unwrap();
    receiver
}

async fn send(raw: &mut Raw, function: &str, data: Value) {
    let id = uuid::Uuid::new_v4();
    raw.send(json!({ "type": "invokefunction", "invocation_id": id, "function_id": function, "data": data,
        "action": { "type": "enqueue", "queue": "q" } }))
        .await;
}

async fn enqueue(raw: &mut Raw, function: &str, data: Value) -> Value {
    send(raw, function, data).await;
    raw.receive().await
}

/// Waits until the queues are empty.
async fn drained(hub: &Hub) {
    let stored = json!({ "scope": "iii::queue" });
    while hub.call("state::list", &stored, TIMEOUT).await.unwrap() != json!([]) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn failing_store_yields_an_error_and_no_receipt() {
    let store = Arc::new(MemoryStore::default());
    let served = served(store.clone(), Limits::default());
    let mut raw = served.raw().await;
    let mut calls = recorded(&served.hub, "f");
    store.is_broken.store(true, Ordering::SeqCst);
    assert_eq!(enqueue(&mut raw, "f", json!(1)).await["error"]["code"], "enqueue_error");
    store.is_broken.store(false, Ordering::SeqCst);
    assert!(enqueue(&mut raw, "f", json!(2)).await["result"]["messageReceiptId"].is_string());
    assert_eq!(calls.recv().await, Some(json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_queue_run_in_order() {
    let served = served(Arc::new(MemoryStore::default()), Limits::default());
    let mut raw = served.raw().await;
    let mut calls = recorded(&served.hub, "f");
    for number in 0..300 {
        send(&mut raw, "f", json!(number)).await;
    }
    for number in 0..300 {
        assert_eq!(calls.recv().await, Some(json!(number)));
    }
}

#[tokio::test]
async fn full_queue_rejects_and_keeps_accepted_calls() {
    let limits = Limits { queued_calls: 2, ..Limits::default() };
    let served = served(Arc::new(MemoryStore::default()), limits);
    let mut raw = served.raw().await;
    for number in 0..2 {
        assert!(enqueue(&mut raw, "f", json!(number)).await["result"].is_object());
    }
    let error = json!({ "code": "enqueue_error", "message": "the queue `q` is full: 2 calls wait" });
    assert_eq!(enqueue(&mut raw, "f", json!(2)).await["error"], error);
    let mut calls = recorded(&served.hub, "f");
    for number in 0..2 {
        assert_eq!(calls.recv().await, Some(json!(number)));
    }
    drained(&served.hub).await;
    assert!(enqueue(&mut raw, "f", json!(3)).await["result"].is_object());
    assert_eq!(calls.recv().await, Some(json!(3)));
}

#[tokio::test]
async fn restart_neither_loses_nor_duplicates_calls() {
    let store = Arc::new(MemoryStore::default());
    let first = served(store.clone(), Limits::default());
    let mut raw = first.raw().await;
    for number in 0..3 {
        assert!(enqueue(&mut raw, "f", json!(number)).await["result"].is_object());
    }
    first.over.cancel();
    drop((raw, first));

    // A hub without a server does not touch the calls.
    let idle = Hub::new(HubOptions::new(store.clone()));
    let mut untouched = recorded(&idle, "f");
    let second = served(store, Limits::default());
    let mut raw = second.raw().await;
    for number in 3..6 {
        assert!(enqueue(&mut raw, "f", json!(number)).await["result"].is_object());
    }
    let mut calls = recorded(&second.hub, "f");
    for number in 0..6 {
        assert_eq!(calls.recv().await, Some(json!(number)));
    }
    drained(&second.hub).await;
    assert!(calls.try_recv().is_err());
    assert!(untouched.try_recv().is_err());
}

#[tokio::test]
async fn missing_function_does_not_block_its_queue() {
    let served = served(Arc::new(MemoryStore::default()), Limits::default());
    let mut raw = served.raw().await;
    let mut present = recorded(&served.hub, "present");
    for (function, number) in [("missing", 1), ("present", 2), ("missing", 3)] {
        assert!(enqueue(&mut raw, function, json!(number)).await["result"].is_object());
    }
    assert_eq!(present.recv().await, Some(json!(2)));
    let mut missing = recorded(&served.hub, "missing");
    assert_eq!(missing.recv().await, Some(json!(1)));
    assert_eq!(missing.recv().await, Some(json!(3)));
    drained(&served.hub).await;
}

#[tokio::test]
async fn guest_receives_no_call_queued_before_a_restart() {
    let store = Arc::new(MemoryStore::default());
    let first = served(store.clone(), Limits::default());
    let mut trusted = first.raw().await;
    assert!(enqueue(&mut trusted, "later", json!(1)).await["result"]["messageReceiptId"].is_string());
    first.over.cancel();
    first.task.await.unwrap();
    let access = Access { rbac: Some(Rbac::default()), ..Access::default() };
    let second = serve_with(store, Limits::default(), access, "127.0.0.1:0");
    let mut guest = second.raw().await;
    guest.send(json!({ "type": "registerfunction", "id": "later" })).await;
    assert_eq!(guest.receive().await["type"], "registrationrejected");
    // The call is still queued for the right worker.
    let mut calls = recorded(&second.hub, "later");
    assert_eq!(calls.recv().await, Some(json!(1)));
}
