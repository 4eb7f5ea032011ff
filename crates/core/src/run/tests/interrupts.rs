//! State of a session after an interrupted response.

use super::world::{
    Bench, Durable, Waiting, answer, call, compaction, interrupt, model_error, prompt, settings, text,
};
use crate::run::{Completion, Input, Outcome, RunSettings, Stop};
use crate::{
    AssistantBlock, HookPoint, Message, ModelErrorKind, StopReason, TerminalCause, Timestamp, ToolOutput,
};

fn started(settings: RunSettings) -> Bench {
    let mut bench = Bench::new(settings, Durable::default(), prompt("write a story"));
    assert_eq!(bench.go(), Waiting::Model);
    bench
}

fn cancelled(blocks: Vec<AssistantBlock>) -> Message {
    Message::Assistant { blocks, stop_reason: StopReason::Cancelled, created_at: Timestamp::UNIX_EPOCH }
}

fn last(bench: &Bench) -> &Message {
    bench.durable.messages.last().expect("the session has messages")
}

#[test]
fn interrupted_answer_keeps_streamed_text() {
    let mut bench = started(settings());
    assert_eq!(bench.feed(interrupt("Once upon a")), Waiting::End);
    assert_eq!(bench.report.as_ref().map(|report| &report.outcome), Some(&Outcome::Cancelled));
    assert_eq!(bench.durable.messages.len(), 2);
    assert_eq!(*last(&bench), cancelled(vec![text("Once upon a")]));
}

#[test]
fn interrupt_before_any_text_leaves_empty_answer() {
    for partial in ["", " \n"] {
        let mut bench = started(settings());
        bench.feed(interrupt(partial));
        assert_eq!(*last(&bench), cancelled(Vec::new()));
    }
}

#[test]
fn interrupt_after_tool_results_marks_the_step() {
    let mut bench = started(settings());
    bench.feed(answer(vec![call("a", "alpha")]));
    bench.feed(Input::ToolDone { id: "a".to_owned(), output: ToolOutput::text("1"), duration_ms: 1 });
    bench.feed(interrupt("So"));
    assert_eq!((bench.durable.messages.len(), last(&bench)), (4, &cancelled(vec![text("So")])));
}

#[test]
fn interrupt_during_backoff_keeps_streamed_text() {
    let mut bench = started(settings());
    let waiting = bench.feed(Input::Failed(model_error(ModelErrorKind::StreamCut)));
    assert!(matches!(waiting, Waiting::Pause(_)), "{waiting:?}");
    bench.feed(interrupt("Once upon a"));
    assert_eq!(*last(&bench), cancelled(vec![text("Once upon a")]));
}

#[test]
fn expired_run_returns_streamed_text() {
    let mut bench = started(settings());
    bench.feed(Input::Stop { stop: Stop::Deadline, partial: "Once upon a".to_owned() });
    let expected = Completion {
        text: "Once upon a".to_owned(),
        cause: Some(TerminalCause::BudgetExhausted),
        ..Completion::default()
    };
    assert_eq!(bench.report.as_ref().map(|report| &report.outcome), Some(&Outcome::Completed(expected)));
    assert_eq!(*last(&bench), cancelled(vec![text("Once upon a")]));
}

#[test]
fn text_no_hook_has_checked_is_dropped() {
    let hooks = [HookPoint::PostLlmResponse].into_iter().collect();
    let mut bench = started(RunSettings { hooks, ..settings() });
    bench.feed(interrupt("a secret"));
    assert_eq!(*last(&bench), cancelled(Vec::new()));
}

#[test]
fn interrupted_summary_is_not_an_answer() {
    let long = "word ".repeat(60);
    let mut bench = Bench::new(settings(), Durable::default(), prompt(&long));
    bench.go();
    bench.feed(answer(vec![text(&long)]));
    let compacting = RunSettings { compaction: Some(compaction()), ..settings() };
    let mut bench = Bench::new(compacting, bench.durable, prompt("and now?"));
    bench.go();
    assert!(bench.event_types().contains(&"compaction_started".to_owned()));
    bench.feed(interrupt("a summary"));
    assert_eq!(*last(&bench), cancelled(Vec::new()));
}

#[test]
fn complete_answer_gets_no_cancelled_one() {
    let hooks = [HookPoint::RunCompleted].into_iter().collect();
    let mut bench = started(RunSettings { hooks, ..settings() });
    assert_eq!(bench.feed(answer(vec![text("The end.")])), Waiting::Hooks(HookPoint::RunCompleted));
    bench.feed(interrupt("The end."));
    assert_eq!(bench.durable.messages.len(), 2);
    assert_eq!(last(&bench).assistant_text().as_deref(), Some("The end."));
}

/// Returns the roles of a session's messages, with cancelled responses marked.
fn roles(bench: &Bench) -> Vec<&'static str> {
    let role = |message: &std::sync::Arc<Message>| match &**message {
        Message::User { .. } => "user",
        Message::ToolResults { .. } => "results",
        message if message.is_interrupted() => "cancelled",
        _ => "other",
    };
    bench.durable.messages.iter().map(role).collect()
}

#[test]
fn prompt_after_a_kill_is_a_separate_message() {
    let killed = started(settings()).durable;
    let mut bench = Bench::new(settings(), killed, prompt("and now?"));
    bench.go();
    assert_eq!(roles(&bench), ["user", "cancelled", "user"]);

    let mut working = started(settings());
    working.feed(answer(vec![call("a", "alpha")]));
    let mut bench = Bench::new(settings(), working.durable, prompt("and now?"));
    bench.go();
    assert_eq!(roles(&bench), ["user", "other", "results", "cancelled", "user"]);
}

#[test]
fn prompt_after_interrupted_tools_is_separate() {
    let mut bench = started(settings());
    bench.feed(answer(vec![call("a", "alpha")]));
    bench.feed(interrupt(""));
    assert_eq!(roles(&bench), ["user", "other", "results"]);
    let mut bench = Bench::new(settings(), bench.durable, prompt("and now?"));
    bench.go();
    assert_eq!(roles(&bench), ["user", "other", "results", "cancelled", "user"]);
}

#[test]
fn failed_run_is_not_marked_as_interrupted() {
    let mut bench = started(settings());
    bench.feed(Input::Failed(model_error(ModelErrorKind::Auth)));
    let mut bench = Bench::new(settings(), bench.durable, prompt("try again"));
    bench.go();
    assert_eq!(roles(&bench), ["user", "user"]);
}
