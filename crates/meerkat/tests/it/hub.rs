//! The registry on a running hub: with a changed config, and for workers with access rules.

use std::time::Duration;

use meerkat::HostedHub;
use meerkat::hub::{Access, CallError, Client, ClientOptions, Invocation, LocalFunction, Rbac, bind};
use serde_json::{Value, json};

use crate::world::World;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a hub on a free port for as long as the test runs; returns its URL.
fn serve(hosted: &HostedHub, access: Access) -> String {
    let listener = bind("127.0.0.1:0", &access).unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let hub = hosted.hub().clone();
    tokio::spawn(async move { hub.serve(listener, access, std::future::pending()).await });
    url
}

async fn connect(url: &str) -> Client {
    let options = ClientOptions { url: url.to_owned(), token: None, name: "worker".to_owned() };
    Client::connect(options).await.unwrap()
}

async fn register(worker: &Client, id: &str) -> Result<Value, CallError> {
    worker.call("skills::register", &json!({ "id": id, "skill": "# x" }), TIMEOUT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn running_hub_follows_the_config() {
    let world = World::new([]);
    let hosted = world.runtime.host_hub(|_| {}).await.unwrap();
    let worker = connect(&serve(&hosted, Access::default())).await;
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    worker.register_function(LocalFunction::new("demo::on", move |call: Invocation| {
        let _ = sender.send(call.data["id"].clone());
        async { Ok(Value::Null) }
    }));
    worker.register_function(LocalFunction::new("demo::never", |_| std::future::pending()));
    worker.register_trigger("skills::on-change", "demo::on", &json!({}));
    register(&worker, "one").await.unwrap();

    // Another process changes the config, so this one has to reload it.
    let other = world.another([]);
    let registry = json!({ "scopes": { "skills": "others" }, "state_timeout_ms": 50 });
    other.configure(json!({ "registry": registry })).await;
    register(&worker, "two").await.unwrap();
    for id in ["one", "two"] {
        let event = tokio::time::timeout(TIMEOUT, events.recv()).await.expect("an event").unwrap();
        assert_eq!(event, id);
    }
    let contents = other.runtime.registry().await.unwrap().contents().await.unwrap();
    let ids: Vec<&str> = contents.skills.0.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(ids, ["two"]);
    let listed = worker.call("skills::list", &json!({}), TIMEOUT).await.unwrap();
    assert_eq!((listed["skills"].as_array().unwrap().len(), &listed["skills"][0]["id"]), (1, &json!("two")));
    let read = json!({ "uri": "iii://two/demo::never" });
    let error = worker.call("skills::resources-read", &read, TIMEOUT).await.unwrap_err();
    assert_eq!(error.message, "trigger demo::never: invocation timed out");

    other.configure(json!({ "registry": { "enabled": false } })).await;
    let error = register(&worker, "three").await.unwrap_err();
    assert!(error.message.contains("disabled"), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_hub_gains_a_registry_enabled_later() {
    let world = World::new([]);
    world.configure(json!({ "registry": { "enabled": false } })).await;
    let hosted = world.runtime.host_hub(|_| {}).await.unwrap();
    let worker = connect(&serve(&hosted, Access::default())).await;
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    worker.register_function(LocalFunction::new("demo::on", move |call: Invocation| {
        let _ = sender.send(call.data["id"].clone());
        async { Ok(Value::Null) }
    }));
    worker.register_trigger("skills::on-change", "demo::on", &json!({}));
    let error = register(&worker, "early").await.unwrap_err();
    assert!(error.message.contains("disabled"), "{}", error.message);

    world.another([]).configure(json!({ "registry": { "enabled": true } })).await;
    register(&worker, "late").await.unwrap();
    let event = tokio::time::timeout(TIMEOUT, events.recv()).await.expect("an event").unwrap();
    assert_eq!(event, "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_change_only_their_own_skills() {
    let world = World::new([]);
    let hosted = world.runtime.host_hub(|_| {}).await.unwrap();
    let auth = async |call: Invocation| Ok(json!({ "owner": call.data["query_params"]["owner"][0] }));
    hosted.hub().register(LocalFunction::new("auth", auth)).unwrap();
    let rules = json!({ "auth_function_id": "auth", "expose_functions": ["skills::*", "state::*"] });
    let rbac: Rbac = serde_json::from_value(rules).unwrap();
    let guarded = serve(&hosted, Access { rbac: Some(rbac), ..Access::default() });
    let trusted = connect(&serve(&hosted, Access::default())).await;
    let ada = connect(&format!("{guarded}/?owner=ada")).await;
    let bob = connect(&format!("{guarded}/?owner=bob")).await;

    register(&ada, "hers").await.unwrap();
    register(&trusted, "trusted").await.unwrap();
    for id in ["hers", "trusted"] {
        let text = format!("skill '{id}' was registered by another worker");
        assert_eq!(register(&bob, id).await.unwrap_err().message, text);
        let removed = bob.call("skills::unregister", &json!({ "id": id }), TIMEOUT).await;
        assert_eq!(removed.unwrap_err().message, text);
    }
    // The same owner on a new connection may, and so may an unrestricted worker.
    register(&connect(&format!("{guarded}/?owner=ada")).await, "hers").await.unwrap();
    trusted.call("skills::unregister", &json!({ "id": "hers" }), TIMEOUT).await.unwrap();
    register(&bob, "hers").await.unwrap();

    let write = |scope: &str| json!({ "scope": scope, "key": "trusted", "value": { "id": "trusted" } });
    let denied = async |scope: &str| match bob.call("state::set", &write(scope), TIMEOUT).await {
        Ok(_) => false,
        Err(error) => error.code == "FORBIDDEN",
    };
    assert!(denied("skills").await && denied("prompts").await && !denied("others").await);
    world.another([]).configure(json!({ "registry": { "scopes": { "skills": "others" } } })).await;
    assert!(denied("others").await && !denied("skills").await);
}
