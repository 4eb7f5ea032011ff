//! Calls that need approval: which ones do, what the caller receives, and how the session continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use meerkat::{
    Approval, ApprovalPolicy, Decision, ErrorKind, Outcome, Pending, RunInput, RunResult, TurnOptions,
};
use meerkat_core::{Tool, ToolOutput, ToolSource};
use meerkat_testkit::{FnTool, Script, ScriptedModel, TestClock};
use serde_json::json;

use crate::world::{World, call, fits, kind, say, text, then};

/// A tool that counts its runs and does not declare its impact.
fn erase() -> (Arc<dyn Tool>, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let tool = FnTool::new("erase", move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async { ToolOutput::text("erased") }
    });
    (tool, runs)
}

fn calls(ids: &[&str]) -> Script {
    Script::Call(ids.iter().map(|id| ((*id).to_owned(), "erase".to_owned(), json!({ "n": 1 }))).collect())
}

fn deciding(decisions: &[(&str, Decision)]) -> TurnOptions {
    let approval = |(call, decision): &(&str, Decision)| Approval {
        call: (*call).to_owned(),
        expires_at: None,
        decision: decision.clone(),
    };
    let input = RunInput { approvals: decisions.iter().map(approval).collect(), ..RunInput::default() };
    TurnOptions { input, ..TurnOptions::default() }
}

fn awaited(done: &RunResult) -> Vec<String> {
    match &done.report.outcome {
        Outcome::Pending(Pending { approvals, .. }) => {
            approvals.iter().map(|awaited| awaited.call.id.clone()).collect()
        }
        other => panic!("{other:?}"),
    }
}

async fn asking(script: impl IntoIterator<Item = Script>) -> (World, Arc<AtomicU32>) {
    let (tool, runs) = erase();
    let world = World::with(ScriptedModel::new(script), [tool]);
    world.configure(json!({ "approvals": { "policy": "on-request" } })).await;
    (world, runs)
}

#[tokio::test]
async fn approved_call_runs_and_denied_call_does_not() {
    let (world, runs) = asking([calls(&["a", "b"]), Script::say("done")]).await;
    let waiting = world.create(say("go")).await.unwrap();
    let id = waiting.session_id;
    assert_eq!((awaited(&waiting), runs.load(Ordering::Relaxed)), (vec!["a".to_owned(), "b".to_owned()], 0));
    assert!(
        !world.sessions().read(id).await.unwrap().is_active,
        "no run stays active while approval is pending"
    );
    let stored = world.sessions().pending_calls(id).await.unwrap();
    assert_eq!(waiting.report.outcome, Outcome::Pending(stored), "the pending calls are stored");

    let no = Decision::Deny(Some("keep it".to_owned()));
    let done = world.resume(id, deciding(&[("b", no), ("a", Decision::Approve)])).await.unwrap();
    assert_eq!((text(&done), runs.load(Ordering::Relaxed)), ("done", 1));
    assert_eq!((done.report.steps, done.report.tool_calls), (2, 1), "the same run continues");
    let denied = r#"results: a=erased, b={"error":"not_approved","message":"not run: the user did not approve it: keep it"}"#;
    assert_eq!(world.model.seen()[1].lines[2], denied);
    assert_eq!(world.sessions().pending_calls(id).await.unwrap(), Pending::default());
}

