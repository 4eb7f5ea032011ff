//! Hooks: commands, URLs, and functions that are called at the points of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use meerkat::{
    Error, ErrorKind, Hook, HookFailure, HookInvocation, HookOutput, HookOverlay, Runtime, RuntimeOptions,
    TurnOptions,
};
use meerkat_core::{BoxFuture, TerminalCause, ToolOutput};
use meerkat_testkit::{FnTool, Scratch, Script, ScriptedModel, Server, Tools};
use serde_json::{Value, json};

use crate::world::{World, call, client_tool, kind, object, say, text, then};

/// Builds the entry of a hook that runs a Python program.
#[expect(clippy::needless_pass_by_value, reason = "tests are easier to read")]
fn python(rest: Value, command: &str) -> Value {
    let runtime = json!({"type": "command", "command": "/usr/bin/python3", "args": ["-c", command]});
    with(&rest, &runtime)
}

fn with(rest: &Value, runtime: &Value) -> Value {
    let mut entry = json!({"id": "h", "timeout_ms": 20_000, "runtime": runtime});
    for (key, value) in rest.as_object().unwrap() {
        entry[key] = value.clone();
    }
    entry
}

const DENY: &str = r#"
import json, sys
event = json.load(sys.stdin)
print(json.dumps({"decision": {"decision": "deny", "reason_code": "policy_violation",
    "message": "not " + event.get("prompt", event["point"])}}))
"#;

/// Creates a world with these hooks and a tool.
async fn hooked(script: impl IntoIterator<Item = Script>, entries: Value) -> World {
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let world = World::with(ScriptedModel::new(script), [look]);
    world.configure(json!({"hooks": {"entries": entries}})).await;
    world
}

fn guard(point: &str) -> Value {
    json!({"point": point, "capability": "guardrail"})
}

#[tokio::test]
async fn run_denied_at_start_leaves_no_session() {
    let world = hooked([], json!([python(guard("run_started"), DENY)])).await;
    let (done, recorder) = world.record(say("this")).await;
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HookDenied);
    assert_eq!(error.to_string(), "denied by hook `h`: not this");
    assert_eq!(world.sessions().list(meerkat::SessionQuery::default()).await.unwrap().len(), 0);
    assert_eq!(recorder.types(), ["hook_started", "hook_denied"]);
    assert_eq!(
        recorder.by_type("hook_denied"),
        [
            json!({"type": "hook_denied", "hook_id": "h", "point": "run_started", "reason_code": "policy_violation", "message": "not this"})
        ]
    );
    assert_eq!(world.model.seen().len(), 0, "the model was not called");
}

#[tokio::test]
async fn denied_prompt_is_not_part_of_the_session() {
    let world = hooked([], json!([])).await;
    let id = world.session("one").await;
    world.configure(json!({"hooks": {"entries": [python(guard("run_started"), DENY)]}})).await;
    assert_eq!(kind(world.resume(id, then("two")).await), ErrorKind::HookDenied);
    world.configure(json!({"hooks": {"entries": []}})).await;
    world.resume(id, then("three")).await.unwrap();
    assert_eq!(world.lines(id).await.len(), 4, "one and three with their answers");
}

#[tokio::test]
async fn later_denial_fails_the_run_and_keeps_commits() {
    let cases =
        [("pre_llm_request", 1), ("post_llm_response", 1), ("turn_boundary", 2), ("run_completed", 2)];
    for (point, count) in cases {
        let world = hooked([Script::say("a")], json!([python(guard(point), DENY)])).await;
        let (done, recorder) = world.record(say("go")).await;
        let Err(Error::Failed { session, failure }) = done else { panic!("{point}: {done:?}") };
        assert_eq!(failure.message, format!("denied by hook `h`: not {point}"));
        assert_eq!((failure.cause, session.resumable), (TerminalCause::HookDenied, true));
        assert_eq!(world.lines(session.id).await.len(), count, "{point}");
        assert_eq!(recorder.types().last().unwrap(), "run_failed", "{point}");
        world.configure(json!({"hooks": {"entries": []}})).await;
        world.resume(session.id, then("again")).await.unwrap();
    }
}

