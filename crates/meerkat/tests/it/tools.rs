//! The tools of a step: concurrent up to a limit, with independent failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use meerkat_core::{Invocation, Tool, ToolConfigChange, ToolConfigOperation, ToolOutput, ToolSource};
use meerkat_testkit::{FnTool, Recorder, Script, ScriptedModel};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::world::{World, say, text};

/// Requests tool calls in this order; their ids are `c1`, `c2`, and so on.
fn calls<const N: usize>(names: [&str; N]) -> Script {
    let call = |(index, name): (usize, &&str)| (format!("c{}", index + 1), (*name).to_owned(), json!({}));
    Script::Call(names.iter().enumerate().map(call).collect())
}

/// Returns the ids of the calls in order of completion.
fn completed_ids(recorder: &Recorder) -> Vec<Value> {
    recorder.by_type("tool_execution_completed").iter().map(|event| event["id"].clone()).collect()
}

#[tokio::test]
async fn tools_run_concurrently_up_to_the_limit() {
    let (now, max_seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let pair = Arc::new(Barrier::new(2));
    let counted = Arc::clone(&max_seen);
    let meet = FnTool::new("meet", move |_| {
        let (now, max_seen, pair) = (Arc::clone(&now), Arc::clone(&max_seen), Arc::clone(&pair));
        async move {
            max_seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Each call waits for a second one, so the test hangs unless two run concurrently.
            pair.wait().await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            ToolOutput::text("met")
        }
    });
    let world = World::with(ScriptedModel::new([calls(["meet"; 6])]), [meet]);
    world.configure(json!({"tools": {"max_concurrent": 2}})).await;
    let done = world.create(say("go")).await.unwrap();
    assert_eq!(done.report.tool_calls, 6);
    assert_eq!(counted.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn results_are_in_call_order() {
    let turn = Arc::new(Notify::new());
    let other = Arc::clone(&turn);
    let slow = FnTool::new("slow", move |_| {
        let turn = Arc::clone(&turn);
        async move {
            turn.notified().await;
            ToolOutput::text("late")
        }
    });
    let fast = FnTool::new("fast", async |_| ToolOutput::text("early"));
    let last = FnTool::new("last", move |_| {
        let turn = Arc::clone(&other);
        async move {
            turn.notify_one();
            ToolOutput::text("then")
        }
    });
    let world = World::with(ScriptedModel::new([calls(["slow", "fast", "last"])]), [slow, fast, last]);
    let (done, recorder) = world.record(say("go")).await;
    done.unwrap();
    assert_eq!(completed_ids(&recorder).last(), Some(&json!("c1")), "{:?}", completed_ids(&recorder));
    assert_eq!(world.model.seen()[1].lines[2], "results: c1=late, c2=early, c3=then");
    let received: Vec<_> =
        recorder.by_type("tool_result_received").iter().map(|event| event["id"].clone()).collect();
    assert_eq!(received, ["c1", "c2", "c3"]);
}

#[tokio::test(start_paused = true)]
async fn failing_tools_do_not_affect_the_others() {
    let tools = [
        FnTool::new("crash", async |_| panic!("as scripted")),
        FnTool::new("stuck", async |_| std::future::pending().await),
        FnTool::new("fine", async |_| ToolOutput::text("fine")),
    ];
    let script = [calls(["crash", "stuck", "missing", "fine"]), Script::say("so be it")];
    let world = World::in_memory(script, tools, None);
    world.configure(json!({"tools": {"tool_timeouts": {"stuck": "90s"}}})).await;
    let start = tokio::time::Instant::now();
    let (done, recorder) = world.record(say("go")).await;
    let done = done.unwrap();
    assert_eq!(start.elapsed().as_secs(), 90);
    assert_eq!((text(&done), done.report.tool_calls), ("so be it", 3));
    let results = [
        r#"c1={"error":"execution_failed","message":"the tool crashed"}"#,
        r#"c2={"error":"timeout","message":"`stuck` took longer than 90000 ms and was stopped"}"#,
        r#"c3={"error":"tool_not_found","message":"no tool is named `missing`; available: `crash`, `fine`, `stuck`"}"#,
        "c4=fine",
    ];
    assert_eq!(world.model.seen()[1].lines[2], format!("results: {}", results.join(", ")));
    let timed_out =
        json!({"type": "tool_execution_timed_out", "id": "c2", "name": "stuck", "timeout_ms": 90_000});
    assert_eq!(recorder.by_type("tool_execution_timed_out"), [timed_out]);
}

#[tokio::test]
async fn tool_receives_session_and_arguments() {
    let invocations: Arc<std::sync::Mutex<Vec<Invocation>>> = Arc::default();
    let sink = Arc::clone(&invocations);
    let listen = FnTool::new("listen", move |invocation| {
        sink.lock().unwrap().push(invocation);
        async { ToolOutput::text("heard") }
    });
    let world =
        World::with(ScriptedModel::new([Script::call("c1", "listen", json!({"n": [1, "é"]}))]), [listen]);
    let done = world.create(say("go")).await.unwrap();
    let invocations = invocations.lock().unwrap().clone();
    assert_eq!(invocations.len(), 1);
    assert_eq!(
        (invocations[0].session_id, &invocations[0].call.args),
        (done.session_id, &json!({"n": [1, "é"]}))
    );
}

#[tokio::test]
async fn run_uses_only_allowed_tools() {
    let calls = vec![
        ("a".to_owned(), "first".to_owned(), serde_json::json!({})),
        ("b".to_owned(), "second".to_owned(), serde_json::json!({})),
    ];
    let tool =
        |name: &str| meerkat_testkit::FnTool::new(name, |_| async { meerkat::ToolOutput::text("ran") });
    let world = World::in_memory([Script::Call(calls)], [tool("first"), tool("second")], None);
    let overlay = meerkat::ToolOverlay { allowed: None, blocked: vec!["second".to_owned()] };
    world.create(meerkat::TurnOptions { overlay, ..say("go") }).await.unwrap();
    let seen = world.model.seen();
    assert_eq!(seen[0].tools, ["first"]);
    assert!(
        seen[1].lines[2].starts_with("results: a=ran, b={\"error\":\"tool_not_found\""),
        "{:?}",
        seen[1].lines
    );
}

/// A source whose tool becomes available after the first step.
struct Late(AtomicUsize);

impl ToolSource for Late {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let is_available = self.0.load(Ordering::SeqCst) > 1;
        is_available
            .then(|| FnTool::new("late", async |_| ToolOutput::text("here I am")))
            .into_iter()
            .collect()
    }

    fn apply_changes(&self) -> Vec<ToolConfigChange> {
        let is_added = self.0.fetch_add(1, Ordering::SeqCst) == 1;
        let change = ToolConfigChange {
            operation: ToolConfigOperation::Add,
            target: "late".to_owned(),
            status: "applied".to_owned(),
            status_info: None,
            persisted: false,
            applied_at_turn: None,
            domain: None,
            deferred_catalog_delta: None,
        };
        is_added.then_some(change).into_iter().collect()
    }

    fn notice(&self) -> Option<String> {
        (self.0.load(Ordering::SeqCst) < 2).then(|| "[MCP_PENDING] Servers connecting: late".to_owned())
    }
}

#[tokio::test]
async fn late_tools_are_announced_and_then_used() {
    let script = [calls(["late"]), Script::call("c2", "late", json!({})), Script::say("done")];
    let world = World::with_source(script, Arc::new(Late(AtomicUsize::new(0))));
    let (done, recorder) = world.record(say("go")).await;
    let done = done.unwrap();
    let seen = world.model.seen();
    let tools: Vec<_> = seen.iter().map(|request| request.tools.clone()).collect();
    assert_eq!(tools, [vec![], vec!["late".to_owned()], vec!["late".to_owned()]]);
    assert_eq!(seen[0].lines, ["user: go", "notice: [MCP_PENDING] Servers connecting: late"]);
    assert!(!seen[1].lines.iter().any(|line| line.contains("MCP_PENDING")), "{seen:?}");
    let changes = recorder.by_type("tool_config_changed");
    assert_eq!((changes.len(), &changes[0]["payload"]["target"]), (1, &json!("late")));
    let history = world.sessions().history(done.session_id, 0, None).await.unwrap();
    assert!(!serde_json::to_string(&history.messages).unwrap().contains("MCP_PENDING"));
}

#[tokio::test]
async fn long_result_is_truncated_and_stored_in_full() {
    let long = FnTool::new("long", async |_| ToolOutput::text(format!("first {} last", "x".repeat(200_000))));
    let world = World::with(ScriptedModel::new([calls(["long"])]), [long]);
    world.create(say("go")).await.unwrap();
    let line = world.model.seen()[1].lines[2].clone();
    assert!(line.len() < 42_000 && line.starts_with("results: c1=first xxx") && line.ends_with("xxx last"));
    let id = line.split("blob_id ").nth(1).unwrap().split(' ').next().unwrap();
    let full = world.runtime.blob(&id.parse().unwrap()).await.unwrap();
    assert_eq!((full.media_type.as_str(), full.data.len()), ("text/plain", 200_011));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout_ends_a_call_that_blocks_its_thread() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let block = FnTool::new("block", move |_| {
        let blocked = Arc::clone(&blocked);
        async move {
            let _ = blocked.lock().unwrap().recv();
            ToolOutput::text("released")
        }
    });
    let world = World::with(ScriptedModel::new([calls(["block"])]), [block]);
    world.configure(json!({"tools": {"default_timeout": "100ms"}})).await;
    let done = tokio::time::timeout(Duration::from_secs(60), world.create(say("go"))).await;
    let id = done.expect("the run does not wait for the call").unwrap().session_id;
    let expected =
        r#"results: c1={"error":"timeout","message":"`block` took longer than 100 ms and was stopped"}"#;
    assert_eq!(world.lines(id).await[2], expected);
    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_block_after_their_timeouts_are_bounded() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let started = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&started);
    let block = FnTool::new("block", move |_| {
        let (blocked, counter) = (Arc::clone(&blocked), Arc::clone(&counter));
        async move {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let _ = blocked.lock().unwrap().recv();
            ToolOutput::text("released")
        }
    });
    let world = World::with(ScriptedModel::new([calls(["block"; 4])]), [block]);
    world.configure(json!({"tools": {"default_timeout": "100ms", "max_concurrent": 1}})).await;
    let done = tokio::time::timeout(Duration::from_secs(60), world.create(say("go"))).await;
    let id = done.expect("the run does not wait for the calls").unwrap().session_id;
    let results = world.lines(id).await[2].clone();
    assert_eq!(results.matches("was stopped").count(), 2, "{results}");
    assert_eq!(results.matches("was not started").count(), 2, "{results}");
    assert_eq!(started.load(std::sync::atomic::Ordering::Relaxed), 2);
    drop(release);
}