#[tokio::test]
async fn invalid_approvals_change_nothing() {
    let (world, runs) = asking([calls(&["a", "b"]), Script::say("done")]).await;
    let id = world.create(say("go")).await.unwrap().session_id;
    let approve = |id| (id, Decision::Approve);
    for bad in [deciding(&[approve("a")]), deciding(&[approve("x")]), deciding(&[approve("a"), approve("a")])]
    {
        assert_eq!(kind(world.resume(id, bad).await), ErrorKind::InvalidParams);
    }
    let mut prompted = deciding(&[approve("a"), approve("b")]);
    prompted.input.prompt = then("and").input.prompt;
    assert_eq!(kind(world.resume(id, prompted).await), ErrorKind::InvalidParams);
    assert_eq!(world.sessions().pending_calls(id).await.unwrap().approvals.len(), 2);
    world.resume(id, deciding(&[approve("a"), approve("b")])).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn new_input_supersedes_calls_awaiting_approval() {
    let (world, runs) = asking([calls(&["a"]), Script::say("as you like")]).await;
    let id = world.create(say("go")).await.unwrap().session_id;
    let done = world.resume(id, then("never mind")).await.unwrap();
    assert_eq!((text(&done), runs.load(Ordering::Relaxed)), ("as you like", 0));
    assert!(world.model.seen()[1].lines[2].contains("superseded"));
}

#[tokio::test(start_paused = true)]
async fn approval_after_the_deadline_runs_nothing() {
    let (tool, runs) = erase();
    let script = [calls(&["a"]), Script::say("too bad")];
    let world = World::in_memory(script, [tool], Some(Arc::new(TestClock::start())));
    let asking = TurnOptions { approvals: Some(ApprovalPolicy::Always), ..say("go") };
    let id = world.create(asking).await.unwrap().session_id;
    tokio::time::advance(Duration::from_secs(11 * 60)).await;
    let done = world.resume(id, deciding(&[("a", Decision::Approve)])).await.unwrap();
    assert_eq!((text(&done), runs.load(Ordering::Relaxed)), ("too bad", 0));
    assert!(world.model.seen()[1].lines[2].contains("approval timed out"));
}

#[tokio::test]
async fn policy_and_tool_impact_decide_on_approval() {
    for (policy, allow, waits) in [
        ("never", json!([]), false),
        ("on-request", json!([]), true),
        ("always", json!([]), true),
        ("always", json!(["er*"]), false),
    ] {
        let (world, runs) = asking([calls(&["a"]), Script::say("done")]).await;
        world.configure(json!({ "approvals": { "policy": policy, "allow": allow } })).await;
        let done = world.create(say("go")).await.unwrap();
        assert_eq!(matches!(done.report.outcome, Outcome::Pending(_)), waits, "{policy}");
        assert_eq!(runs.load(Ordering::Relaxed), u32::from(!waits));
    }
}

#[tokio::test]
async fn read_only_tools_need_approval_only_under_always() {
    let look = || Script::Call(vec![("a".to_owned(), "datetime".to_owned(), json!({}))]);
    for (policy, waits) in [(ApprovalPolicy::OnRequest, false), (ApprovalPolicy::Always, true)] {
        let world = World::with(ScriptedModel::new([look(), Script::say("late")]), []);
        let turn = TurnOptions { builtins: Some(true), approvals: Some(policy), ..say("what time is it?") };
        let done = world.create(turn).await.unwrap();
        assert_eq!(matches!(done.report.outcome, Outcome::Pending(_)), waits, "{policy:?}");
    }
}

#[tokio::test]
async fn session_keeps_its_policy() {
    let (tool, _) = erase();
    let script = [Script::say("hi"), calls(&["a"])];
    let world = World::with(ScriptedModel::new(script), [tool]);
    let strict = TurnOptions { approvals: Some(ApprovalPolicy::Always), ..say("hello") };
    let id = world.create(strict).await.unwrap().session_id;
    assert_eq!(awaited(&world.resume(id, then("go")).await.unwrap()), ["a"]);
}

#[tokio::test]
async fn client_cannot_relax_session_policy() {
    let (tool, _) = erase();
    let world = World::for_client(ScriptedModel::new([Script::say("hi"), calls(&["a"])]), [tool]);
    let strict = TurnOptions { approvals: Some(ApprovalPolicy::Always), ..say("hello") };
    let id = world.create(strict).await.unwrap().session_id;
    let lax = TurnOptions { approvals: Some(ApprovalPolicy::Never), ..then("go") };
    assert_eq!(awaited(&world.resume(id, lax).await.unwrap()), ["a"]);
}

#[tokio::test]
async fn approved_call_waits_for_its_server() {
    let (tool, runs) = erase();
    let source = Arc::new(Late { tool, scans: AtomicU32::new(0) });
    let world = World::with_source([calls(&["a"]), Script::say("done")], Arc::clone(&source) as _);
    let asking = TurnOptions { approvals: Some(ApprovalPolicy::Always), ..say("go") };
    let id = world.create(asking).await.unwrap().session_id;
    source.scans.store(3, Ordering::Relaxed);
    let done = world.resume(id, deciding(&[("a", Decision::Approve)])).await.unwrap();
    assert_eq!((text(&done), runs.load(Ordering::Relaxed)), ("done", 1));
}

/// A source whose tool becomes available after several scans.
struct Late {
    tool: Arc<dyn Tool>,
    scans: AtomicU32,
}

impl ToolSource for Late {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let scans = self.scans.load(Ordering::Relaxed);
        if scans < 2 {
            return vec![Arc::clone(&self.tool)];
        }
        self.scans.store(scans - 1, Ordering::Relaxed);
        Vec::new()
    }

    fn notice(&self) -> Option<String> {
        (self.scans.load(Ordering::Relaxed) > 0).then(|| "one is to come".to_owned())
    }
}

#[tokio::test]
async fn wire_replies_list_pending_approvals() {
    let (world, runs) = asking([calls(&["a"]), Script::say("done")]).await;
    let request = json!({ "prompt": "go", "model": ScriptedModel::ID });
    let reply = call(&world, "meerkat_run", request).await.unwrap();
    fits("meerkat_run", &reply);
    let mut approvals_json = reply["pending_approvals"].clone();
    let end = approvals_json[0].as_object_mut().unwrap().remove("expires_at").unwrap();
    assert!(end.as_str().unwrap().parse::<meerkat_core::Timestamp>().is_ok());
    assert_eq!(approvals_json, json!([{ "tool_use_id": "a", "tool_name": "erase", "args": { "n": 1 } }]));
    assert_eq!((&reply["status"], &reply["pending_tool_calls"]), (&json!("pending_approval"), &json!([])));

    let read = call(&world, "meerkat_read", json!({ "session_id": reply["session_id"] })).await.unwrap();
    fits("meerkat_read", &read);
    assert_eq!(read["state"]["pending_approvals"], reply["pending_approvals"]);

    let approvals = json!([{ "tool_use_id": "a", "approve": true }]);
    let request = json!({ "session_id": reply["session_id"], "approvals": approvals });
    let done = call(&world, "meerkat_resume", request).await.unwrap();
    assert_eq!((&done["content"][0]["text"], runs.load(Ordering::Relaxed)), (&json!("done"), 1));
}

#[tokio::test]
async fn client_can_only_tighten_the_policy() {
    let cases = [("never", "always", true), ("always", "never", true), ("never", "never", false)];
    for (config, requested, waits) in cases {
        let (tool, _) = erase();
        let world = World::for_client(ScriptedModel::new([calls(&["a"]), Script::say("done")]), [tool]);
        world.configure(json!({ "approvals": { "policy": config } })).await;
        let request = json!({ "prompt": "go", "model": ScriptedModel::ID, "approval_policy": requested });
        let reply = call(&world, "meerkat_run", request).await.unwrap();
        assert_eq!(reply["status"] == "pending_approval", waits, "{config} {requested}: {reply}");
        let lax =
            json!({ "action": "patch", "patch": { "approvals": { "policy": "never", "allow": ["*"] } } });
        let error = call(&world, "meerkat_config", lax).await.unwrap_err();
        assert!(error.to_string().contains("approvals"), "{error}");
    }
}