#[tokio::test]
async fn denied_call_is_a_result_for_the_model() {
    for point in ["pre_tool_execution", "post_tool_execution"] {
        let script = [Script::call("c", "look", json!({})), Script::say("done")];
        let world = hooked(script, json!([python(guard(point), DENY)])).await;
        let (done, recorder) = world.record(say("go")).await;
        let done = done.unwrap();
        assert_eq!(text(&done), "done");
        let result = format!(
            r#"c! {{"error":"hook_denied","hook_id":"h","reason_code":"policy_violation","message":"not {point}"}}"#
        );
        let line = &world.lines(done.session_id).await[2];
        assert!(line.ends_with(&result.replace("c! ", "")), "{line}");
        let ran = recorder.by_type("tool_execution_started").len();
        assert_eq!(ran, usize::from(point == "post_tool_execution"), "{point}");
    }
}

#[tokio::test]
async fn guardrails_apply_to_callback_tools() {
    let script = [Script::call("c", "ask", json!({})), Script::say("done")];
    let world = hooked(script, json!([python(guard("pre_tool_execution"), DENY)])).await;
    let turn = TurnOptions { tools: Some(vec![client_tool("ask", None)]), ..say("go") };
    assert_eq!(text(&world.create(turn).await.unwrap()), "done", "the caller is never asked");
}

#[tokio::test]
async fn guardrails_fail_closed_and_observers_fail_open() {
    let fork = "import os, sys, time\nos.fork()\ntime.sleep(600)";
    let programs = [
        ("import sys; sys.exit('boom')", "ended with exit status: 1: boom"),
        ("print('garbage')", "invalid output: expected value at line 1 column 1"),
        ("print('x' * 200000)", "wrote more than 131072 bytes (`hooks.payload_max_bytes`)"),
        ("import os; os.kill(os.getpid(), 9)", "ended with signal: 9 (SIGKILL)"),
        (fork, "timed out after 300 ms"),
    ];
    for (command, message) in programs {
        let timeout_ms = if command == fork { 300 } else { 20_000 };
        let with = |capability: &str| json!({"point": "pre_llm_request", "capability": capability, "timeout_ms": timeout_ms});
        let world = hooked([], json!([python(with("observe"), command)])).await;
        let (done, recorder) = world.record(say("go")).await;
        done.unwrap();
        let failed =
            json!({"type": "hook_failed", "hook_id": "h", "point": "pre_llm_request", "error": message});
        assert_eq!(recorder.by_type("hook_failed"), [failed]);

        let world = hooked([], json!([python(with("guardrail"), command)])).await;
        let Err(Error::Failed { failure, .. }) = world.create(say("go")).await else { panic!("{command}") };
        assert_eq!(failure.message, format!("the hook `h` failed: {message}"));
        assert_eq!(failure.cause, TerminalCause::HookFailure);
    }
}

#[tokio::test]
async fn timed_out_hook_is_killed_with_its_children() {
    let scratch = Scratch::new();
    let file = scratch.join("pids");
    let command = format!(
        "import os, time\npid = os.fork()\nopen({:?}, 'a').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)",
        file.display().to_string()
    );
    let rest = json!({"point": "run_started", "timeout_ms": 1500});
    let world = hooked([], json!([python(rest, &command)])).await;
    world.create(say("go")).await.unwrap();
    let written = std::fs::read_to_string(&file).unwrap();
    let pids: Vec<&str> = written.lines().collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        // A killed process is gone, or a zombie that has not been reaped yet.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
        assert!(matches!(state, None | Some('Z' | 'X')), "{pid}: {stat}");
    }
}

#[tokio::test]
async fn shutdown_waits_for_background_hooks() {
    let scratch = Scratch::new();
    let (gate, file) = (scratch.join("gate"), scratch.join("event"));
    let command = format!(
        "import os, sys, time\nwhile not os.path.exists({gate:?}): time.sleep(0.01)\nopen({file:?}, 'w').write(sys.stdin.read())"
    );
    let rest = json!({"point": "run_completed", "mode": "background"});
    let world = hooked([], json!([python(rest, &command)])).await;
    let done = world.create(say("go")).await.unwrap();
    std::fs::write(&gate, "").unwrap();
    world.runtime.shutdown(std::time::Duration::from_secs(20)).await;
    let invocation: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(invocation, json!({"point": "run_completed", "session_id": done.session_id}));
}

