//! Common scenarios of the machine.

use std::sync::Arc;

use serde_json::json;

use super::world::{Bench, Durable, Waiting, answer, call, compaction, model_error, prompt, settings, text};
use crate::run::{Completion, Failure, Input, InputError, LastRun, Outcome, RunEnd, RunInput, Stop};
use crate::{
    AgentEvent, BudgetLimits, Content, ErrorClass, Message, ModelErrorKind, Price, TerminalCause, ToolOutput,
    ToolResult, Usage, Usd,
};

fn done(id: &str, output: &str) -> Input {
    Input::ToolDone { id: id.to_owned(), output: ToolOutput::text(output), duration_ms: 1 }
}

fn result(id: &str, content: &str) -> ToolResult {
    ToolResult { tool_use_id: id.to_owned(), content: Content::text(content), is_error: false }
}

fn results(durable: &Durable) -> Vec<Vec<String>> {
    let row = |message: &Arc<Message>| match &**message {
        Message::ToolResults { results, .. } => {
            Some(results.iter().map(|r| format!("{}={}", r.tool_use_id, r.content.to_text())).collect())
        }
        _ => None,
    };
    durable.messages.iter().filter_map(row).collect()
}

fn completed(text: &str) -> Outcome {
    Outcome::Completed(Completion { text: text.to_owned(), ..Completion::default() })
}

#[test]
fn cost_budget_ends_the_run() {
    let dollars = |dollars: f64| Usd::from_dollars(dollars).unwrap();
    let nothing = Usd::default();
    // Ten input tokens and five output tokens cost 20 cents.
    let price = Price {
        input: dollars(10_000.0),
        output: dollars(20_000.0),
        cache_write: nothing,
        cache_read: nothing,
    };
    let budget = BudgetLimits { max_cost_usd: Some(dollars(0.25)), ..BudgetLimits::default() };
    let settings = crate::run::RunSettings { price: Some(price), budget, ..settings() };
    let mut bench = Bench::new(settings, Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("a", "alpha")]));
    assert_eq!(bench.feed(done("a", "x")), Waiting::Model, "the budget is not exhausted");
    assert_eq!(bench.feed(answer(vec![call("b", "alpha")])), Waiting::End, "the budget is exhausted");
    let report = bench.report.as_ref().unwrap();
    let Outcome::Completed(ended) = &report.outcome else { panic!("{report:?}") };
    assert_eq!((ended.cause, report.cost), (Some(TerminalCause::BudgetExhausted), Some(dollars(0.4))));
    assert_eq!(bench.durable.progress.cost, dollars(0.4));
    let warnings = bench.event_types().iter().filter(|name| *name == "budget_warning").count();
    assert_eq!(warnings, 2, "at the threshold and at the limit");
}

#[test]
fn plain_answer_is_one_step_and_five_events() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("hi"));
    assert_eq!(bench.go(), Waiting::Model);
    assert_eq!(bench.feed(answer(vec![text("hello")])), Waiting::End);
    let report = bench.report.as_ref().unwrap();
    assert_eq!((report.steps, report.tool_calls, &report.outcome), (1, 0, &completed("hello")));
    assert_eq!(
        bench.event_types(),
        ["run_started", "turn_started", "text_complete", "turn_completed", "run_completed"]
    );
}

#[test]
fn generated_call_id_avoids_explicit_ids() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    let explicit = ["", "call_0_0", "call_1_0", "x", "x", "call_0_4", "call_1_4"];
    bench.feed(answer(explicit.map(|id| call(id, "alpha")).to_vec()));
    let ids: Vec<_> = bench.durable.calls.iter().map(|call| call.intent.id.as_str()).collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), explicit.len(), "{ids:?}");
    for index in [1, 2, 3, 5, 6] {
        assert_eq!(ids[index], explicit[index], "an explicit id stays");
    }
}

