//! Long conversations are shortened for the model and kept whole in the store.

use meerkat::SessionId;
use meerkat_core::{ModelErrorKind, ToolOutput};
use meerkat_testkit::{FnTool, Recorder, Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, say, text, then, watch};

/// About 250 tokens.
fn long(word: &str) -> String {
    format!("{word} ").repeat(200)
}

/// A world whose sessions are compacted from 200 tokens on.
async fn compacting(script: impl IntoIterator<Item = Script>) -> World {
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let world = World::with(ScriptedModel::new(script), [look]);
    world.configure(json!({"compaction": {"auto_compact_threshold": 200}})).await;
    world
}

async fn recorded(world: &World, id: SessionId, prompt: &str) -> Recorder {
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then(prompt), watch(&recorder)).await.unwrap();
    recorder
}

#[tokio::test]
async fn the_model_reads_the_summary_and_what_came_after_it() {
    let world =
        compacting([Script::say("a"), Script::say("they said one"), Script::say("b"), Script::say("c")])
            .await;
    let id = world.session("one").await;
    let two = long("two");
    recorded(&world, id, &two).await;
    world.resume(id, then("three")).await.unwrap();

    let seen = world.model.seen();
    assert_eq!(seen[1].lines[..2], ["user: one", "assistant: a"], "what is summarised");
    assert!(seen[1].lines[2].starts_with("user: Summarise the conversation"), "{:?}", seen[1].lines);
    let tools: Vec<_> = seen.iter().map(|request| request.tools.len()).collect();
    assert_eq!(tools, [1, 0, 1, 1], "a summary needs none");
    let summary = "notice: [Context compacted] What came before, in short:\n\nthey said one".to_owned();
    assert_eq!(seen[2].lines, [summary.clone(), format!("user: {two}")]);
    let after =
        [summary.clone(), format!("user: {two}"), "assistant: b".to_owned(), "user: three".to_owned()];
    assert_eq!(seen[3].lines, after, "in a later run, too");

    let whole = [
        "user: one",
        "assistant: a",
        &format!("user: {two}"),
        &summary,
        "assistant: b",
        "user: three",
        "assistant: c",
    ];
    assert_eq!(world.lines(id).await, whole, "the history stays whole");
}

#[tokio::test]
async fn the_events_say_what_was_shortened() {
    let world = compacting([Script::say("a"), Script::say("they said one")]).await;
    let id = world.session("one").await;
    let recorder = recorded(&world, id, &long("two")).await;
    let started = json!({"type": "compaction_started", "input_tokens": 10, "estimated_history_tokens": 200, "message_count": 3});
    assert_eq!(recorder.of_type("compaction_started"), [started]);
    let completed = json!({"type": "compaction_completed", "summary_tokens": 5, "messages_before": 3, "messages_after": 2});
    assert_eq!(recorder.of_type("compaction_completed"), [completed]);
}

#[tokio::test]
async fn the_first_step_of_a_session_is_never_compacted() {
    let world = compacting([]).await;
    let (done, recorder) = world.record(say(&long("one"))).await;
    done.unwrap();
    assert_eq!(recorder.of_type("compaction_started"), [Value::Null; 0]);
}

#[tokio::test]
async fn steps_must_lie_between_two_compactions() {
    let world = compacting([]).await;
    let id = world.session("one").await;
    let mut compacted = Vec::new();
    for _ in 0..6 {
        let recorder = recorded(&world, id, &long("more")).await;
        compacted.push(!recorder.of_type("compaction_completed").is_empty());
    }
    assert_eq!(compacted, [true, false, false, true, false, false]);
}

#[tokio::test]
async fn a_failed_summary_does_not_fail_the_run() {
    let world = compacting([Script::say("a"), Script::Fail(ModelErrorKind::Server), Script::say("b")]).await;
    let id = world.session("one").await;
    let recorder = recorded(&world, id, &long("two")).await;
    assert_eq!(recorder.of_type("compaction_failed").len(), 1);
    assert_eq!(world.model.seen()[2].lines.len(), 3, "the whole history");
    assert_eq!(world.sessions().last_text(id).await.unwrap().unwrap(), "b");
}

#[tokio::test]
async fn a_small_window_lowers_the_threshold() {
    let world = World::with(ScriptedModel::with_window([], 250), []);
    let id = world.session("one").await;
    let recorder = recorded(&world, id, &long("two")).await;
    assert_eq!(recorder.of_type("compaction_completed").len(), 1);
}

#[tokio::test]
async fn a_session_over_its_window_recovers_even_without_a_summary() {
    let overflow = || Script::Fail(ModelErrorKind::ContextOverflow);
    let world = World::new([Script::say("a"), overflow(), overflow(), Script::say("recovered")]);
    world.configure(json!({"compaction": {"recent_turn_budget": 1}})).await;
    let id = world.session("one").await;
    let done = world.resume(id, then("two")).await.unwrap();
    assert_eq!(text(&done), "recovered");
    let seen = world.model.seen();
    assert_eq!(
        seen[3].lines,
        [
            "notice: [Context compacted] The oldest 2 messages were left out; no summary of them could be made.",
            "user: two"
        ]
    );
}