#[tokio::test]
async fn url_can_be_a_hook() {
    let denial =
        json!({"decision": {"decision": "deny", "reason_code": "safety_violation", "message": "no"}});
    let server = Server::new([("200 OK", denial.to_string())]);
    let url = format!("{}/check", server.address());
    let runtime = json!({"type": "http", "url": url, "headers": {"x-token": "canary"}});
    let world = hooked([], json!([with(&guard("run_started"), &runtime)])).await;
    assert_eq!(world.create(say("go")).await.unwrap_err().to_string(), "denied by hook `h`: no");
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /check ") && seen.head.contains("x-token: canary"), "{}", seen.head);
    assert_eq!(seen.body["prompt"], json!("go"));
}

/// A hook that records its invocations.
#[derive(Default)]
struct Watcher {
    invocations: Mutex<Vec<Value>>,
}

impl Hook for Watcher {
    fn call<'a>(&'a self, invocation: &'a HookInvocation) -> BoxFuture<'a, Result<HookOutput, HookFailure>> {
        self.invocations.lock().unwrap().push(serde_json::to_value(invocation).unwrap());
        Box::pin(async { Ok(HookOutput::default()) })
    }
}

fn watched(script: impl IntoIterator<Item = Script>) -> (World, Arc<Watcher>) {
    let (model, watcher) = (ScriptedModel::new(script), Arc::new(Watcher::default()));
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let options = RuntimeOptions {
        models: vec![Arc::clone(&model) as _],
        tool_sources: vec![Tools::new([look])],
        hooks: BTreeMap::from([("watcher".to_owned(), Arc::clone(&watcher) as Arc<dyn Hook>)]),
        ..RuntimeOptions::default()
    };
    (World::from_runtime(Runtime::ephemeral(options).unwrap(), model), watcher)
}

fn everywhere() -> Vec<Value> {
    let points = [
        "run_started",
        "pre_llm_request",
        "post_llm_response",
        "pre_tool_execution",
        "post_tool_execution",
        "turn_boundary",
        "run_completed",
        "run_failed",
    ];
    let entry =
        |point| json!({"id": point, "point": point, "runtime": {"type": "in_process", "name": "watcher"}});
    points.map(entry).to_vec()
}

#[tokio::test]
async fn every_point_gets_its_fields_in_order() {
    let (world, watcher) = watched([Script::call("c", "look", json!({"at": 1})), Script::say("done")]);
    world.configure(json!({"hooks": {"entries": everywhere()}})).await;
    world.create(say("go")).await.unwrap();
    let invocations = watcher.invocations.lock().unwrap().clone();
    let keys = |value: &Value| {
        let rest: Vec<_> = object(value.clone()).keys().skip(2).cloned().collect();
        format!("{} {}", value["point"].as_str().unwrap(), rest.join(" "))
    };
    assert_eq!(
        invocations.iter().map(keys).collect::<Vec<_>>(),
        [
            "run_started prompt",
            "pre_llm_request turn_number llm_request",
            "post_llm_response turn_number llm_response",
            "pre_tool_execution tool_call",
            "post_tool_execution tool_result",
            "turn_boundary turn_number",
            "pre_llm_request turn_number llm_request",
            "post_llm_response turn_number llm_response",
            "turn_boundary turn_number",
            "run_completed ",
        ]
    );
    assert_eq!(
        invocations[4]["tool_result"],
        json!({"tool_use_id": "c", "name": "look", "content": "seen", "content_blocks": [{"type": "text", "text": "seen"}], "is_error": false})
    );
    assert_eq!(invocations[2]["llm_response"]["tool_call_names"], json!(["look"]));
}

#[tokio::test]
async fn failed_run_is_reported_with_its_reason() {
    let (world, watcher) = watched([Script::Fail(meerkat_core::ModelErrorKind::Auth)]);
    world.configure(json!({"hooks": {"entries": everywhere()}})).await;
    world.create(say("go")).await.unwrap_err();
    let invocation = watcher.invocations.lock().unwrap().last().unwrap().clone();
    assert_eq!((&invocation["point"], &invocation["error_class"]), (&json!("run_failed"), &json!("auth")));
    assert_eq!(invocation["error"], invocation["error_report"]["message"]);
}

