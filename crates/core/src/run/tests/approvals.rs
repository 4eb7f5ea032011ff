//! Calls that need approval: which ones wait, which ones run, and what the model gets otherwise.

use std::time::Duration;

use super::world::{Bench, Durable, Waiting, answer, call, prompt, settings, text, tools};
use crate::run::{BudgetUsage, Input, InputError, Outcome, Pending, RunInput, RunSettings, Stop};
use crate::{
    AgentEvent, Approval, ApprovalRequest, BudgetLimits, Content, Decision, HookPoint, Message, Timestamp,
    ToolCall, ToolOutput, ToolResult, ToolRoute,
};

fn erase(id: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "erase".to_owned(), args: serde_json::json!({ "n": 1 }) }
}

fn deadline() -> Timestamp {
    Timestamp::UNIX_EPOCH + settings().approval_timeout
}

fn awaited(id: &str) -> ApprovalRequest {
    ApprovalRequest { call: erase(id), expires_at: deadline() }
}

fn approvals(decisions: &[(&str, Decision)]) -> RunInput {
    let approval = |(call, decision): &(&str, Decision)| Approval {
        call: (*call).to_owned(),
        expires_at: None,
        decision: decision.clone(),
    };
    RunInput { approvals: decisions.iter().map(approval).collect(), ..RunInput::default() }
}

fn done(id: &str, text: &str) -> Input {
    Input::ToolDone { id: id.to_owned(), output: ToolOutput::text(text), duration_ms: 1 }
}

/// A session with a pending run: `a` is done, `b` and `d` await approval, `c` is for the caller.
fn pending_session() -> Bench {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    let calls = vec![call("a", "alpha"), call("b", "erase"), call("c", "ask_user"), call("d", "erase")];
    assert_eq!(bench.feed(answer(calls)), Waiting::Tools(vec!["a".to_owned()]), "the others wait");
    assert_eq!(bench.feed(done("a", "1")), Waiting::End);
    bench
}

fn decided(decision: Decision) -> (Bench, Waiting) {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("b", "erase")]));
    let mut bench = Bench::new(settings(), bench.durable, approvals(&[("b", decision)]));
    let waiting = bench.go();
    (bench, waiting)
}

fn results(bench: &Bench) -> Vec<(String, String)> {
    let message = bench.durable.messages.iter().rev().find_map(|message| match &**message {
        Message::ToolResults { results, .. } => Some(results.clone()),
        _ => None,
    });
    let pair = |result: ToolResult| (result.tool_use_id, result.content.to_text());
    message.unwrap_or_default().into_iter().map(pair).collect()
}

#[test]
fn call_needing_approval_is_left_to_caller() {
    let bench = pending_session();
    let Outcome::Pending(pending) = bench.report.unwrap().outcome else { panic!("pending") };
    let question = ToolCall { name: "ask_user".to_owned(), ..erase("c") };
    assert_eq!(pending, Pending { calls: vec![question], approvals: vec![awaited("b"), awaited("d")] });
    let requests =
        bench.events.iter().filter(|event| matches!(event, AgentEvent::ToolApprovalRequested { .. }));
    assert_eq!(requests.count(), 2);
    let waits = |id: &str| bench.durable.calls.iter().find(|call| call.intent.id == id).unwrap().clone();
    assert_eq!(waits("b").intent.route, ToolRoute::Approval);
    assert!(waits("a").result.is_some(), "completed results are stored");
}

#[test]
fn approved_calls_run_and_complete_the_step() {
    let mut input =
        approvals(&[("d", Decision::Deny(Some("not that".to_owned()))), ("b", Decision::Approve)]);
    let content = Content::text("3");
    input.results.push(ToolResult { tool_use_id: "c".to_owned(), content, is_error: false });
    let mut bench = Bench::new(settings(), pending_session().durable, input);
    assert_eq!(bench.go(), Waiting::Tools(vec!["b".to_owned()]));
    let started = bench.durable.calls.iter().find(|call| call.intent.id == "b").unwrap();
    assert_eq!(started.intent.route, ToolRoute::Local, "the start is stored before the call runs");
    assert_eq!(bench.feed(done("b", "2")), Waiting::Model);
    let denied = r#"{"error":"not_approved","message":"not run: the user did not approve it: not that"}"#;
    let all = [("a", "1"), ("b", "2"), ("c", "3"), ("d", denied)];
    assert_eq!(results(&bench), all.map(|(id, text)| (id.to_owned(), text.to_owned())));
    assert_eq!(bench.feed(answer(vec![text("done")])), Waiting::End);
    let report = bench.report.unwrap();
    assert_eq!((report.steps, report.tool_calls), (2, 3), "the same run continues");
}

