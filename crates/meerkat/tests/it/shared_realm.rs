//! Two runtimes in one realm on disk, as in two processes.

use std::time::Duration;

use meerkat::{ArchivedFilter, ConfigChange, ErrorKind, Outcome, RunControl, SessionQuery, TurnOptions};
use meerkat_testkit::Script;
use serde_json::json;

use crate::world::{World, answers, client_tool, kind, object, say, text, then};

/// Time allowed for an interrupt to arrive.
const TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn session_running_elsewhere_is_busy() {
    let there = World::new([Script::say("ok"), Script::Hang]);
    let here = there.another([Script::say("three")]);
    let (id, running) = there.hanging().await;
    assert_eq!(kind(here.resume(id, then("me too")).await), ErrorKind::SessionBusy);
    let view = here.sessions().read(id).await.unwrap();
    assert_eq!((view.is_active, view.message_count), (true, 3));
    there.model.release();
    running.await.unwrap().unwrap();
    assert_eq!(text(&here.resume(id, then("three")).await.unwrap()), "three");
    let lines = ["user: one", "assistant: ok", "user: two", "assistant: released", "user: three"];
    assert_eq!(here.model.seen()[0].lines, lines);
}

#[tokio::test]
async fn run_elsewhere_can_be_interrupted() {
    let there = World::new([Script::say("ok"), Script::Hang]);
    let here = there.another([]);
    let (id, running) = there.hanging().await;
    here.sessions().interrupt(id).await.unwrap();
    let ended = tokio::time::timeout(TIMEOUT, running).await.expect("the run ends in time");
    let error = ended.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestCancelled);
    let data = error.data().unwrap();
    assert_eq!((&data["session_id"], &data["resumable"]), (&json!(id), &json!(true)));
    assert_eq!(text(&here.resume(id, then("three")).await.unwrap()), "done");
}

#[tokio::test]
async fn archiving_ends_a_run_elsewhere() {
    let there = World::new([Script::say("ok"), Script::Hang]);
    let here = there.another([]);
    let (id, running) = there.hanging().await;
    tokio::time::timeout(TIMEOUT, here.sessions().archive(id)).await.expect("the run ends in time").unwrap();
    assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled);
    assert!(there.sessions().read(id).await.unwrap().is_archived);
}

#[test]
fn session_of_a_dead_process_is_resumable() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (dying, surviving) = (runtime(), runtime());
    let there = World::new([Script::say("ok"), Script::Hang]);
    let here = there.another([Script::say("three")]);
    let (id, running) = dying.block_on(there.hanging());
    assert_eq!(
        surviving.block_on(async { kind(here.resume(id, then("me too")).await) }),
        ErrorKind::SessionBusy
    );

    drop((dying, running, there));
    surviving.block_on(async {
        assert!(!here.sessions().read(id).await.unwrap().is_active);
        assert_eq!(text(&here.resume(id, then("three")).await.unwrap()), "three");
        assert_eq!(here.model.seen()[0].lines[2..], ["user: two", "cancelled: ", "user: three"]);
    });
}

#[tokio::test]
async fn pending_calls_and_settings_survive_restart() {
    let before = World::new([Script::call("c1", "ask", json!({"n": 1}))]);
    let turn = TurnOptions {
        tools: Some(vec![client_tool("ask", None)]),
        system_prompt: Some("Be a cat.".to_owned()),
        ..say("go")
    };
    let id = before.create(turn).await.unwrap().session_id;
    let after = before.another([Script::say("thanks")]);
    drop(before);
    assert_eq!(after.sessions().pending_calls(id).await.unwrap().calls[0].id, "c1");
    let done = after.resume(id, answers([("c1", "42")])).await.unwrap();
    assert!(matches!(done.report.outcome, Outcome::Completed(_)));
    let seen = &after.model.seen()[0];
    assert_eq!((seen.system.as_str(), seen.tools.as_slice()), ("Be a cat.", &["ask".to_owned()][..]));
    assert_eq!(seen.lines, ["user: go", "assistant: [ask#c1]", "results: c1=42"]);
}

#[tokio::test]
async fn archiving_applies_to_every_process() {
    let there = World::new([]);
    let here = there.another([]);
    let id = there.session("hi").await;
    there.sessions().archive(id).await.unwrap();
    assert_eq!(kind(here.resume(id, then("continue")).await), ErrorKind::SessionNotFound);
    assert_eq!(here.sessions().list(SessionQuery::default()).await.unwrap(), []);
    let all = SessionQuery { archived: ArchivedFilter::Included, ..SessionQuery::default() };
    assert_eq!(here.sessions().list(all).await.unwrap()[0].id, id);
}

#[tokio::test]
async fn concurrent_patches_are_both_applied() {
    let there = World::new([]);
    let here = there.another([]);
    let patch = |world: &World, value| {
        let config = world.runtime.config();
        async move { config.change(ConfigChange::Patch(object(value)), None).await.unwrap() }
    };
    for round in 1..=10_u64 {
        tokio::join!(
            patch(&there, json!({"agent": {"max_turns": round}})),
            patch(&here, json!({"tools": {"max_concurrent": round}})),
        );
    }
    let current = here.runtime.config().get().await.unwrap();
    assert_eq!(current, there.runtime.config().get().await.unwrap());
    assert_eq!(current.generation, 20);
    assert_eq!((current.config.agent.max_turns, current.config.tools.max_concurrent), (Some(10), 10));
}

#[tokio::test]
async fn config_survives_restart() {
    let before = World::new([]);
    before.configure(json!({"agent": {"max_turns": 7}})).await;
    let after = before.another([]);
    drop(before);
    let current = after.runtime.config().get().await.unwrap();
    assert_eq!((current.generation, current.config.agent.max_turns), (1, Some(7)));
}

#[tokio::test]
async fn runs_of_different_processes_are_independent() {
    let there = World::new([Script::say("ok"), Script::Hang]);
    let here = there.another([]);
    let (id, running) = there.hanging().await;
    let other = here.session("another").await;
    assert_eq!(text(&here.resume(other, then("continue")).await.unwrap()), "done");
    assert!(!running.is_finished());
    there.sessions().interrupt(id).await.unwrap();
    assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled);
    let again = here.start(id, then("three"), RunControl::default());
    assert_eq!(text(&again.await.unwrap().unwrap()), "done");
}