#[test]
fn results_are_stored_in_call_order() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    let waiting = bench.feed(answer(vec![text("two tools"), call("a", "alpha"), call("b", "beta")]));
    assert_eq!(waiting, Waiting::Tools(vec!["a".to_owned(), "b".to_owned()]));
    bench.feed(done("b", "second"));
    assert_eq!(
        bench.durable.calls[1].result,
        Some(result("b", "second").into()),
        "stored while the other call runs"
    );
    assert_eq!(bench.feed(done("a", "first")), Waiting::Model);
    assert_eq!(results(&bench.durable), [["a=first", "b=second"]]);
    bench.feed(answer(vec![text("done")]));
    assert_eq!(bench.report.unwrap().tool_calls, 2);
}

#[test]
fn invalid_calls_return_errors_to_the_model() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    let malformed = crate::AssistantBlock::ToolUse {
        id: "b".to_owned(),
        name: "alpha".to_owned(),
        args: json!("not an object"),
        meta: None,
    };
    assert_eq!(bench.feed(answer(vec![call("a", "gamma"), malformed])), Waiting::Model);
    assert_eq!(
        results(&bench.durable),
        [[
            r#"a={"error":"tool_not_found","message":"no tool is named `gamma`; available: `alpha`, `ask_user`, `beta`, `erase`"}"#,
            r#"b={"error":"invalid_arguments","message":"the arguments must be a JSON object, and were: not an object"}"#,
        ]]
    );
}

#[test]
fn callback_results_are_merged_on_resume() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("a", "ask_user"), call("b", "alpha"), call("c", "ask_user")]));
    assert_eq!(bench.feed(done("b", "kept")), Waiting::End);
    let Outcome::Pending(pending) = bench.report.unwrap().outcome else { panic!("pending") };
    assert_eq!(pending.calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["a", "c"]);

    let durable = bench.durable;
    let error = |results| durable.open(RunInput { results, ..RunInput::default() }).unwrap_err();
    assert_eq!(error(vec![]), InputError::Empty);
    assert_eq!(error(vec![result("a", "1")]), InputError::MissingResults(vec!["c".to_owned()]));
    let pending = vec!["a".to_owned(), "c".to_owned()];
    assert_eq!(error(vec![result("b", "again")]), InputError::UnknownCall { id: "b".to_owned(), pending });
    assert_eq!(error(vec![result("a", "1"), result("a", "2")]), InputError::DuplicateResult("a".to_owned()));

    let input = RunInput { results: vec![result("c", "3"), result("a", "1")], ..RunInput::default() };
    let mut bench = Bench::new(settings(), durable, input);
    assert_eq!(bench.go(), Waiting::Model);
    assert_eq!(results(&bench.durable), [["a=1", "b=kept", "c=3"]]);
    bench.feed(answer(vec![text("thanks")]));
    assert_eq!(bench.report.unwrap().tool_calls, 2);
}

