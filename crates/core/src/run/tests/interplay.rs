//! Provider pauses, failures, and warnings, and tools that generate images.

use std::sync::Arc;
use std::time::Duration;

use super::world::{Bench, Durable, Waiting, answer, call, model_error, paused, prompt, settings, text};
use crate::run::{Completion, Input, Outcome, RunSettings};
use crate::{
    AgentEvent, AssistantBlock, AssistantImage, BlobId, BlobRef, BudgetLimits, Message, ModelError,
    ModelErrorKind, Provider, Retry, RetryFailure, RetryKind, RetryPlan, SchemaWarning, StopReason,
    TerminalCause, Timestamp, ToolOutput, Usage,
};

fn searching(id: &str) -> AssistantBlock {
    AssistantBlock::ServerToolContent {
        id: Some(id.to_owned()),
        name: "web_search".to_owned(),
        content: serde_json::json!({ "type": "server_tool_use", "id": id }),
        meta: None,
    }
}

#[test]
fn paused_response_is_stored_and_continued() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("look it up"));
    bench.go();
    assert_eq!(bench.feed(paused(vec![text("Let me see. "), searching("s1")])), Waiting::Model);
    assert_eq!(bench.durable.messages.len(), 2, "the step is committed before the model is called again");
    let context = bench.run.transcript().context();
    assert!(matches!(&**context.last().unwrap(), Message::Assistant { .. }), "it is sent back unchanged");
    assert_eq!(bench.feed(answer(vec![text("It is so.")])), Waiting::End);
    let report = bench.report.as_ref().unwrap();
    let expected = Completion { text: "Let me see. It is so.".to_owned(), ..Completion::default() };
    assert_eq!((report.steps, &report.outcome), (2, &Outcome::Completed(expected)));
    assert_eq!(
        bench.event_types(),
        [
            "run_started",
            "turn_started",
            "text_complete",
            "server_tool_content",
            "turn_completed",
            "turn_started",
            "text_complete",
            "turn_completed",
            "run_completed"
        ]
    );
}

#[test]
fn endless_pauses_end_with_partial_text() {
    let patient = RunSettings { max_steps: 50, ..settings() };
    let mut bench = Bench::new(patient, Durable::default(), prompt("go"));
    let mut waiting = bench.go();
    let mut steps = 0;
    while waiting == Waiting::Model {
        steps += 1;
        waiting = bench.feed(paused(vec![text("."), searching(&format!("s{steps}"))]));
    }
    assert_eq!((steps, waiting), (9, Waiting::End), "the first and eight more");
    let Outcome::Completed(done) = bench.report.unwrap().outcome else { panic!("completed") };
    assert_eq!((done.text.as_str(), done.cause), (".........", None));
}

#[test]
fn tool_calls_reset_the_pause_count() {
    let patient = RunSettings { max_steps: 50, ..settings() };
    let mut bench = Bench::new(patient, Durable::default(), prompt("go"));
    bench.go();
    for round in 0..2 {
        for _ in 0..8 {
            assert_eq!(bench.feed(paused(vec![text("."), searching("s")])), Waiting::Model, "{round}");
        }
        bench.feed(answer(vec![call("a", "alpha")]));
        let done = Input::ToolDone { id: "a".to_owned(), output: ToolOutput::text("1"), duration_ms: 1 };
        assert_eq!(bench.feed(done), Waiting::Model);
    }
    assert_eq!(bench.feed(answer(vec![text("end")])), Waiting::End);
    let end = Completion { text: "end".to_owned(), ..Completion::default() };
    assert_eq!(bench.report.unwrap().outcome, Outcome::Completed(end));
}

fn retries(bench: &Bench) -> Vec<Retry> {
    let retry = |event: &AgentEvent| match event {
        AgentEvent::Retrying { retry, .. } => retry.clone(),
        _ => None,
    };
    bench.events.iter().filter_map(retry).collect()
}

#[test]
fn retry_reports_failure_and_plan() {
    let budget = BudgetLimits { max_duration_secs: Some(10), ..BudgetLimits::default() };
    let mut bench = Bench::new(RunSettings { budget, ..settings() }, Durable::default(), prompt("go"));
    bench.go();
    let later = Timestamp::UNIX_EPOCH + Duration::from_secs(4);
    let error = ModelError {
        retry_after: Some(Duration::from_secs(5)),
        provider: Provider::Anthropic,
        ..model_error(ModelErrorKind::RateLimited)
    };
    bench.run.feed(later, Input::Failed(error));
    assert_eq!(bench.go(), Waiting::Pause(Duration::from_secs(5)));
    let mut retry = retries(&bench).remove(0);
    assert!((450..=550).contains(&retry.plan.computed_delay_ms), "{retry:?}");
    retry.plan.computed_delay_ms = 500;
    let expected = Retry {
        failure: RetryFailure {
            provider: Provider::Anthropic,
            kind: RetryKind::RateLimited,
            retry_after_ms: Some(5_000),
            duration_ms: Some(4_000),
            message: "no".to_owned(),
        },
        plan: RetryPlan {
            attempt: 1,
            max_retries: 3,
            computed_delay_ms: 500,
            selected_delay_ms: 5_000,
            retry_after_hint_ms: Some(5_000),
            rate_limit_floor_applied: false,
            budget_capped: false,
        },
    };
    assert_eq!(retry, expected);
}

