//! Hooks: programs, addresses and functions that are asked or told at the points of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use meerkat::{
    Error, ErrorKind, Hook, HookFault, HookInvocation, HookReturn, HookWishes, Runtime, RuntimeOptions,
    TurnOptions,
};
use meerkat_core::{BoxFuture, TerminalCause, ToolOutput};
use meerkat_testkit::{FnTool, Scratch, Script, ScriptedModel, Server, Tools};
use serde_json::{Value, json};

use crate::world::{World, call, client_tool, kind, object, say, text, then};

/// A program in Python that is told what happens.
#[expect(clippy::needless_pass_by_value, reason = "a test reads better so")]
fn python(rest: Value, program: &str) -> Value {
    let runtime = json!({"type": "command", "command": "/usr/bin/python3", "args": ["-c", program]});
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
told = json.load(sys.stdin)
print(json.dumps({"decision": {"decision": "deny", "reason_code": "policy_violation",
    "message": "not " + told.get("prompt", told["point"])}}))
"#;

/// A world with these hooks and a tool.
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
async fn a_run_that_is_refused_at_its_start_leaves_nothing_behind() {
    let world = hooked([], json!([python(guard("run_started"), DENY)])).await;
    let (done, recorder) = world.record(say("this")).await;
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HookDenied);
    assert_eq!(error.to_string(), "the hook `h` refused: not this");
    assert_eq!(world.sessions().list(meerkat::SessionQuery::default()).await.unwrap().len(), 0);
    assert_eq!(recorder.types(), ["hook_started", "hook_denied"]);
    assert_eq!(
        recorder.of_type("hook_denied"),
        [
            json!({"type": "hook_denied", "hook_id": "h", "point": "run_started", "reason_code": "policy_violation", "message": "not this"})
        ]
    );
    assert_eq!(world.model.seen().len(), 0, "the model was not asked");
}

#[tokio::test]
async fn a_refused_prompt_is_not_part_of_the_session() {
    let world = hooked([], json!([])).await;
    let id = world.session("one").await;
    world.configure(json!({"hooks": {"entries": [python(guard("run_started"), DENY)]}})).await;
    assert_eq!(kind(world.resume(id, then("two")).await), ErrorKind::HookDenied);
    world.configure(json!({"hooks": {"entries": []}})).await;
    world.resume(id, then("three")).await.unwrap();
    assert_eq!(world.lines(id).await.len(), 4, "one and three with their answers");
}

#[tokio::test]
async fn a_refusal_at_any_other_point_of_the_run_fails_it_and_keeps_what_is_whole() {
    let cases =
        [("pre_llm_request", 1), ("post_llm_response", 1), ("turn_boundary", 2), ("run_completed", 2)];
    for (point, kept) in cases {
        let world = hooked([Script::say("a")], json!([python(guard(point), DENY)])).await;
        let (done, recorder) = world.record(say("go")).await;
        let Err(Error::Failed { session, failure }) = done else { panic!("{point}: {done:?}") };
        assert_eq!(failure.message, format!("the hook `h` refused: not {point}"));
        assert_eq!((failure.cause, session.resumable), (TerminalCause::HookDenied, true));
        assert_eq!(world.lines(session.id).await.len(), kept, "{point}");
        assert_eq!(recorder.types().last().unwrap(), "run_failed", "{point}");
        world.configure(json!({"hooks": {"entries": []}})).await;
        world.resume(session.id, then("again")).await.unwrap();
    }
}

#[tokio::test]
async fn a_refused_call_is_a_result_for_the_model() {
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
        let ran = recorder.of_type("tool_execution_started").len();
        assert_eq!(ran, usize::from(point == "post_tool_execution"), "{point}");
    }
}

#[tokio::test]
async fn a_callers_tool_is_guarded_like_any_other() {
    let script = [Script::call("c", "ask", json!({})), Script::say("done")];
    let world = hooked(script, json!([python(guard("pre_tool_execution"), DENY)])).await;
    let turn = TurnOptions { tools: Some(vec![client_tool("ask", None)]), ..say("go") };
    assert_eq!(text(&world.create(turn).await.unwrap()), "done", "the caller is never asked");
}