#[test]
fn prompt_without_results_supersedes_open_calls() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("a", "ask_user")]));
    let mut bench = Bench::new(settings(), bench.durable, prompt("never mind"));
    bench.go();
    assert_eq!(
        results(&bench.durable),
        [[r#"a={"error":"superseded","message":"superseded by new input"}"#]]
    );
}

#[test]
fn interrupt_cancels_tools_and_keeps_the_step() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("a", "alpha"), call("b", "beta")]));
    bench.feed(done("a", "finished"));
    assert_eq!(bench.feed(Input::stop(Stop::Interrupt)), Waiting::End);
    assert_eq!(bench.report.as_ref().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(
        results(&bench.durable),
        [["a=finished", r#"b={"error":"interrupted","message":"interrupted; may have taken effect"}"#]]
    );
    assert_eq!(bench.feed(done("b", "late")), Waiting::Nothing, "late results are ignored");
}

#[test]
fn crashed_call_is_reported_and_not_rerun() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("a", "alpha"), call("b", "beta")]));
    bench.feed(done("b", "finished"));
    let mut bench = Bench::new(settings(), bench.durable, prompt("go on"));
    assert_eq!(bench.go(), Waiting::Model);
    assert_eq!(
        results(&bench.durable),
        [[r#"a={"error":"interrupted","message":"interrupted; may have taken effect"}"#, "b=finished"]]
    );
}

#[test]
fn retries_are_announced_and_end() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    for _ in 0..3 {
        let paused = bench.feed(Input::Failed(model_error(ModelErrorKind::Overloaded)));
        assert!(matches!(paused, Waiting::Pause(_)), "{paused:?}");
        assert_eq!(bench.feed(Input::SleepElapsed), Waiting::Model);
    }
    assert_eq!(bench.feed(Input::Failed(model_error(ModelErrorKind::Overloaded))), Waiting::End);
    let failure =
        Failure { class: ErrorClass::Llm, cause: TerminalCause::RetryExhausted, message: "no".to_owned() };
    assert_eq!(bench.report.as_ref().unwrap().outcome, Outcome::Failed(failure));
    let retries = bench.events.iter().filter(|e| matches!(e, AgentEvent::Retrying { .. })).count();
    assert_eq!(retries, 3);
    assert_eq!(bench.durable.messages.len(), 1, "the user's message stays");
}

#[test]
fn empty_response_is_retried_once() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    assert!(matches!(bench.feed(answer(vec![text("")])), Waiting::Pause(_)));
    assert_eq!(bench.feed(Input::SleepElapsed), Waiting::Model);
    assert_eq!(bench.feed(answer(vec![])), Waiting::End);
    assert!(matches!(bench.report.unwrap().outcome, Outcome::Failed(_)));
}

#[test]
fn reasoning_alone_is_retried() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    let reasoning = crate::AssistantBlock::Reasoning { text: "hm".to_owned(), meta: None };
    assert!(matches!(bench.feed(answer(vec![reasoning])), Waiting::Pause(_)));
    bench.feed(Input::SleepElapsed);
    assert_eq!(bench.feed(answer(vec![text("here")])), Waiting::End);
    assert_eq!(bench.report.unwrap().outcome, completed("here"));
}

#[test]
fn exhausted_budgets_complete_the_run_with_warnings() {
    let budget = BudgetLimits { max_tool_calls: Some(2), ..BudgetLimits::default() };
    let mut bench = Bench::new(super::world::settings().with(budget), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("a", "alpha")]));
    bench.feed(done("a", "1"));
    let waiting = bench.feed(answer(vec![text("more"), call("b", "alpha"), call("c", "alpha")]));
    assert_eq!(waiting, Waiting::Tools(vec!["b".to_owned()]));
    assert_eq!(bench.feed(done("b", "2")), Waiting::End);
    let cause = Some(TerminalCause::BudgetExhausted);
    let expected = Completion { text: "more".to_owned(), cause, ..Completion::default() };
    assert_eq!(bench.report.as_ref().unwrap().outcome, Outcome::Completed(expected));
    assert!(results(&bench.durable)[1][1].contains("budget_exhausted"));
    assert!(bench.event_types().contains(&"budget_warning".to_owned()));

    let budget = BudgetLimits { max_tokens: Some(15), ..BudgetLimits::default() };
    let mut bench = Bench::new(super::world::settings().with(budget), Durable::default(), prompt("go"));
    bench.go();
    assert_eq!(bench.feed(answer(vec![call("a", "alpha")])), Waiting::End);
    assert!(results(&bench.durable)[0][0].contains("budget_exhausted"));

    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    assert_eq!(bench.feed(Input::stop(Stop::Deadline)), Waiting::End);
    let expected = Completion { cause, ..Completion::default() };
    assert_eq!(bench.report.unwrap().outcome, Outcome::Completed(expected));
}

