//! The events of a run: types, order, and source.

use meerkat_core::{EventSource, ToolOutput};
use meerkat_testkit::{FnTool, Recorder, Script, ScriptedModel};
use serde_json::json;

use crate::world::{World, client_tool, say, then, watch};
use meerkat::TurnOptions;

#[tokio::test]
async fn text_run_emits_events_in_order() {
    let world = World::new([Script::say("hello")]);
    let (done, recorder) = world.record(say("hi")).await;
    let id = done.unwrap().session_id;
    insta::assert_snapshot!(recorder.types().join("\n"), @r"
    run_started
    turn_started
    text_delta
    text_complete
    turn_completed
    run_completed
    ");
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    assert_eq!(
        recorder.by_type("run_completed"),
        [json!({
            "type": "run_completed",
            "session_id": id,
            "result": "hello",
            "extraction_required": false,
            "usage": usage,
        })]
    );
    assert_eq!(
        recorder.by_type("run_started"),
        [json!({"type": "run_started", "session_id": id, "prompt": "hi"})]
    );
}

#[tokio::test]
async fn tool_run_emits_events_in_order() {
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let model = ScriptedModel::new([Script::call("c1", "look", json!({"at": "x"})), Script::say("seen it")]);
    let world = World::with(model, [look]);
    let (done, recorder) = world.record(say("look")).await;
    done.unwrap();
    insta::assert_snapshot!(recorder.types().join("\n"), @r"
    run_started
    turn_started
    tool_call_requested
    tool_execution_started
    tool_execution_completed
    tool_result_received
    turn_completed
    turn_started
    text_delta
    text_complete
    turn_completed
    run_completed
    ");
    let requested = json!({"type": "tool_call_requested", "id": "c1", "name": "look", "args": {"at": "x"}});
    assert_eq!(recorder.by_type("tool_call_requested"), [requested]);
}

#[tokio::test]
async fn pending_run_ends_with_callback_event() {
    let world = World::new([Script::call("c1", "ask", json!({"n": 1}))]);
    let turn = TurnOptions { tools: Some(vec![client_tool("ask", None)]), ..say("go") };
    let (done, recorder) = world.record(turn).await;
    done.unwrap();
    insta::assert_snapshot!(recorder.types().join("\n"), @r"
    run_started
    turn_started
    tool_call_requested
    interaction_callback_pending
    ");
}

#[tokio::test]
async fn events_are_numbered_and_name_their_session() {
    let world = World::new([]);
    let recorder = Recorder::default();
    let id = world.session("one").await;
    world.sessions().start_turn(id, then("two"), watch(&recorder)).await.unwrap();
    let events = recorder.events();
    assert!(events.len() > 3);
    let first = events[0].seq;
    assert!(first > 3, "events of the first run are counted, too");
    for (index, event) in (first..).zip(&events) {
        assert_eq!((event.seq, &event.source), (index, &EventSource::Session { session_id: id }));
        assert_eq!(event.source_id, format!("session:{id}"));
    }
    assert!(events.is_sorted_by_key(|event| event.timestamp_ms));
    let ids: std::collections::BTreeSet<_> = events.iter().map(|event| event.event_id.to_string()).collect();
    assert_eq!(ids.len(), events.len());
}

#[tokio::test]
async fn end_is_stored_before_it_is_reported() {
    let world = World::new([]);
    let id = world.session("one").await;
    let recorder = Recorder::default();
    let running = world.start(id, then("two"), watch(&recorder));
    recorder.wait_for("run_completed").await;
    let view = world.sessions().read(id).await.unwrap();
    assert_eq!((view.message_count, view.is_active), (4, false));
    running.await.unwrap().unwrap();
}
