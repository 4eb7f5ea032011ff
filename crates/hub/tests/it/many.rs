//! Many concurrent workers, and workers that reconnect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meerkat_hub::{Access, Limits, LocalFunction, LocalTriggerType};
use serde_json::{Value, json};

use crate::store::MemoryStore;
use crate::support::{TIMEOUT, serve, serve_with};

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_workers_connect_and_call_each_other() {
    let served = serve();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (url, name) = (format!("ws://{}", served.address), format!("worker-{number}"));
        workers.spawn(async move {
            let options = meerkat_hub::ClientOptions { url, token: None, name };
            let client = meerkat_hub::Client::connect(options).await.unwrap();
            let answer = move |_| async move { Ok(json!(number)) };
            client.register_function(LocalFunction::new(format!("number::{number}"), answer));
            // The answer proves that the hub knows the function.
            let own = client.call(&format!("number::{number}"), &Value::Null, TIMEOUT).await;
            assert_eq!(own, Ok(json!(number)));
            (number, client)
        });
    }
    let mut clients = workers.join_all().await;
    clients.sort_by_key(|(number, _)| *number);
    for (number, client) in &clients {
        let next = (number + 1) % 200;
        assert_eq!(client.call(&format!("number::{next}"), &json!({}), TIMEOUT).await, Ok(json!(next)));
    }
    let listed = clients[0].1.call("engine::workers::list", &json!({}), TIMEOUT).await.unwrap();
    assert_eq!(listed["workers"].as_array().unwrap().len(), 200);
}

#[tokio::test]
async fn reconnected_worker_receives_each_event_once() {
    let store = Arc::new(MemoryStore::default());
    let first = serve_with(store.clone(), Limits::default(), Access::default(), "127.0.0.1:0");
    let event_count = Arc::new(AtomicUsize::new(0));
    let client = first.client("subscriber").await;
    let counter = Arc::clone(&event_count);
    client.register_function(LocalFunction::new("on::change", move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok(Value::Null) }
    }));
    client.register_trigger("t", "on::change", &json!({}));
    for round in 1..=3 {
        let served = match round {
            1 => None,
            _ => Some(serve_with(store.clone(), Limits::default(), Access::default(), &first.address)),
        };
        let hub = served.as_ref().map_or(&first.hub, |served| &served.hub);
        let (id, description) = ("t".to_owned(), String::new());
        hub.register_trigger_type(LocalTriggerType { id, description, host: None }).unwrap();
        while hub.call("on::change", &json!({}), TIMEOUT).await.is_err() {
            tokio::task::yield_now().await;
        }
        // The trigger follows the function on the same connection; an answer proves that both were registered.
        client.call("engine::health::check", &json!({}), TIMEOUT).await.unwrap();
        let before = event_count.load(Ordering::SeqCst);
        hub.fire("t", &json!({ "round": round }));
        hub.call("on::change", &json!({}), TIMEOUT).await.unwrap();
        assert_eq!(event_count.load(Ordering::SeqCst), before + 2);
        let ended = served.as_ref().unwrap_or(&first);
        ended.over.cancel();
        while !ended.task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(
        client.call("on::change", &json!({}), TIMEOUT).await.unwrap_err().to_string(),
        "iii is not connected"
    );
}