#[test]
fn exhausted_budget_does_not_hide_model_failure() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    let waiting = bench.feed(Input::Failed(model_error(ModelErrorKind::Overloaded)));
    assert!(matches!(waiting, Waiting::Pause(_)), "{waiting:?}");
    assert_eq!(bench.feed(Input::stop(Stop::Deadline)), Waiting::End);
    let failure = model_error(ModelErrorKind::Overloaded).to_string();
    let expected = Completion {
        cause: Some(TerminalCause::BudgetExhausted),
        last_failure: Some(failure),
        ..Completion::default()
    };
    assert_eq!(bench.report.unwrap().outcome, Outcome::Completed(expected));

    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(Input::Failed(model_error(ModelErrorKind::Overloaded)));
    bench.feed(Input::SleepElapsed);
    bench.feed(answer(vec![call("a", "alpha")]));
    assert_eq!(bench.feed(Input::stop(Stop::Deadline)), Waiting::End);
    let Outcome::Completed(done) = bench.report.unwrap().outcome else { panic!("completed") };
    assert_eq!(done.last_failure, None, "the model has responded since");
}

#[test]
fn end_of_the_latest_run_is_stored() {
    let id = settings().run_id;
    let stored = |bench: &Bench| bench.durable.progress.last_run;
    let started = || {
        let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
        bench.go();
        assert_eq!(stored(&bench), Some(LastRun { id, end: None, spent: None }));
        bench
    };
    let failed = RunEnd::Failed { class: ErrorClass::Auth, cause: TerminalCause::LlmFailure };
    let cases = [
        (answer(vec![text("hello")]), RunEnd::Completed),
        (answer(vec![call("a", "ask_user")]), RunEnd::Pending),
        (Input::Failed(model_error(ModelErrorKind::Auth)), failed),
        (Input::stop(Stop::Interrupt), RunEnd::Cancelled),
    ];
    for (input, end) in cases {
        let mut bench = started();
        assert_eq!(bench.feed(input), Waiting::End);
        let end_stored = stored(&bench).map(|last| (last.id, last.end));
        assert_eq!(end_stored, Some((id, Some(end))));
    }
}

#[test]
fn step_limit_fails_the_run() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    let mut waiting = bench.go();
    let mut steps = 0;
    while waiting == Waiting::Model {
        steps += 1;
        waiting = bench.feed(answer(vec![call("a", "nothing")]));
    }
    assert_eq!((steps, waiting), (8, Waiting::End));
    let Outcome::Failed(failure) = bench.report.unwrap().outcome else { panic!("failed") };
    assert_eq!(failure.cause, TerminalCause::TurnLimitReached);
}

#[test]
fn extraction_messages_are_not_stored() {
    let extracting = || crate::run::RunSettings { extraction_retries: Some(1), ..settings() };
    let extracted =
        |text: &str, verdict| Input::Extracted { text: text.to_owned(), usage: Usage::default(), verdict };
    let mut bench = Bench::new(extracting(), Durable::default(), prompt("go"));
    bench.go();
    assert_eq!(bench.feed(answer(vec![text("the answer")])), Waiting::Extraction);
    assert_eq!(bench.feed(extracted("nonsense", Err("no JSON".to_owned()))), Waiting::Extraction);
    assert_eq!(bench.feed(extracted("{}", Ok(json!({ "a": 1 })))), Waiting::End);
    let report = bench.report.as_ref().unwrap();
    let Outcome::Completed(completion) = &report.outcome else { panic!("completed") };
    assert_eq!(
        (completion.text.as_str(), &completion.structured_output),
        ("the answer", &Some(json!({ "a": 1 })))
    );
    assert_eq!((report.steps, bench.durable.messages.len()), (3, 2));
    assert_eq!(bench.event_types()[3..], ["turn_completed", "run_completed", "extraction_succeeded"]);

    let mut bench = Bench::new(extracting(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![text("the answer")]));
    bench.feed(extracted("x", Err("bad".to_owned())));
    assert_eq!(bench.feed(extracted("y", Err("still bad".to_owned()))), Waiting::End);
    let Outcome::Completed(completion) = bench.report.unwrap().outcome else { panic!("completed") };
    let error = completion.extraction_error.unwrap();
    assert_eq!((error.last_output.as_str(), error.attempts, error.reason.as_str()), ("y", 2, "still bad"));

    let mut bench = Bench::new(extracting(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![text("the answer")]));
    assert_eq!(bench.feed(Input::stop(Stop::Interrupt)), Waiting::End);
    let Outcome::Completed(completion) = bench.report.unwrap().outcome else { panic!("completed") };
    assert_eq!(completion.text, "the answer", "a committed answer is kept");
}

