//! Budgets and handling of failing models. Time is paused where it matters.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use meerkat::{
    BudgetLimits, ConfigChange, Error, ErrorKind, Outcome, RunResult, Runtime, RuntimeOptions, TurnOptions,
};
use meerkat_core::{
    AssistantBlock, BoxFuture, Delta, DeltaSink, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest,
    ModelResponse, Provider, ResponseStatus, StopReason, TerminalCause, ToolOutput, Usage,
};
use meerkat_testkit::{FnTool, Script};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{World, kind, say, text, then};

fn world(script: impl IntoIterator<Item = Script>) -> World {
    World::in_memory(script, [FnTool::new("look", async |_| ToolOutput::text("seen"))], None)
}

fn look(id: &str) -> Script {
    Script::call(id, "look", json!({}))
}

fn within(budget: BudgetLimits) -> TurnOptions {
    TurnOptions { budget, ..say("go") }
}

/// Returns the text of a run and the cause of its end.
fn end(done: &RunResult) -> (&str, Option<TerminalCause>) {
    match &done.report.outcome {
        Outcome::Completed(done) => (&done.text, done.cause),
        other => panic!("{other:?}"),
    }
}

/// Returns the class and cause of a failed run.
fn failure(error: &Error) -> (ErrorKind, Value, Value) {
    let data = error.data().unwrap();
    assert_eq!(data["resumable"], true);
    (error.kind(), data["error_class"].clone(), data["terminal_cause_kind"].clone())
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried_with_backoff() {
    let fail = |kind| Script::Fail(kind);
    let world =
        world([fail(ModelErrorKind::Overloaded), fail(ModelErrorKind::Server), Script::say("at last")]);
    let start = Instant::now();
    let (done, recorder) = world.record(say("go")).await;
    let done = done.unwrap();
    assert_eq!((text(&done), done.report.steps), ("at last", 1));
    let retries = recorder.by_type("retrying");
    let counts: Vec<_> = retries.iter().map(|event| (&event["attempt"], &event["max_attempts"])).collect();
    assert_eq!(counts, [(&json!(1), &json!(3)), (&json!(2), &json!(3))]);
    let pauses: Vec<_> = retries.iter().map(|event| event["delay_ms"].as_u64().unwrap()).collect();
    assert!((450..=550).contains(&pauses[0]) && (900..=1100).contains(&pauses[1]), "{pauses:?}");
    let elapsed = start.elapsed().as_millis() as u64;
    let planned: u64 = pauses.iter().sum();
    assert!((planned..planned + 5).contains(&elapsed), "{elapsed} ms and not {planned}");
}

#[tokio::test(start_paused = true)]
async fn persistent_failure_ends_only_the_run() {
    let world = world(vec![Script::Fail(ModelErrorKind::Connection); 4]);
    let (done, recorder) = world.record(say("go")).await;
    let error = done.unwrap_err();
    assert_eq!(failure(&error), (ErrorKind::AgentError, json!("llm"), json!("retry_exhausted")));
    assert_eq!((recorder.by_type("retrying").len(), world.model.seen().len()), (3, 4));
    let Error::Failed { session, .. } = error else { panic!("{error:?}") };
    assert_eq!(text(&world.resume(session.id, then("again")).await.unwrap()), "done");
    assert_eq!(world.lines(session.id).await, ["user: go", "user: again", "assistant: done"]);
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    let cases = [
        (ModelErrorKind::Auth, "auth"),
        (ModelErrorKind::ContentFilter, "content_filtered"),
        (ModelErrorKind::BadRequest, "llm"),
    ];
    for (kind, class) in cases {
        let world = world([Script::Fail(kind)]);
        let (done, recorder) = world.record(say("go")).await;
        let error = done.unwrap_err();
        assert_eq!(failure(&error), (ErrorKind::AgentError, json!(class), json!("llm_failure")));
        assert_eq!(error.body().message, "as scripted");
        assert_eq!(world.model.seen().len(), 1);
        let failed = recorder.by_type("run_failed");
        assert_eq!((failed.len(), &failed[0]["error_class"]), (1, &json!(class)));
    }
}

#[tokio::test(start_paused = true)]
async fn timed_out_model_call_is_retried() {
    let world = world([Script::Hang, Script::say("quick")]);
    world.configure(json!({"retry": {"call_timeout": "20s"}})).await;
    let start = Instant::now();
    let (done, recorder) = world.record(say("go")).await;
    assert_eq!(text(&done.unwrap()), "quick");
    assert_eq!(recorder.by_type("retrying")[0]["error"], "no response within 20 s");
    assert!((20..22).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

/// A model that responds after 150 s, and sends something every 15 s until then.
struct SlowModel(ModelInfo);

impl Model for SlowModel {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn generate<'a>(
        &'a self,
        _: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(15)).await;
                deltas(Delta::Received);
            }
            Ok(ModelResponse {
                blocks: vec![AssistantBlock::Text { text: "at last".to_owned(), meta: None }],
                stop_reason: StopReason::EndTurn,
                extent: ResponseStatus::Complete,
                usage: Usage::default(),
            })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn slow_response_is_limited_only_on_request() {
    let model = SlowModel(ModelInfo::new("slow", Provider::Other));
    let options = RuntimeOptions { models: vec![Arc::new(model)], ..RuntimeOptions::default() };
    let runtime = Runtime::ephemeral(options).unwrap();
    let ask = || runtime.ask("go").model("slow").into_future();
    let configure = async |retry| {
        let Value::Object(patch) = json!({ "retry": retry }) else { panic!() };
        runtime.config().change(ConfigChange::Patch(patch), None).await.unwrap();
    };
    configure(json!({"call_timeout": "20s", "max_retries": 0})).await;
    assert_eq!(ask().await.unwrap().text, "at last");
    configure(json!({"max_call_duration": "100s"})).await;
    assert_eq!(ask().await.unwrap_err().to_string(), "no complete response within 100 s");
    configure(json!({"call_timeout": "10s"})).await;
    assert_eq!(ask().await.unwrap_err().to_string(), "no response within 10 s");
}

#[tokio::test]
async fn exhausted_token_budget_completes_the_run() {
    let world = world([look("c1"), look("c2"), look("c3")]);
    let budget = BudgetLimits { max_tokens: Some(30), ..BudgetLimits::default() };
    let (done, recorder) = world.record(within(budget)).await;
    let done = done.unwrap();
    assert_eq!(end(&done), ("", Some(TerminalCause::BudgetExhausted)));
    assert_eq!(
        (done.report.steps, done.report.tool_calls),
        (2, 1),
        "the second step left no budget for its tool"
    );
    let rejected =
        r#"results: c2={"error":"budget_exhausted","message":"not run: the run's budget is exhausted"}"#;
    assert_eq!(world.lines(done.session_id).await[4], rejected);
    let last = recorder.by_type("run_completed");
    assert_eq!(last[0]["terminal_cause_kind"], "budget_exhausted");
    assert_eq!(recorder.by_type("budget_warning").len(), 1);
    assert_eq!(
        end(&world.resume(done.session_id, then("continue")).await.unwrap()).1,
        None,
        "budgets are per run"
    );
}

#[tokio::test]
async fn exhausted_call_budget_completes_the_run() {
    let world = world([look("c1"), look("c2"), Script::say("never said")]);
    let budget = BudgetLimits { max_tool_calls: Some(1), ..BudgetLimits::default() };
    let done = world.create(within(budget)).await.unwrap();
    assert_eq!(end(&done), ("", Some(TerminalCause::BudgetExhausted)));
    assert_eq!((done.report.steps, done.report.tool_calls), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn time_limit_completes_the_run() {
    let world = world([Script::say("so far"), Script::Hang, Script::say("more")]);
    let id = world.session("one").await;
    let budget = BudgetLimits { max_duration_secs: Some(42), ..BudgetLimits::default() };
    let start = Instant::now();
    let done = world.resume(id, TurnOptions { budget, ..then("two") }).await.unwrap();
    assert_eq!(end(&done).1, Some(TerminalCause::BudgetExhausted));
    assert_eq!(start.elapsed().as_secs(), 42);
    assert_eq!(text(&world.resume(id, then("three")).await.unwrap()), "more");
}

#[tokio::test(start_paused = true)]
async fn expired_run_returns_streamed_text() {
    let world = world([Script::stall("Once upon a")]);
    let budget = BudgetLimits { max_duration_secs: Some(42), ..BudgetLimits::default() };
    let done = world.create(within(budget)).await.unwrap();
    assert_eq!(end(&done), ("Once upon a", Some(TerminalCause::BudgetExhausted)));
    assert_eq!(world.lines(done.session_id).await, ["user: go", "cancelled: Once upon a"]);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_beyond_the_time_limit_ends_the_run() {
    let world = world([Script::Fail(ModelErrorKind::RateLimited)]);
    let budget = BudgetLimits { max_duration_secs: Some(20), ..BudgetLimits::default() };
    let start = Instant::now();
    let (done, recorder) = world.record(within(budget)).await;
    let done = done.unwrap();
    assert_eq!(start.elapsed().as_secs(), 0);
    assert_eq!(end(&done), ("", Some(TerminalCause::BudgetExhausted)));
    assert_eq!(done.warnings, ["the run ended before a retry; the last model call failed: as scripted"]);
    assert_eq!(recorder.by_type("retrying"), [json!(null); 0]);
}

/// A model that asks for a timeout beyond the range of clocks.
struct Patient(ModelInfo);

impl Model for Patient {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn generate<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async {
            Ok(ModelResponse {
                blocks: vec![AssistantBlock::Text { text: "ok".to_owned(), meta: None }],
                stop_reason: StopReason::EndTurn,
                extent: ResponseStatus::Complete,
                usage: Usage::default(),
            })
        })
    }
}

#[tokio::test]
async fn longest_timeout_of_a_model_is_no_limit() {
    let info = ModelInfo { call_timeout: Some(Duration::MAX), ..ModelInfo::new("patient", Provider::Other) };
    let options = RuntimeOptions { models: vec![Arc::new(Patient(info))], ..RuntimeOptions::default() };
    let runtime = Runtime::ephemeral(options).unwrap();
    assert_eq!(runtime.ask("go").model("patient").into_future().await.unwrap().text, "ok");
}

#[tokio::test]
async fn longest_durations_are_no_limit() {
    let world = world([look("c1"), Script::Fail(ModelErrorKind::Server), Script::say("ok")]);
    let longest = u64::MAX;
    world
        .configure(json!({
            "budget": {"max_duration": longest},
            "limits": {"max_duration": longest},
            "retry": {
                "initial_delay": 1, "max_delay": longest, "multiplier": 1.0, "call_timeout": longest,
                "max_call_duration": longest,
            },
            "tools": {"default_timeout": longest, "tool_timeouts": {"look": longest}},
            "approvals": {"timeout": longest, "policy": "always"},
            "shell": {"timeout_secs": longest},
            "registry": {"state_timeout_ms": longest},
            "hooks": {"default_timeout_ms": longest, "entries": [
                {"id": "h", "point": "run_started", "runtime": {"type": "command", "command": "true"}},
            ]},
        }))
        .await;
    let budget = BudgetLimits { max_duration_secs: Some(longest), ..BudgetLimits::default() };
    let options = TurnOptions { budget, shell_timeout_secs: Some(longest), ..say("go") };
    let pending = world.create(options).await.unwrap();
    let Outcome::Pending(waiting) = pending.report.outcome else { panic!("{:?}", pending.report.outcome) };
    let approve = |call: &meerkat::ApprovalRequest| meerkat::Approval {
        call: call.call.id.clone(),
        expires_at: Some(call.expires_at),
        decision: meerkat::Decision::Approve,
    };
    let input = meerkat::RunInput {
        approvals: waiting.approvals.iter().map(approve).collect(),
        ..meerkat::RunInput::default()
    };
    let budget = BudgetLimits { max_duration_secs: Some(longest), ..BudgetLimits::default() };
    let done =
        world.resume(pending.session_id, TurnOptions { input, budget, ..TurnOptions::default() }).await;
    assert_eq!(text(&done.unwrap()), "ok");
}

#[tokio::test]
async fn run_budget_overrides_config_budget() {
    let world = world(vec![look("c"); 9]);
    world.configure(json!({"budget": {"max_tool_calls": 3}})).await;
    assert_eq!(world.create(say("go")).await.unwrap().report.tool_calls, 3);
    let budget = BudgetLimits { max_tool_calls: Some(1), ..BudgetLimits::default() };
    assert_eq!(world.create(within(budget)).await.unwrap().report.tool_calls, 1);
}

#[tokio::test]
async fn exceeding_the_step_limit_fails_the_run() {
    let world = world(vec![look("c"); 3]);
    world.configure(json!({"agent": {"max_turns": 2}})).await;
    let error = world.create(say("go")).await.unwrap_err();
    assert_eq!(failure(&error), (ErrorKind::AgentError, json!("max_turns"), json!("turn_limit_reached")));
    assert_eq!(error.body().message, "the run reached its limit of 2 steps");
    assert_eq!(world.model.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn backoff_can_be_interrupted() {
    let world = world([Script::say("ok"), Script::Fail(ModelErrorKind::Overloaded)]);
    world.configure(json!({"retry": {"initial_delay": "10m", "max_delay": "10m"}})).await;
    let id = world.session("one").await;
    let running = world.start(id, then("two"), meerkat::RunControl::default());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.model.seen().len(), 2);
    world.sessions().interrupt(id).await.unwrap();
    assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled);
}

#[tokio::test]
async fn concurrent_runs_stay_within_the_limit() {
    const RUNS: usize = 8;
    let world = world(vec![Script::Hang; RUNS]);
    world.configure(json!({"limits": {"max_sessions": 1}})).await;
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..RUNS {
        let sessions = world.sessions();
        let (options, control) = (meerkat::NewSessionOptions::default(), meerkat::RunControl::default());
        runs.spawn(async move { sessions.create(options, say("go"), control).await });
    }
    for _ in 1..RUNS {
        let ended = tokio::time::timeout(Duration::from_secs(60), runs.join_next()).await;
        let ended = ended.expect("all runs but one are rejected").unwrap().unwrap();
        assert!(matches!(ended, Err(Error::TooManySessions { limit: 1 })), "{ended:?}");
    }
    world.model.release();
    runs.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(world.sessions().list(meerkat::SessionQuery::default()).await.unwrap().len(), 1);
}
