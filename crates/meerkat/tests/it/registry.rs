//! Skills and prompts that workers register in a realm: from this process, from another one, and without a hub.

use std::time::Duration;

use meerkat::hub::{Access, Client, ClientOptions, LocalFunction, bind};
use meerkat::{Coded as _, ErrorKind, HostedHub};
use meerkat_testkit::Script;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::world::{World, say};

/// Time allowed for a change to propagate.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A listening hub.
struct Listening {
    hosted: HostedHub,
    url: String,
    _beacon: Option<meerkat_store::EndpointFile>,
    _until: oneshot::Sender<()>,
    _serving: JoinHandle<()>,
}

async fn listen(world: &World, token: Option<&str>) -> Listening {
    let hosted = world.runtime.host_hub(|_| {}).await.unwrap();
    let access = Access { token: token.map(str::to_owned), ..Access::default() };
    let listener = bind("127.0.0.1:0", &access).unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let beacon = hosted.announce(url.clone(), token.map(str::to_owned)).unwrap();
    let (until, ended) = oneshot::channel::<()>();
    let hub = hosted.hub().clone();
    let serving = tokio::spawn(async move {
        let until = async move { drop(ended.await) };
        hub.serve(listener, access, until).await;
    });
    Listening { hosted, url, _beacon: beacon, _until: until, _serving: serving }
}

async fn worker(hub: &Listening, token: Option<&str>) -> Client {
    let options =
        ClientOptions { url: hub.url.clone(), token: token.map(str::to_owned), name: "demo".to_owned() };
    let client = Client::connect(options).await.unwrap();
    client
        .register_function(LocalFunction::new("demo::guide", async |_| Ok(json!({ "content": "# Guide" }))));
    client.register_function(LocalFunction::new("demo::greet", async |call: meerkat::hub::Invocation| {
        Ok(json!(format!("Greet {}.", call.data["name"].as_str().unwrap_or("nobody"))))
    }));
    // Messages are handled in order, so the functions are registered once this call returns.
    client.call("skills::list", &json!({}), TIMEOUT).await.unwrap();
    client
}

