//! Hook failures: panics, excessive output, and leftover processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use meerkat::{Error, Hook, HookFailure, HookInvocation, HookOutput, Runtime, RuntimeOptions};
use meerkat_core::{BoxFuture, TerminalCause, ToolOutput};
use meerkat_testkit::{FnTool, Scratch, Script, ScriptedModel, Tools, assert_no_process_with_mark, mark};
use serde_json::{Value, json};

use crate::world::{World, say, text, watch};

/// A hook that panics before or while it runs.
enum Panics {
    AtOnce,
    Later,
}

impl Hook for Panics {
    fn call<'a>(&'a self, _: &'a HookInvocation) -> BoxFuture<'a, Result<HookOutput, HookFailure>> {
        assert!(matches!(self, Self::Later), "at once");
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("later")
        })
    }
}

async fn panicking(script: impl IntoIterator<Item = Script>, hooks: Value) -> World {
    let model = ScriptedModel::new(script);
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let registered: [(String, Arc<dyn Hook>); 2] =
        [("at-once".to_owned(), Arc::new(Panics::AtOnce)), ("later".to_owned(), Arc::new(Panics::Later))];
    let options = RuntimeOptions {
        models: vec![Arc::clone(&model) as _],
        tool_sources: vec![Tools::new([look])],
        hooks: BTreeMap::from(registered),
        ..RuntimeOptions::default()
    };
    let world = World::from_runtime(Runtime::ephemeral(options).unwrap(), model);
    world.configure(json!({ "hooks": hooks })).await;
    world
}

fn in_process(name: &str, options: Value) -> Value {
    let mut entry = options;
    entry["id"] = json!("h");
    entry["runtime"] = json!({"type": "in_process", "name": name});
    entry
}

fn command(script: &str) -> Value {
    json!({"id": "h", "point": "pre_llm_request", "capability": "guardrail", "timeout_ms": 60_000,
        "runtime": {"type": "command", "command": "/bin/sh", "args": ["-c", script]}})
}

async fn hooked(entry: Value) -> World {
    let world = World::new([]);
    world.configure(json!({"hooks": {"entries": [entry]}})).await;
    world
}

#[tokio::test]
async fn panicking_guardrail_denies_the_call() {
    for (name, panic) in [("at-once", "at once"), ("later", "later")] {
        let entry = in_process(name, json!({"point": "pre_tool_execution", "capability": "guardrail"}));
        let script = [Script::call("c", "look", json!({})), Script::say("done")];
        let world = panicking(script, json!({"entries": [entry]})).await;
        let (done, recorder) = world.record(say("go")).await;
        assert_eq!(text(&done.unwrap()), "done");
        assert_eq!(recorder.by_type("tool_execution_started"), [json!(null); 0], "{name}");
        let denied = recorder.by_type("hook_denied");
        assert_eq!(
            (&denied[0]["reason_code"], &denied[0]["message"]),
            (&json!("runtime_error"), &json!(format!("panicked: {panic}")))
        );
    }
}

#[tokio::test]
async fn panic_follows_the_failure_policy() {
    let run = async |options: Value| {
        let world = panicking([], json!({"entries": [in_process("later", options)]})).await;
        world.record(say("go")).await
    };
    let closed = [
        json!({"point": "pre_llm_request", "capability": "guardrail"}),
        json!({"point": "pre_llm_request", "capability": "observe", "failure_policy": "fail_closed"}),
    ];
    for options in closed {
        let (Err(Error::Failed { failure, .. }), _) = run(options.clone()).await else { panic!("{options}") };
        assert_eq!(
            (failure.message.as_str(), failure.cause),
            ("the hook `h` failed: panicked: later", TerminalCause::HookFailure)
        );
    }
    let open = [
        json!({"point": "pre_llm_request", "capability": "observe"}),
        json!({"point": "pre_llm_request", "capability": "guardrail", "failure_policy": "fail_open"}),
    ];
    for options in open {
        let (done, recorder) = run(options.clone()).await;
        assert!(done.is_ok(), "{options}");
        assert_eq!(recorder.by_type("hook_failed")[0]["error"], "panicked: later");
    }
}