#[test]
fn denied_call_is_reported_to_the_model() {
    let (bench, waiting) = decided(Decision::Deny(None));
    assert_eq!(waiting, Waiting::Model);
    let denied = r#"{"error":"not_approved","message":"not run: the user did not approve it"}"#;
    assert_eq!(results(&bench), [("b".to_owned(), denied.to_owned())]);
}

#[test]
fn crash_does_not_rerun_approved_call() {
    let (bench, waiting) = decided(Decision::Approve);
    assert_eq!(waiting, Waiting::Tools(vec!["b".to_owned()]));
    let again = bench.durable.open(approvals(&[("b", Decision::Approve)]));
    let unknown = InputError::UnknownApproval { id: "b".to_owned(), pending: Vec::new() };
    assert_eq!(again.unwrap_err(), unknown);
    let mut bench = Bench::new(settings(), bench.durable, prompt("and?"));
    assert_eq!(bench.go(), Waiting::Model);
    assert!(results(&bench)[0].1.contains("may have taken effect"));
}

#[test]
fn late_approval_counts_as_denial() {
    let durable = {
        let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
        bench.go();
        bench.feed(answer(vec![call("b", "erase")]));
        bench.durable
    };
    let late = deadline() + Duration::from_secs(31);
    let mut input = approvals(&[("b", Decision::Approve)]);
    let opening = crate::run::open(&durable.transcript(), &durable.calls, &mut input, late).unwrap();
    let Message::ToolResults { results, .. } = &*opening.messages[0] else { panic!("results") };
    assert!(results[0].content.to_text().contains("approval timed out"));
}

#[test]
fn approval_of_an_earlier_request_is_rejected() {
    let input = |expires_at| {
        let approval = Approval { call: "b".to_owned(), expires_at, decision: Decision::Approve };
        RunInput { approvals: vec![approval], ..RunInput::default() }
    };
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("b", "erase")]));
    let other = Some(deadline() + Duration::from_secs(1));
    assert!(matches!(bench.durable.open(input(other)), Err(InputError::UnknownApproval { .. })));
    assert!(bench.durable.open(input(Some(deadline()))).is_ok());
}

#[test]
fn crash_before_request_leaves_nothing_to_approve() {
    let hooks = [HookPoint::PreToolExecution].into_iter().collect();
    let mut bench = Bench::new(RunSettings { hooks, ..settings() }, Durable::default(), prompt("go"));
    bench.go();
    assert_eq!(bench.feed(answer(vec![call("b", "erase")])), Waiting::CheckingCalls(vec!["b".to_owned()]));
    let approved = bench.durable.open(approvals(&[("b", Decision::Approve)]));
    assert!(matches!(approved, Err(InputError::UnknownApproval { .. })), "a hook may have denied it");
    let mut bench = Bench::new(settings(), bench.durable, prompt("and?"));
    bench.go();
    assert!(results(&bench)[0].1.contains("it had no effect"));
}

#[test]
fn new_input_supersedes_calls_awaiting_approval() {
    let mut bench = Bench::new(settings(), pending_session().durable, prompt("never mind"));
    assert_eq!(bench.go(), Waiting::Model);
    let superseded = results(&bench).into_iter().filter(|(_, text)| text.contains("superseded"));
    assert_eq!(superseded.map(|(id, _)| id).collect::<Vec<_>>(), ["b", "c", "d"]);
}

#[test]
fn invalid_approvals_are_rejected_with_reason() {
    let durable = pending_session().durable;
    let error = |input: RunInput| durable.open(input).unwrap_err().to_string();
    let both = || approvals(&[("b", Decision::Approve), ("d", Decision::Approve)]);
    assert_eq!(error(both()), "these pending tool calls have no result: `c`");
    let content = Content::text("3");
    let result = ToolResult { tool_use_id: "c".to_owned(), content, is_error: false };
    let with = |input: RunInput| RunInput { results: vec![result.clone()], ..input };
    assert_eq!(
        error(with(approvals(&[("b", Decision::Approve)]))),
        "these calls are neither approved nor denied in `approvals`: `d`"
    );
    assert_eq!(
        error(approvals(&[("x", Decision::Approve)])),
        "no call awaiting approval has the id `x`; pending: `b`, `d`"
    );
    assert_eq!(
        error(approvals(&[("b", Decision::Approve), ("b", Decision::Deny(None))])),
        "`approvals` has two decisions for `b`"
    );
    let prompted = RunInput { prompt: Content::text("and"), ..both() };
    assert_eq!(error(prompted), InputError::PromptWithApproval.to_string());
}