#[test]
fn long_histories_are_compacted_between_groups() {
    let compacting = || crate::run::RunSettings { compaction: Some(compaction()), ..settings() };
    let long = "word ".repeat(20);
    let mut durable = Durable::default();
    for round in 0..3 {
        let mut bench = Bench::new(compacting(), durable, prompt(&long));
        let mut waiting = bench.go();
        if bench.event_types().contains(&"compaction_started".to_owned()) {
            assert!(round > 0, "never on the first step");
            waiting = bench.feed(answer(vec![text("so far so good")]));
        }
        assert_eq!(waiting, Waiting::Model);
        bench.feed(answer(vec![text(&long), call("a", "alpha")]));
        bench.feed(done("a", &long));
        while bench.report.is_none() {
            bench.feed(answer(vec![text("ok")]));
        }
        durable = bench.durable;
    }
    let compaction = durable.progress.compaction.expect("compacted");
    let context = durable.transcript().context();
    let Message::SystemNotice { body, .. } = &*context[0] else { panic!("the summary comes first") };
    assert!(body.starts_with("[Context compacted]"), "{body}");
    assert!(context.len() < durable.messages.len());
    assert!(!matches!(&*durable.messages[compaction.kept_from as usize], Message::ToolResults { .. }));
}

#[test]
fn overflow_without_summary_drops_oldest_messages() {
    let compacting = || crate::run::RunSettings { compaction: Some(compaction()), ..settings() };
    let mut durable = Durable::default();
    for _ in 0..3 {
        let mut bench = Bench::new(settings(), durable, prompt("hello there"));
        bench.go();
        bench.feed(answer(vec![text("hello")]));
        durable = bench.durable;
    }
    let mut bench = Bench::new(compacting(), durable, prompt("more"));
    bench.go();
    let overflow = || Input::Failed(model_error(ModelErrorKind::ContextOverflow));
    assert_eq!(bench.feed(overflow()), Waiting::Model, "requests a summary");
    assert_eq!(bench.feed(overflow()), Waiting::Model, "retries the step without the oldest messages");
    assert_eq!(bench.feed(answer(vec![text("recovered")])), Waiting::End);
    assert_eq!(bench.report.as_ref().unwrap().outcome, completed("recovered"));
    let types = bench.event_types();
    assert!(
        types.contains(&"compaction_failed".to_owned()) && types.contains(&"compaction_completed".to_owned())
    );
}

#[test]
fn failed_commit_ends_the_run() {
    let durable = Durable::default();
    let opening = durable.open(prompt("go")).unwrap();
    let now = crate::Timestamp::UNIX_EPOCH;
    let mut run = crate::run::Run::new(settings(), durable.transcript(), durable.progress, opening, now);
    assert!(matches!(run.next(), crate::run::Effect::Commit(_)));
    run.feed(now, Input::Committed(Err("disk full".to_owned())));
    assert!(matches!(run.next(), crate::run::Effect::CancelAll));
    assert!(matches!(run.next(), crate::run::Effect::End(_)), "a run that never started emits no events");
}

impl crate::run::RunSettings {
    fn with(self, budget: BudgetLimits) -> Self {
        Self { budget, ..self }
    }
}