#[tokio::test]
async fn panicking_background_hook_frees_its_slot() {
    let entry = in_process("later", json!({"point": "run_started", "mode": "background"}));
    let world = panicking([], json!({"background_max_concurrency": 1, "entries": [entry]})).await;
    for _ in 0..3 {
        let recorder = meerkat_testkit::Recorder::default();
        let sessions = world.sessions();
        sessions.create(meerkat::NewSessionOptions::default(), say("go"), watch(&recorder)).await.unwrap();
        recorder.wait_for("hook_failed").await;
        assert_eq!(recorder.by_type("hook_failed")[0]["error"], "panicked: later");
    }
}

#[tokio::test]
async fn loud_hook_is_read_to_its_end() {
    let scratch = Scratch::new();
    let end = scratch.join("end");
    let world = hooked(command("head -c 1000000 /dev/zero | tr '\\0' x >&2 || exit 1")).await;
    world.create(say("go")).await.unwrap();

    let flood = format!("head -c 1000000 /dev/zero && echo last >&2 && touch {:?}; exit 3", end.display());
    let world = hooked(command(&flood)).await;
    let Err(Error::Failed { failure, .. }) = world.create(say("go")).await else { panic!() };
    assert_eq!(
        failure.message,
        "the hook `h` failed: wrote more than 131072 bytes (`hooks.payload_max_bytes`)"
    );
    assert!(end.exists(), "the hook was not cut off");
}

#[tokio::test]
async fn last_line_of_a_loud_hook_is_reported() {
    let world = hooked(command("head -c 100000 /dev/zero | tr '\\0' '\\n' >&2; echo why >&2; exit 3")).await;
    let Err(Error::Failed { failure, .. }) = world.create(say("go")).await else { panic!() };
    assert_eq!(failure.message, "the hook `h` failed: ended with exit status: 3: why");
}

#[tokio::test]
async fn slow_hook_file_leaves_the_thread_free() {
    let home = Scratch::new();
    std::fs::create_dir(home.join(".rkat")).unwrap();
    let file = home.join(".rkat/config.toml");
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let model = ScriptedModel::new([]);
    let options = RuntimeOptions {
        models: vec![Arc::clone(&model) as _],
        hook_files: Some(Arc::new(meerkat::HookFiles::for_dirs(None, Some(home.path())))),
        ..RuntimeOptions::default()
    };
    let world = World::from_runtime(Runtime::ephemeral(options).unwrap(), model);
    let (free, is_free) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        // Returns once the run has opened the file for reading.
        let mut pipe = std::fs::File::options().write(true).open(file).unwrap();
        while is_free.try_recv().is_ok() {}
        let was_free = is_free.recv_timeout(std::time::Duration::from_secs(10)).is_ok();
        std::io::Write::write_all(&mut pipe, b"# no hooks").unwrap();
        was_free
    });
    let mut run = std::pin::pin!(world.create(say("go")));
    let done = loop {
        tokio::select! {
            biased;
            done = &mut run => break done,
            () = tokio::task::yield_now() => drop(free.send(())),
        }
    };
    done.unwrap();
    assert!(writer.join().unwrap(), "reading the file blocked the thread");
}

#[tokio::test]
async fn children_end_with_their_hook() {
    let mark = mark();
    for redirect in [">/dev/null 2>&1", ""] {
        // The second child holds the hook's pipes, which must not delay the run.
        let world = hooked(command(&format!("sleep {mark} {redirect} &"))).await;
        world.create(say("go")).await.unwrap();
        assert_no_process_with_mark(&mark);
    }
}

#[tokio::test]
async fn escaped_child_does_not_hold_up_its_hook() {
    let dir = Scratch::new();
    let alive = dir.join("alive");
    std::fs::write(&alive, "").unwrap();
    // The child holds the hook's pipes, and exits when the directory is removed.
    let child = format!("while [ -e {} ]; do sleep 0.1; done", alive.display());
    let mut entry = command(&format!("setsid sh -c '{child}' & echo '{{}}'"));
    entry["timeout_ms"] = json!(10_000);
    let world = hooked(entry).await;
    world.create(say("go")).await.unwrap();
}