#[tokio::test]
async fn run_can_add_and_disable_hooks() {
    let (world, watcher) = watched([]);
    world.configure(json!({"hooks": {"entries": everywhere()}})).await;
    let added = json!({"id": "own", "point": "run_started", "priority": 1, "runtime": {"type": "in_process", "name": "watcher"}});
    let hooks = HookOverlay {
        entries: vec![serde_json::from_value(added).unwrap()],
        disable: everywhere().iter().skip(1).map(|entry| entry["id"].as_str().unwrap().to_owned()).collect(),
    };
    let id = world.create(TurnOptions { hooks, ..say("go") }).await.unwrap().session_id;
    assert_eq!(
        watcher.invocations.lock().unwrap().len(),
        2,
        "the run's hook and the one that was not disabled"
    );
    world.resume(id, then("more")).await.unwrap();
    assert_eq!(watcher.invocations.lock().unwrap().len(), 2 + 5, "the override applied to one run");
}

#[tokio::test]
async fn client_cannot_add_commands_or_lift_guardrails() {
    let (world, watcher) = watched([]);
    let guardrail = json!({"id": "g", "point": "run_started", "capability": "guardrail", "runtime": {"type": "in_process", "name": "watcher"}});
    world.configure(json!({"hooks": {"entries": [guardrail]}})).await;
    let run = async |hooks: Value| {
        call(
            &world,
            "meerkat_run",
            json!({"prompt": "hi", "model": ScriptedModel::ID, "hooks_override": hooks}),
        )
        .await
    };
    let command = json!({"id": "p", "runtime": {"type": "command", "command": "true"}});
    let error = run(json!({"entries": [command]})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`hooks_override`: the hook `p`, which is a command or a URL, is restricted to the owner of the \
         realm; on the command line, the owner can set `hooks.client_overrides`"
    );
    assert_eq!(kind(run(json!({"disable": ["g"]})).await), ErrorKind::InvalidParams);
    let mistaken = run(json!({"entries": [{"id": "p", "runtime": {"type": "comand"}}]})).await.unwrap_err();
    assert!(mistaken.to_string().starts_with("`hooks_override`: `entries[0].runtime"), "{mistaken}");
    let change = json!({"action": "patch", "patch": {"hooks": {"entries": []}}});
    let error = call(&world, "meerkat_config", change).await.unwrap_err();
    assert_eq!(error.data().unwrap(), json!({"type": "config_protected", "key": "hooks"}));

    world.configure(json!({"hooks": {"client_overrides": true}})).await;
    run(json!({"disable": ["g"]})).await.unwrap();
    assert_eq!(watcher.invocations.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn hook_secrets_are_masked_and_kept() {
    let (world, _) = watched([]);
    let command = "import os, sys; sys.exit('the key is ' + os.environ['KEY'])";
    let mut entry = python(json!({"point": "run_started"}), command);
    entry["runtime"]["env"] = json!({"KEY": "canary-1234"});
    world.configure(json!({"hooks": {"entries": [entry]}})).await;
    let config = call(&world, "meerkat_config", json!({"action": "get"})).await.unwrap()["config"].clone();
    assert_eq!(config["hooks"]["entries"][0]["runtime"]["env"], json!({"KEY": "***"}));
    call(&world, "meerkat_config", json!({"action": "set", "config": config})).await.unwrap();
    let (done, recorder) = world.record(say("go")).await;
    done.unwrap();
    let failed = recorder.by_type("hook_failed");
    assert_eq!(failed[0]["error"], "ended with exit status: 1: the key is ***", "the hook received its key");
}

#[tokio::test]
async fn interrupt_ends_a_hanging_hook() {
    let world = hooked([], json!([python(guard("turn_boundary"), "import time; time.sleep(600)")])).await;
    let running = {
        let sessions = world.sessions();
        let control = meerkat::RunControl::default();
        let cancel = control.cancel.clone();
        let running = tokio::spawn(async move {
            sessions.create(meerkat::NewSessionOptions::default(), say("go"), control).await
        });
        world.model.wait_for_requests(1).await;
        cancel.cancel();
        running
    };
    assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled);
}
