//! Search of messages that compaction removed from the context.

use meerkat_testkit::{Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, call, then};

/// Runs a session that mentions a fact, compacts it away, and searches for it in the last run.
async fn search(world: &World, query: Value) -> Vec<Value> {
    let id = world.session("the key of the shed is under the blue stone").await;
    world.resume(id, then(&"padding ".repeat(200))).await.unwrap();
    let found = world.another([Script::call("s", "memory_search", query), Script::say("found")]);
    found.resume(id, then("where is it?")).await.unwrap();
    assert_eq!(found.model.seen()[0].tools, ["memory_search"]);
    let lines = found.lines(id).await;
    let line =
        lines.iter().rev().find(|line| line.contains("\"score\"")).unwrap_or_else(|| panic!("{lines:?}"));
    serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap_or_else(|error| panic!("{error}: {line}"))
}

async fn compacting() -> World {
    let world = World::with(ScriptedModel::new([Script::say("noted"), Script::say("a summary")]), []);
    world.configure(json!({"compaction": {"auto_compact_threshold": 200}})).await;
    world
}

#[tokio::test]
async fn compacted_messages_are_found_after_restart() {
    let world = compacting().await;
    let found = search(&world, json!({"query": "Where is the key?"})).await;
    assert_eq!(world.model.seen()[0].tools, [""; 0], "memory is empty at first");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["content"], "the key of the shed is under the blue stone");
    assert_eq!((&found[0]["turn"], found[0]["session_id"].is_string()), (&json!(0), true));
    let score = found[0]["score"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&score), "{score}");
}

#[tokio::test]
async fn memory_scope_limits_search_to_a_session() {
    for (scope, expected) in [("session", 0), ("realm", 1)] {
        let world = compacting().await;
        world.configure(json!({"memory": {"scope": scope}})).await;
        search(&world, json!({"query": "key", "limit": 1})).await;
        let script = [Script::call("s", "memory_search", json!({"query": "shed stone"})), Script::say("x")];
        let other = world.another(script);
        let id = other.session("hello").await;
        let line = other.lines(id).await[2].clone();
        assert_eq!(line.matches("under the blue stone").count(), expected, "{scope}: {line}");
    }
}

#[tokio::test]
async fn memory_can_be_disabled() {
    let world = compacting().await;
    world.configure(json!({"memory": {"enabled": false}})).await;
    let id = world.session("one").await;
    world.resume(id, then(&"padding ".repeat(200))).await.unwrap();
    world.resume(id, then("three")).await.unwrap();
    assert!(world.model.seen().iter().all(|seen| seen.tools.is_empty()));
}

/// The creator or resumer of a session enables or disables its memory; later config changes do not affect it.
#[tokio::test]
async fn session_keeps_its_memory_setting() {
    for (wanted, enabled) in [(Some(true), false), (Some(false), true), (None, true), (None, false)] {
        let world = compacting().await;
        world.configure(json!({"memory": {"enabled": enabled}})).await;
        let mut request = json!({"prompt": "the key is under the blue stone", "model": ScriptedModel::ID});
        if let Some(wanted) = wanted {
            request["enable_memory"] = json!(wanted);
        }
        let started = call(&world, "meerkat_run", request).await.unwrap();
        let id = started["session_id"].clone();
        let resume = async |world: &World, prompt: &str, more: Value| {
            let mut request = json!({"session_id": id, "prompt": prompt});
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            call(world, "meerkat_resume", request).await.unwrap();
        };
        resume(&world, &"padding ".repeat(200), json!({})).await;
        let tools = async |more: Value| {
            let later = world.another([Script::say("x")]);
            resume(&later, "where is it?", more).await;
            later.model.seen()[0].tools.clone()
        };
        let expected: &[&str] = if wanted.unwrap_or(enabled) { &["memory_search"] } else { &[] };
        assert_eq!(tools(json!({})).await, expected, "{wanted:?} with config {enabled}");
        assert_eq!(tools(json!({"enable_memory": false})).await, [""; 0]);
        assert_eq!(tools(json!({})).await, [""; 0], "as before");
    }
}