#[test]
fn denial_may_come_with_a_prompt() {
    let input = approvals(&[("b", Decision::Deny(None)), ("d", Decision::Deny(None))]);
    let input = RunInput { prompt: Content::text("look only"), ..input };
    let mut bench = Bench::new(settings(), pending_session().durable, input);
    assert_eq!(bench.go(), Waiting::Model);
    assert!(matches!(&**bench.durable.messages.last().unwrap(), Message::User { .. }));
}

#[test]
fn resumed_run_keeps_its_used_budget() {
    let budget = BudgetLimits { max_tool_calls: Some(2), ..BudgetLimits::default() };
    let limited = || RunSettings { budget, ..settings() };
    let mut bench = Bench::new(limited(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("a", "alpha"), call("b", "erase")]));
    bench.feed(done("a", "1"));
    let spent = bench.durable.progress.last_run.unwrap().spent;
    let used = BudgetUsage { steps: 1, tool_calls: 1, tokens: 15, ..BudgetUsage::default() };
    assert_eq!(spent, Some(used));
    let mut bench = Bench::new(limited(), bench.durable, approvals(&[("b", Decision::Approve)]));
    assert_eq!(bench.go(), Waiting::Tools(vec!["b".to_owned()]));
    bench.feed(done("b", "2"));
    bench.feed(answer(vec![call("e", "alpha")]));
    assert!(results(&bench)[0].1.contains("budget_exhausted"), "the third call is rejected");
}

#[test]
fn approved_call_over_budget_is_not_run() {
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("b", "erase")]));
    let budget = BudgetLimits { max_tool_calls: Some(0), ..BudgetLimits::default() };
    let tight = RunSettings { budget, ..settings() };
    let mut bench = Bench::new(tight, bench.durable, approvals(&[("b", Decision::Approve)]));
    assert_eq!(bench.go(), Waiting::End);
    assert!(results(&bench)[0].1.contains("budget_exhausted"));
}

#[test]
fn stop_before_approved_call_prevents_its_effect() {
    let (bench, _) = decided(Decision::Approve);
    assert_eq!(bench.durable.calls.len(), 1);
    let mut bench = Bench::new(settings(), Durable::default(), prompt("go"));
    bench.go();
    bench.feed(answer(vec![call("b", "erase")]));
    let mut bench = Bench::new(settings(), bench.durable, approvals(&[("b", Decision::Approve)]));
    let crate::run::Effect::Commit(commit) = bench.run.next() else { panic!("the opening is committed") };
    bench.durable.apply(&commit);
    bench.run.feed(Timestamp::UNIX_EPOCH, Input::stop(Stop::Interrupt));
    assert_eq!(bench.feed(Input::Committed(Ok(()))), Waiting::End);
    assert!(results(&bench)[0].1.contains("it had no effect"));
}

#[test]
fn hooks_check_calls_before_approval_is_requested() {
    let hooks = [HookPoint::PreToolExecution].into_iter().collect();
    let watched = || RunSettings { hooks, ..settings() };
    let mut bench = Bench::new(watched(), Durable::default(), prompt("go"));
    bench.go();
    let waiting = bench.feed(answer(vec![call("b", "erase"), call("d", "erase")]));
    assert_eq!(waiting, Waiting::CheckingCalls(vec!["b".to_owned(), "d".to_owned()]));
    let denied = vec![("d".to_owned(), ToolOutput::text("no"))];
    assert_eq!(bench.feed(Input::CallsChecked(denied)), Waiting::End);
    let Outcome::Pending(pending) = bench.report.unwrap().outcome else { panic!("pending") };
    assert_eq!(pending.approvals, [awaited("b")], "no approval is requested for denied calls");
    let mut bench = Bench::new(watched(), bench.durable, approvals(&[("b", Decision::Approve)]));
    assert_eq!(bench.go(), Waiting::Tools(vec!["b".to_owned()]), "hooks do not run twice");
    assert_eq!(tools()["erase"], ToolRoute::Approval);
}