#[tokio::test]
async fn a_guardrail_that_fails_closes_and_an_observer_opens() {
    let fork = "import os, sys, time\nos.fork()\ntime.sleep(600)";
    let programs = [
        ("import sys; sys.exit('boom')", "it ended with exit status: 1: boom"),
        ("print('garbage')", "its answer is not what a hook answers: expected value at line 1 column 1"),
        (
            "print('x' * 200000)",
            "it wrote more than 131072 bytes, which is what `hooks.payload_max_bytes` allows",
        ),
        ("import os; os.kill(os.getpid(), 9)", "it ended with signal: 9 (SIGKILL)"),
        (fork, "it took longer than 300 ms and was ended"),
    ];
    for (program, message) in programs {
        let timeout_ms = if program == fork { 300 } else { 20_000 };
        let with = |capability: &str| json!({"point": "pre_llm_request", "capability": capability, "timeout_ms": timeout_ms});
        let world = hooked([], json!([python(with("observe"), program)])).await;
        let (done, recorder) = world.record(say("go")).await;
        done.unwrap();
        let failed =
            json!({"type": "hook_failed", "hook_id": "h", "point": "pre_llm_request", "error": message});
        assert_eq!(recorder.of_type("hook_failed"), [failed]);

        let world = hooked([], json!([python(with("guardrail"), program)])).await;
        let Err(Error::Failed { failure, .. }) = world.create(say("go")).await else { panic!("{program}") };
        assert_eq!(failure.message, format!("the hook `h` failed: {message}"));
        assert_eq!(failure.cause, TerminalCause::HookFailure);
    }
}

#[tokio::test]
async fn a_hook_that_takes_too_long_is_ended_with_all_it_started() {
    let scratch = Scratch::new();
    let file = scratch.join("pids");
    let program = format!(
        "import os, time\npid = os.fork()\nopen({:?}, 'a').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)",
        file.display().to_string()
    );
    let rest = json!({"point": "run_started", "timeout_ms": 1500});
    let world = hooked([], json!([python(rest, &program)])).await;
    world.create(say("go")).await.unwrap();
    let written = std::fs::read_to_string(&file).unwrap();
    let pids: Vec<&str> = written.lines().collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        // Killed is gone, or a zombie that nobody has waited for yet.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
        assert!(matches!(state, None | Some('Z' | 'X')), "{pid}: {stat}");
    }
}

#[tokio::test]
async fn hooks_in_the_background_are_waited_for_at_the_end_and_not_before() {
    let scratch = Scratch::new();
    let (gate, file) = (scratch.join("gate"), scratch.join("told"));
    let program = format!(
        "import os, sys, time\nwhile not os.path.exists({gate:?}): time.sleep(0.01)\nopen({file:?}, 'w').write(sys.stdin.read())"
    );
    let rest = json!({"point": "run_completed", "mode": "background"});
    let world = hooked([], json!([python(rest, &program)])).await;
    let done = world.create(say("go")).await.unwrap();
    std::fs::write(&gate, "").unwrap();
    world.runtime.shutdown(std::time::Duration::from_secs(20)).await;
    let told: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(told, json!({"point": "run_completed", "session_id": done.session_id}));
}

#[tokio::test]
async fn an_address_is_a_hook_too() {
    let refusal =
        json!({"decision": {"decision": "deny", "reason_code": "safety_violation", "message": "no"}});
    let server = Server::new([("200 OK", refusal.to_string())]);
    let url = format!("{}/check", server.address());
    let runtime = json!({"type": "http", "url": url, "headers": {"x-token": "canary"}});
    let world = hooked([], json!([with(&guard("run_started"), &runtime)])).await;
    assert_eq!(world.create(say("go")).await.unwrap_err().to_string(), "the hook `h` refused: no");
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /check ") && seen.head.contains("x-token: canary"), "{}", seen.head);
    assert_eq!(seen.body["prompt"], json!("go"));
}

/// Writes down what it was told.
#[derive(Default)]
struct Watcher {
    told: Mutex<Vec<Value>>,
}

impl Hook for Watcher {
    fn call<'a>(&'a self, invocation: &'a HookInvocation) -> BoxFuture<'a, Result<HookReturn, HookFault>> {
        self.told.lock().unwrap().push(serde_json::to_value(invocation).unwrap());
        Box::pin(async { Ok(HookReturn::default()) })
    }
}