fn prompt() -> Value {
    let arguments = json!([{ "name": "name", "required": true }]);
    json!({ "name": "greet", "description": "Greet.", "arguments": arguments, "function_id": "demo::greet" })
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_reach_every_process_of_the_realm() {
    let hosting = World::new([]);
    let hub = listen(&hosting, Some("secret")).await;
    let worker = worker(&hub, Some("secret")).await;
    let call = |function: &'static str, data: Value| {
        let worker = worker.clone();
        async move { worker.call(function, &data, TIMEOUT).await }
    };
    let here = hosting.runtime.registry().await.unwrap();
    let there_world = hosting.another([]);
    let there = there_world.runtime.registry().await.unwrap();
    assert_eq!(there.hub().unwrap().url, hub.url);
    let mut changes = there.follow();
    call("skills::register", json!({ "id": "demo", "skill": "# Demo\n\nA demo.\n" })).await.unwrap();
    call("prompts::register", prompt()).await.unwrap();
    let update = async { changes.wait_for(|contents| !contents.prompts.0.is_empty()).await.map(drop) };
    tokio::time::timeout(TIMEOUT, update).await.expect("the change arrives in time").unwrap();

    for registry in [&here, &there] {
        let contents = registry.contents().await.unwrap();
        assert_eq!((contents.skills.0.len(), contents.prompts.0.len()), (1, 1));
        let read = async |uri: &str| registry.registry().read(uri).await.unwrap().1;
        assert!(read("iii://skills").await.ends_with("- [`demo`](iii://demo) — Demo — A demo.\n"));
        assert_eq!(read("iii://demo").await, "# Demo\n\nA demo.\n");
        assert_eq!(read("iii://demo/demo::guide").await, "# Guide");
        let (_, messages) = registry.registry().render("greet", json!({ "name": "Ada" })).await.unwrap();
        assert_eq!(messages[0]["content"]["text"], "Greet Ada.");
        assert_eq!(registry.call("demo::guide", json!({})).await.unwrap(), json!({ "content": "# Guide" }));
    }
    let functions: Vec<_> = there.functions().await.unwrap();
    let mut ids: Vec<_> = functions.iter().map(|function| function["function_id"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    assert_eq!(ids, [json!("demo::greet"), json!("demo::guide")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_from_other_processes_notify_once() {
    let hosting = World::new([]);
    let hub = listen(&hosting, None).await;
    let worker = worker(&hub, None).await;
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    worker.register_function(LocalFunction::new("demo::on", move |call: meerkat::hub::Invocation| {
        let _ = sender.send(call.data);
        async { Ok(Value::Null) }
    }));
    worker.register_trigger("skills::on-change", "demo::on", &json!({}));
    worker.call("skills::list", &json!({}), TIMEOUT).await.unwrap();

    let there = hosting.another([]);
    let registry = there.runtime.registry().await.unwrap();
    registry.call("skills::register", json!({ "id": "one", "skill": "x" })).await.unwrap();
    let here = hosting.runtime.registry().await.unwrap();
    here.call("skills::unregister", json!({ "id": "one" })).await.unwrap();
    for op in ["register", "unregister"] {
        let event =
            tokio::time::timeout(TIMEOUT, events.recv()).await.expect("the change arrives in time").unwrap();
        assert_eq!((&event["op"], &event["id"]), (&json!(op), &json!("one")));
    }
    let wrong = registry.call("skills::register", json!({ "id": "Bad", "skill": "x" })).await.unwrap_err();
    assert!(wrong.to_string().contains("id may only contain lowercase ASCII letters"), "{wrong}");
}

#[tokio::test]
async fn stored_registry_works_without_a_hub() {
    let world = World::new([]);
    let registry = world.runtime.registry().await.unwrap();
    registry.call("skills::register", json!({ "id": "demo", "skill": "# Demo" })).await.unwrap();
    registry.call("prompts::register", prompt()).await.unwrap();
    assert_eq!(registry.registry().read("iii://demo").await.unwrap().1, "# Demo");
    assert_eq!(registry.hub(), None);
    let missing = "no hub is running in this realm; start one with `rkat hub`";
    let section = registry.registry().read("iii://demo/demo::guide").await.unwrap_err();
    assert_eq!(section.to_string(), format!("trigger demo::guide: {missing}"));
    let called = registry.call("demo::guide", json!({})).await.unwrap_err();
    assert_eq!(called.to_string(), format!("`demo::guide` failed: {missing}"));
    assert_eq!(called.kind(), ErrorKind::CapabilityUnavailable);
    let again = world.another([]).runtime.registry().await.unwrap();
    assert_eq!(again.contents().await.unwrap().skills.0[0].id, "demo");
}

#[tokio::test]
async fn disabled_registry_is_reported() {
    let world = World::new([]);
    world.configure(json!({ "registry": { "enabled": false } })).await;
    let error = world.runtime.registry().await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "registered skills and prompts are disabled (`registry.enabled`)");
    for (document, expected) in [
        (
            json!({ "registry": { "state_timeout_ms": 0 } }),
            "`registry.state_timeout_ms` must be greater than 0",
        ),
        (
            json!({ "registry": { "scopes": { "prompts": "skills" } } }),
            "`registry.scopes.prompts` must differ from `registry.scopes.skills`",
        ),
        (json!({ "registry": { "tools": [" "] } }), "`registry.tools[0]` must not be empty"),
    ] {
        let change = meerkat::ConfigChange::Patch(crate::world::object(document));
        let error = world.runtime.config().change(change, None).await.unwrap_err();
        assert_eq!(error.to_string(), format!("invalid config: {expected}"));
    }
}

#[cfg(feature = "skills")]
#[tokio::test]
async fn registered_skills_are_available_to_agents() {
    let world = World::new([Script::say("ok"), Script::say("ok"), Script::say("ok")]);
    let registry = world.runtime.registry().await.unwrap();
    let register = json!({ "id": "brain_map", "skill": "# Brain\n\nSays: \"use\" it.\n" });
    registry.call("skills::register", register).await.unwrap();
    world.runtime.refresh_skills().await.unwrap();
    let snapshot = world.runtime.skills().catalog().snapshot();
    let skill = snapshot.by_name("brain_map").unwrap();
    assert_eq!((&*skill.description, &*skill.source.display_name), ("Says: \"use\" it.", "registry"));
    assert_eq!(skill.read().unwrap().body(), "# Brain\n\nSays: \"use\" it.\n");

    let key = meerkat::SkillKey {
        source_uuid: skill.key.source_uuid.to_string(),
        skill_name: skill.key.skill_name.to_string(),
    };
    let turn = meerkat::TurnOptions { skills: vec![key], ..say("go") };
    world.create(turn).await.unwrap();
    assert!(world.model.seen()[0].lines[0].contains("# Brain"), "{:?}", world.model.seen()[0].lines);

    registry.call("skills::unregister", json!({ "id": "brain_map" })).await.unwrap();
    world.create(say("go")).await.unwrap();
    assert!(world.runtime.skills().catalog().snapshot().by_name("brain_map").is_err());
}

#[cfg(feature = "skills")]
#[tokio::test]
async fn config_selects_registered_skills() {
    let world = World::new([]);
    let register = json!({ "id": "demo", "skill": "# Demo" });
    world.runtime.registry().await.unwrap().call("skills::register", register).await.unwrap();
    let has_it = async |document: Value| {
        world.configure(json!({ "registry": document })).await;
        world.runtime.refresh_skills().await.unwrap();
        world.runtime.skills().catalog().snapshot().by_name("demo").is_ok()
    };
    assert!(has_it(json!({})).await);
    assert!(!has_it(json!({ "scopes": { "skills": "others" } })).await);
    assert!(has_it(json!({ "scopes": null })).await);
    assert!(!has_it(json!({ "enabled": false })).await);
    assert!(has_it(json!({ "enabled": true })).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_call_functions_allowed_by_config() {
    let call = |name: &str| Script::Call(vec![("c1".to_owned(), name.to_owned(), json!({ "name": "Ada" }))]);
    let world = World::new([
        call("demo__greet"),
        Script::say("one"),
        call("demo__greet"),
        Script::say("two"),
        call("state__set"),
        Script::say("three"),
    ]);
    let hub = listen(&world, None).await;
    let _worker = worker(&hub, None).await;
    let results = |world: &World| {
        let seen = world.model.seen();
        seen.last().unwrap().lines.last().unwrap().clone()
    };
    world.create(say("not allowed yet")).await.unwrap();
    assert!(results(&world).contains("tool_not_found"), "{}", results(&world));
    world.configure(json!({ "registry": { "tools": ["demo::*", "state::*"] } })).await;
    world.create(say("now")).await.unwrap();
    assert!(results(&world).contains("Greet Ada."), "{}", results(&world));
    world.create(say("never")).await.unwrap();
    assert!(results(&world).contains("tool_not_found"), "{}", results(&world));
    drop(hub.hosted);
    world.create(say("without a hub")).await.unwrap();
}