#[test]
fn run_without_time_for_a_retry_ends_at_once() {
    let budget = BudgetLimits { max_duration_secs: Some(30), ..BudgetLimits::default() };
    let mut bench = Bench::new(RunSettings { budget, ..settings() }, Durable::default(), prompt("go"));
    bench.go();
    assert_eq!(bench.feed(Input::Failed(model_error(ModelErrorKind::RateLimited))), Waiting::End);
    let expected = Completion {
        text: "streamed".to_owned(),
        cause: Some(TerminalCause::BudgetExhausted),
        last_failure: Some("no".to_owned()),
        ..Completion::default()
    };
    assert_eq!(bench.report.as_ref().unwrap().outcome, Outcome::Completed(expected));
    assert_eq!(retries(&bench), []);
}

#[test]
fn empty_response_is_attributed_to_the_provider() {
    let gemini = RunSettings { provider: Provider::Gemini, ..settings() };
    let mut bench = Bench::new(gemini, Durable::default(), prompt("go"));
    bench.go();
    assert!(matches!(bench.feed(answer(vec![])), Waiting::Pause(_)));
    let failure = retries(&bench).remove(0).failure;
    let expected = RetryFailure {
        provider: Provider::Gemini,
        kind: RetryKind::RetryableProviderError,
        retry_after_ms: None,
        duration_ms: Some(0),
        message: "the model returned an empty response".to_owned(),
    };
    assert_eq!(failure, expected);
}

#[test]
fn structured_output_includes_schema_warnings() {
    let warning = SchemaWarning {
        provider: Provider::Gemini,
        path: "/properties/n".to_owned(),
        message: "omitted".to_owned(),
    };
    let warned =
        RunSettings { extraction_retries: Some(0), schema_warnings: vec![warning.clone()], ..settings() };
    let mut bench = Bench::new(warned, Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![text("so")]));
    let verdict = Ok(serde_json::json!({}));
    bench.feed(Input::Extracted { text: "{}".to_owned(), usage: Usage::default(), verdict });
    let expected = AgentEvent::ExtractionSucceeded {
        session_id: settings().session_id,
        structured_output: serde_json::json!({}),
        schema_warnings: Some(vec![warning]),
    };
    assert_eq!(bench.events.last(), Some(&expected));
}

fn image(id: &str) -> AssistantImage {
    let media_type = "image/png".to_owned();
    AssistantImage {
        image_id: id.to_owned(),
        blob_ref: BlobRef { blob_id: BlobId::from_digest(&[7; 32]), media_type: media_type.clone() },
        media_type,
        width: 1,
        height: 1,
        revised_prompt: None,
        meta: None,
    }
}

fn generated(call: &str) -> Input {
    let output = ToolOutput { images: vec![image(call)], ..ToolOutput::text("made") };
    Input::ToolDone { id: call.to_owned(), output, duration_ms: 1 }
}

fn appended(at: &Arc<Message>) -> Vec<AssistantBlock> {
    match &**at {
        Message::Assistant { blocks, stop_reason: StopReason::EndTurn, .. } => blocks.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tool_images_follow_the_results() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("draw two"));
    bench.go();
    bench.feed(answer(vec![call("a", "alpha"), call("b", "beta")]));
    bench.feed(generated("b"));
    assert_eq!(bench.feed(generated("a")), Waiting::Model);
    let images = ["a", "b"].map(|id| AssistantBlock::Image(image(id)));
    assert_eq!(bench.durable.messages.len(), 4);
    assert_eq!(appended(&bench.durable.messages[3]), images);
    let types = bench.event_types();
    let tail = ["assistant_image_appended", "assistant_image_appended", "turn_completed", "turn_started"];
    assert_eq!(types[types.len() - 4..], tail);
    assert_eq!(bench.feed(answer(vec![text("there")])), Waiting::End);
}

#[test]
fn images_survive_a_crash_within_the_step() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("draw two"));
    bench.go();
    bench.feed(answer(vec![call("a", "alpha"), call("b", "beta")]));
    bench.feed(generated("b"));
    let mut bench = Bench::new(settings(), bench.durable, prompt("go on"));
    assert_eq!(bench.go(), Waiting::Model);
    assert_eq!(appended(&bench.durable.messages[3]), [AssistantBlock::Image(image("b"))]);
    assert_eq!(bench.event_types()[..2], ["run_started", "assistant_image_appended"]);
}