fn watched(script: impl IntoIterator<Item = Script>) -> (World, Arc<Watcher>) {
    let (model, watcher) = (ScriptedModel::new(script), Arc::new(Watcher::default()));
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let options = RuntimeOptions {
        models: vec![Arc::clone(&model) as _],
        sources: vec![Tools::new([look])],
        hooks: BTreeMap::from([("watcher".to_owned(), Arc::clone(&watcher) as Arc<dyn Hook>)]),
        ..RuntimeOptions::default()
    };
    (World::of(Runtime::ephemeral(options).unwrap(), model), watcher)
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
async fn every_point_is_told_what_belongs_to_it_in_order() {
    let (world, watcher) = watched([Script::call("c", "look", json!({"at": 1})), Script::say("done")]);
    world.configure(json!({"hooks": {"entries": everywhere()}})).await;
    world.create(say("go")).await.unwrap();
    let told = watcher.told.lock().unwrap().clone();
    let keys = |value: &Value| {
        let rest: Vec<_> = object(value.clone()).keys().skip(2).cloned().collect();
        format!("{} {}", value["point"].as_str().unwrap(), rest.join(" "))
    };
    assert_eq!(
        told.iter().map(keys).collect::<Vec<_>>(),
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
        told[4]["tool_result"],
        json!({"tool_use_id": "c", "name": "look", "content": "seen", "content_blocks": [{"type": "text", "text": "seen"}], "is_error": false})
    );
    assert_eq!(told[2]["llm_response"]["tool_call_names"], json!(["look"]));
}

#[tokio::test]
async fn a_run_that_fails_is_told_of_with_its_reason() {
    let (world, watcher) = watched([Script::Fail(meerkat_core::ModelErrorKind::Auth)]);
    world.configure(json!({"hooks": {"entries": everywhere()}})).await;
    world.create(say("go")).await.unwrap_err();
    let told = watcher.told.lock().unwrap().last().unwrap().clone();
    assert_eq!((&told["point"], &told["error_class"]), (&json!("run_failed"), &json!("auth")));
    assert_eq!(told["error"], told["error_report"]["message"]);
}

#[tokio::test]
async fn a_run_adds_hooks_and_leaves_some_out() {
    let (world, watcher) = watched([]);
    world.configure(json!({"hooks": {"entries": everywhere()}})).await;
    let own = json!({"id": "own", "point": "run_started", "priority": 1, "runtime": {"type": "in_process", "name": "watcher"}});
    let hooks = HookWishes {
        entries: vec![serde_json::from_value(own).unwrap()],
        disable: everywhere().iter().skip(1).map(|entry| entry["id"].as_str().unwrap().to_owned()).collect(),
    };
    let id = world.create(TurnOptions { hooks, ..say("go") }).await.unwrap().session_id;
    assert_eq!(watcher.told.lock().unwrap().len(), 2, "the run's own and the one that was left");
    world.resume(id, then("more")).await.unwrap();
    assert_eq!(watcher.told.lock().unwrap().len(), 2 + 5, "it was for one run");
}

#[tokio::test]
async fn a_client_starts_no_programs_and_lifts_no_guardrails() {
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
    let program = json!({"id": "p", "runtime": {"type": "command", "command": "true"}});
    let refused = run(json!({"entries": [program]})).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`hooks_override`: the hook `p`, which is a program or an address, is for the owner of the realm; on the \
         command line, the owner sets `hooks.client_overrides`"
    );
    assert_eq!(kind(run(json!({"disable": ["g"]})).await), ErrorKind::InvalidParams);
    let mistaken = run(json!({"entries": [{"id": "p", "runtime": {"type": "comand"}}]})).await.unwrap_err();
    assert!(mistaken.to_string().starts_with("`hooks_override`: `entries[0].runtime"), "{mistaken}");
    let change = json!({"action": "patch", "patch": {"hooks": {"entries": []}}});
    let refused = call(&world, "meerkat_config", change).await.unwrap_err();
    assert_eq!(refused.data().unwrap(), json!({"type": "config_protected", "key": "hooks"}));

    world.configure(json!({"hooks": {"client_overrides": true}})).await;
    run(json!({"disable": ["g"]})).await.unwrap();
    assert_eq!(watcher.told.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_a_hook_is_given_in_secret_is_neither_shown_nor_lost() {
    let (world, _) = watched([]);
    let program = "import os, sys; sys.exit('the key is ' + os.environ['KEY'])";
    let mut entry = python(json!({"point": "run_started"}), program);
    entry["runtime"]["env"] = json!({"KEY": "canary-1234"});
    world.configure(json!({"hooks": {"entries": [entry]}})).await;
    let shown = call(&world, "meerkat_config", json!({"action": "get"})).await.unwrap()["config"].clone();
    assert_eq!(shown["hooks"]["entries"][0]["runtime"]["env"], json!({"KEY": "***"}));
    call(&world, "meerkat_config", json!({"action": "set", "config": shown})).await.unwrap();
    let (done, recorder) = world.record(say("go")).await;
    done.unwrap();
    let failed = recorder.of_type("hook_failed");
    assert_eq!(failed[0]["error"], "it ended with exit status: 1: the key is ***", "it had its key");
}

#[tokio::test]
async fn an_interrupt_ends_a_hook_that_hangs() {
    let world = hooked([], json!([python(guard("turn_boundary"), "import time; time.sleep(600)")])).await;
    let running = {
        let sessions = world.sessions();
        let control = meerkat::RunControl::default();
        let cancel = control.cancel.clone();
        let running = tokio::spawn(async move {
            sessions.create(meerkat::NewSessionOptions::default(), say("go"), control).await
        });
        world.model.asked_times(1).await;
        cancel.cancel();
        running
    };
    assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled);
}
