//! Structured output: returned alongside the answer, never part of the conversation.

use meerkat::{Completion, ErrorKind, Outcome, RunControl, RunResult, TurnOptions};
use meerkat_core::run::ExtractionError;
use meerkat_core::{OutputSchema, TerminalCause, ToolOutput};
use meerkat_testkit::{FnTool, Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, say, then};

fn count() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

fn asking(schema: Value, turn: TurnOptions) -> TurnOptions {
    TurnOptions { output_schema: Some(OutputSchema::parse(schema).unwrap()), ..turn }
}

fn completion(done: RunResult) -> Completion {
    match done.report.outcome {
        Outcome::Completed(done) => done,
        other => panic!("{other:?}"),
    }
}

fn with_output(text: &str, value: Value) -> Completion {
    Completion { text: text.to_owned(), structured_output: Some(value), ..Completion::default() }
}

#[tokio::test]
async fn raw_and_wrapped_schemas_return_the_value() {
    let wrapped = json!({"schema": count(), "name": "count", "strict": true});
    for (schema, answer) in [(count(), r#"{"n": 1}"#), (wrapped, r#"{"count": {"n": 1}}"#)] {
        let world = World::new([Script::say("there is one"), Script::say(answer)]);
        let (done, recorder) = world.record(asking(schema, say("how many?"))).await;
        let done = done.unwrap();
        assert_eq!(done.report.steps, 2);
        assert_eq!(completion(done), with_output("there is one", json!({"n": 1})));
        let last = recorder.by_type("extraction_succeeded");
        assert_eq!(last[0]["structured_output"], json!({"n": 1}));
        assert_eq!(recorder.by_type("run_completed")[0]["extraction_required"], true);
        assert_eq!(recorder.by_type("text_delta").len(), 1, "the extraction is not streamed");
    }
}

#[tokio::test]
async fn turn_limit_bounds_extraction() {
    let world = World::new(vec![Script::say("no JSON"); 50]);
    world.configure(json!({"agent": {"max_turns": 5}})).await;
    let turn = TurnOptions { structured_output_retries: Some(100), ..asking(count(), say("how many?")) };
    let done = world.create(turn).await.unwrap();
    assert_eq!((done.report.steps, world.model.seen().len()), (5, 5));
    let done = completion(done);
    let error = done.extraction_error.unwrap();
    assert_eq!((error.attempts, error.reason.as_str()), (4, "the run reached its limit of 5 model calls"));
    assert_eq!(done.cause, Some(TerminalCause::TurnLimitReached));
}

#[tokio::test]
async fn run_that_never_waits_can_be_cancelled() {
    // The model, the store, and this test share one thread.
    let world = World::in_memory(vec![Script::say("no JSON"); 200], [], None);
    let turn = TurnOptions { structured_output_retries: Some(100), ..asking(count(), say("how many?")) };
    let (sessions, control) = (world.sessions(), RunControl::default());
    let run = control.clone();
    let running = tokio::spawn(async move { sessions.create(Default::default(), turn, run).await });
    world.model.wait_for_requests(2).await;
    control.cancel.cancel();
    let done = completion(running.await.unwrap().unwrap());
    assert_eq!(done.extraction_error.unwrap().reason, "the run was interrupted");
    assert!(world.model.seen().len() < 10, "{}", world.model.seen().len());
}

#[tokio::test]
async fn unmatchable_schema_is_rejected_before_any_call() {
    let world = World::new([]);
    let error = world.create(asking(json!({"not": {}}), say("how many?"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParams);
    assert_eq!(error.to_string(), "`output_schema` cannot be met: no value matches `#`");
    assert_eq!(world.model.seen(), []);
}

#[tokio::test]
async fn extraction_is_not_part_of_the_history() {
    let world = World::new([
        Script::say("there is one"),
        Script::say("one"),
        Script::say(r#"{"n": 1}"#),
        Script::say("as I said"),
    ]);
    let done = world.create(asking(count(), say("how many?"))).await.unwrap();
    let id = done.session_id;
    let lines = ["user: how many?", "assistant: there is one"];
    assert_eq!(world.lines(id).await, lines);
    world.resume(id, then("sure?")).await.unwrap();
    assert_eq!(world.model.seen()[3].lines, ["user: how many?", "assistant: there is one", "user: sure?"]);
}

#[tokio::test]
async fn invalid_output_is_retried_with_the_reason() {
    let model = ScriptedModel::new([
        Script::say("there is one"),
        Script::say("one"),
        Script::say(r#"{"n": "one"}"#),
        Script::say(r#"{"n": 1}"#),
    ]);
    let world = World::with(model, [FnTool::new("look", async |_| ToolOutput::text("seen"))]);
    let done = world.create(asking(count(), say("how many?"))).await.unwrap();
    assert_eq!(completion(done), with_output("there is one", json!({"n": 1})));
    let seen = world.model.seen();
    let tools: Vec<_> = seen.iter().map(|request| request.tools.len()).collect();
    assert_eq!(tools, [1, 0, 0, 0], "extraction requests have no tools");
    let messages = &seen[3].lines[2..];
    assert!(messages[0].starts_with("user: Give the result of the conversation above as one JSON value"));
    assert_eq!(messages[1], "assistant: one");
    assert!(
        messages[2].starts_with("user: That does not match the schema: it is not JSON"),
        "{}",
        messages[2]
    );
    assert_eq!(messages[3], r#"assistant: {"n": "one"}"#);
    let reason = r#"That does not match the schema: at `/n`: "one" is not of type "integer""#;
    assert!(messages[4].starts_with(&format!("user: {reason}")), "{}", messages[4]);
}

#[tokio::test]
async fn run_without_valid_output_reports_why() {
    let world = World::new([Script::say("there is one"), Script::say("one"), Script::say("uno")]);
    let turn = TurnOptions { structured_output_retries: Some(1), ..asking(count(), say("how many?")) };
    let (done, recorder) = world.record(turn).await;
    let done = completion(done.unwrap());
    let Some(ExtractionError { last_output, attempts, reason }) = done.extraction_error else {
        panic!("{done:?}")
    };
    assert_eq!((done.text.as_str(), done.structured_output), ("there is one", None));
    assert_eq!((last_output.as_str(), attempts), ("uno", 2));
    assert!(reason.starts_with("it is not JSON"), "{reason}");
    assert_eq!(recorder.types().last().unwrap(), "extraction_failed");
}

#[tokio::test]
async fn later_run_keeps_the_number_of_retries() {
    let world = World::new([
        Script::say("hello"),
        Script::say("there is one"),
        Script::say("one"),
        Script::say("bye"),
    ]);
    let first = TurnOptions { structured_output_retries: Some(0), ..say("hi") };
    let id = world.create(first).await.unwrap().session_id;
    let second = completion(world.resume(id, asking(count(), then("how many?"))).await.unwrap());
    assert_eq!(second.extraction_error.unwrap().attempts, 1, "no retry, as set by the first run");
    let third = completion(world.resume(id, then("bye")).await.unwrap());
    assert_eq!(third, Completion { text: "bye".to_owned(), ..Completion::default() });
    assert_eq!(world.model.seen().len(), 4);
}

#[tokio::test]
async fn offline_model_output_matches_any_schema() {
    let world = World::with(ScriptedModel::new([]), []);
    let turn = TurnOptions { model: Some("offline".to_owned()), ..asking(count(), then("say hi")) };
    let done = completion(world.create(turn).await.unwrap());
    assert!(done.structured_output.unwrap()["n"].is_i64());
}
