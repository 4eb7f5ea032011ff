//! One run per session: busy, interrupted, abandoned, crashed, and shut down.

use std::sync::Arc;
use std::time::Duration;

use meerkat::{ErrorKind, NewSessionOptions, RunControl, SessionId, SessionQuery};
use meerkat_testkit::{FnTool, Recorder, Script, ScriptedModel, TestClock};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "session-store")]
use meerkat::{Runtime, RuntimeOptions};
#[cfg(feature = "session-store")]
use meerkat_testkit::{Scratch, SmallDisk};

use crate::world::{World, kind, say, text, then, watch};

const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// A tool that never returns.
fn stuck() -> Arc<dyn meerkat::ports::Tool> {
    FnTool::new("stuck", async |_| std::future::pending().await)
}

#[tokio::test]
async fn second_run_is_rejected_while_one_is_active() {
    let world = World::new([Script::say("ok"), Script::Hang, Script::say("three")]);
    let (id, running) = world.hanging().await;
    let busy = world.resume(id, then("me too")).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::SessionBusy);
    assert!(busy.body().message.ends_with("try again when the run has ended"), "{:?}", busy.body());
    world.model.release();
    assert_eq!(text(&running.await.unwrap().unwrap()), "released");
    assert_eq!(text(&world.resume(id, then("and now?")).await.unwrap()), "three");
    assert_eq!(
        world.lines(id).await,
        [
            "user: one",
            "assistant: ok",
            "user: two",
            "assistant: released",
            "user: and now?",
            "assistant: three"
        ],
        "nothing was queued"
    );
}

#[tokio::test]
async fn concurrent_starts_admit_one_run() {
    let world = World::new([Script::say("ok"), Script::Hang]);
    let id = world.session("one").await;
    let mut runs: Vec<_> = (0..8).map(|_| world.start(id, then("two"), RunControl::default())).collect();
    world.model.wait_for_requests(2).await;
    let mut busy = 0;
    while busy < 7 {
        let (done, index, rest) = first_done(runs).await;
        assert_eq!(kind(done), ErrorKind::SessionBusy, "{index}");
        runs = rest;
        busy += 1;
    }
    world.model.release();
    assert_eq!(text(&runs.pop().unwrap().await.unwrap().unwrap()), "released");
    assert_eq!(world.lines(id).await.len(), 4);
}

/// Waits for the first of several runs to end.
async fn first_done(
    mut runs: Vec<crate::world::Running>,
) -> (Result<meerkat::RunResult, meerkat::Error>, usize, Vec<crate::world::Running>) {
    let (done, index) = std::future::poll_fn(|context| {
        for (index, run) in runs.iter_mut().enumerate() {
            if let std::task::Poll::Ready(done) = std::pin::Pin::new(run).poll(context) {
                return std::task::Poll::Ready((done.unwrap(), index));
            }
        }
        std::task::Poll::Pending
    })
    .await;
    runs.remove(index);
    (done, index, runs)
}

#[tokio::test]
async fn interrupted_run_names_session_and_keeps_text() {
    let world = World::new([Script::say("ok"), Script::Hang, Script::say("back")]);
    let (id, running) = world.hanging().await;
    world.sessions().interrupt(id).await.unwrap();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestCancelled);
    let data = json!({
        "session_id": id,
        "session_ref": world.runtime.reference(id),
        "session_created": false,
        "resumable": true,
    });
    assert_eq!(error.data(), Some(data));
    assert_eq!(world.lines(id).await, ["user: one", "assistant: ok", "user: two", "cancelled: "]);
    assert_eq!(kind(world.sessions().interrupt(id).await), ErrorKind::SessionNotRunning);
    world.resume(id, then("three")).await.unwrap();
    assert_eq!(world.model.seen()[2].lines[2..], ["user: two", "cancelled: ", "user: three"]);
}

/// Starts a run whose model has streamed some text and then hangs.
async fn streaming(world: &World, control: RunControl) -> (SessionId, crate::world::Running) {
    let id = world.session("one").await;
    let recorder = Recorder::default();
    let control = RunControl { events: watch(&recorder).events, ..control };
    let running = world.start(id, then("tell a story"), control);
    recorder.wait_for("text_delta").await;
    (id, running)
}

#[tokio::test]
async fn every_interrupt_keeps_streamed_text() {
    for method in ["interrupt", "cancel", "shutdown"] {
        let world = World::new([Script::say("ok"), Script::stall("Once upon a"), Script::say("2")]);
        let control = RunControl { cancel: CancellationToken::new(), ..RunControl::default() };
        let (id, running) = streaming(&world, control.clone()).await;
        match method {
            "interrupt" => world.sessions().interrupt(id).await.unwrap(),
            "cancel" => control.cancel.cancel(),
            _ => world.runtime.shutdown(GRACE_PERIOD).await,
        }
        assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled, "{method}");
        let stored = ["user: one", "assistant: ok", "user: tell a story", "cancelled: Once upon a"];
        assert_eq!(world.lines(id).await, stored, "{method}");
        if method == "shutdown" {
            continue;
        }
        assert_eq!(text(&world.resume(id, then("what is 1+1?")).await.unwrap()), "2", "{method}");
        let seen = world.model.seen().pop().unwrap();
        assert_eq!(seen.lines[2..], ["user: tell a story", "cancelled: Once upon a", "user: what is 1+1?"]);
    }
}

#[tokio::test]
async fn interrupted_tool_gets_an_interrupted_result() {
    let model = ScriptedModel::new([Script::call("c1", "stuck", json!({})), Script::say("back")]);
    let world = World::with(model, [stuck()]);
    let recorder = Recorder::default();
    let sessions = world.sessions();
    let control = watch(&recorder);
    let running =
        tokio::spawn(async move { sessions.create(NewSessionOptions::default(), say("go"), control).await });
    recorder.wait_for("tool_execution_started").await;
    let id = only_session(&world).await;
    world.sessions().interrupt(id).await.unwrap();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestCancelled);
    assert_eq!(error.data().unwrap()["session_created"], true);
    let result = r#"results: c1={"error":"interrupted","message":"interrupted; may have taken effect"}"#;
    assert_eq!(world.lines(id).await, ["user: go", "assistant: [stuck#c1]", result]);
    assert_eq!(text(&world.resume(id, then("so?")).await.unwrap()), "back");
}

async fn only_session(world: &World) -> SessionId {
    let views = world.sessions().list(SessionQuery::default()).await.unwrap();
    let [view] = views.as_slice() else { panic!("{views:?}") };
    view.id
}

#[tokio::test]
async fn archiving_ends_the_run_first() {
    let world = World::new([Script::say("ok"), Script::Hang]);
    let (id, running) = world.hanging().await;
    world.sessions().archive(id).await.unwrap();
    assert_eq!(kind(running.await.unwrap()), ErrorKind::RequestCancelled);
    assert_eq!(kind(world.resume(id, then("three")).await), ErrorKind::SessionNotFound);
}

#[tokio::test]
async fn cancelled_request_interrupts_its_run() {
    let world = World::new([Script::say("ok"), Script::Hang]);
    let id = world.session("one").await;
    let control = RunControl { cancel: CancellationToken::new(), ..RunControl::default() };
    let running = world.start(id, then("two"), control.clone());
    world.model.wait_for_requests(2).await;
    control.cancel.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.data().unwrap()["session_id"].clone()),
        (ErrorKind::RequestCancelled, json!(id))
    );
    assert!(!world.sessions().read(id).await.unwrap().is_active);
}

#[tokio::test]
async fn dropping_the_caller_interrupts_its_run() {
    for caller in ["future", "handle"] {
        let world = World::new([Script::say("ok"), Script::stall("Once upon a")]);
        let id = world.session("one").await;
        let recorder = Recorder::default();
        if caller == "future" {
            let caller = world.start(id, then("two"), watch(&recorder));
            recorder.wait_for("text_delta").await;
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
        } else {
            let handle = world.handle(id, then("two"), watch(&recorder)).await;
            recorder.wait_for("text_delta").await;
            drop(handle);
        }
        recorder.wait_for("run_failed").await;
        let stored = ["user: one", "assistant: ok", "user: two", "cancelled: Once upon a"];
        assert_eq!(world.lines(id).await, stored, "{caller}");
        assert_eq!(text(&world.resume(id, then("three")).await.unwrap()), "done");
    }
}

#[tokio::test]
async fn detached_run_outlives_its_caller() {
    let world = World::new([Script::say("ok"), Script::Hang, Script::Hang]);
    let id = world.session("one").await;
    let recorder = Recorder::default();
    drop(world.handle(id, then("two"), watch(&recorder)).await.detach());
    world.model.wait_for_requests(2).await;
    world.model.release();
    recorder.wait_for("run_completed").await;
    assert_eq!(world.sessions().last_text(id).await.unwrap().as_deref(), Some("released"));

    let recorder = Recorder::default();
    let control = RunControl { cancel: CancellationToken::new(), ..watch(&recorder) };
    drop(world.handle(id, then("three"), control.clone()).await.detach());
    world.model.wait_for_requests(3).await;
    control.cancel.cancel();
    recorder.wait_for("run_failed").await;
}

#[tokio::test]
async fn crashed_run_leaves_a_resumable_session() {
    let world = World::new([Script::say("ok"), Script::Panic, Script::say("well again")]);
    let id = world.session("one").await;
    let error = world.resume(id, then("two")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(error.data().unwrap()["session_id"], json!(id));
    assert!(!world.sessions().read(id).await.unwrap().is_active);
    assert_eq!(text(&world.resume(id, then("three")).await.unwrap()), "well again");
    assert_eq!(world.model.seen()[2].lines[2..], ["user: two", "cancelled: ", "user: three"]);
}

#[tokio::test]
async fn crash_of_first_run_reports_the_session() {
    let world = World::new([Script::Panic]);
    let error = world.create(say("go")).await.unwrap_err();
    let id = only_session(&world).await;
    let data = error.data().unwrap();
    assert_eq!((&data["session_id"], &data["session_created"]), (&json!(id), &json!(true)));
    assert_eq!(text(&world.resume(id, then("again")).await.unwrap()), "done");
}

#[tokio::test]
async fn panicking_listener_does_not_affect_the_run() {
    let world = World::new([]);
    let control = RunControl { events: Some(Arc::new(|_| panic!("as scripted"))), ..RunControl::default() };
    let id = world.session("one").await;
    assert_eq!(text(&world.sessions().start_turn(id, then("two"), control).await.unwrap()), "done");
    assert_eq!(text(&world.resume(id, then("three")).await.unwrap()), "done");
}

#[tokio::test(start_paused = true)]
async fn long_run_keeps_its_lease() {
    let clock = Arc::new(TestClock::start());
    let world = World::in_memory([Script::say("ok"), Script::Hang], [], Some(clock));
    let (id, running) = world.hanging().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(world.sessions().read(id).await.unwrap().is_active);
    assert_eq!(kind(world.resume(id, then("me too")).await), ErrorKind::SessionBusy);
    world.model.release();
    assert_eq!(text(&running.await.unwrap().unwrap()), "released");
}

#[tokio::test]
async fn shutdown_interrupts_runs_and_awaits_commits() {
    let script = [Script::say("a"), Script::say("b"), Script::Hang, Script::call("c1", "stuck", json!({}))];
    let world = World::with(ScriptedModel::new(script), [stuck()]);
    let (first, second) = (world.session("one").await, world.session("one").await);
    let asking = world.start(first, then("two"), RunControl::default());
    world.model.wait_for_requests(3).await;
    let recorder = Recorder::default();
    let working = world.start(second, then("two"), watch(&recorder));
    recorder.wait_for("tool_execution_started").await;

    world.runtime.shutdown(GRACE_PERIOD).await;
    for id in [first, second] {
        assert!(!world.sessions().read(id).await.unwrap().is_active);
    }
    assert_eq!(world.lines(first).await[2..], ["user: two", "cancelled: "]);
    assert!(world.lines(second).await.last().unwrap().starts_with("results: c1={\"error\":\"interrupted\""));
    for run in [asking, working] {
        assert_eq!(kind(run.await.unwrap()), ErrorKind::RequestCancelled);
    }
}

#[tokio::test]
async fn runtime_starts_no_run_after_shutdown() {
    let world = World::new([]);
    let id = world.session("one").await;
    world.runtime.shutdown(GRACE_PERIOD).await;
    let errors = [world.create(say("two")).await, world.resume(id, then("two")).await];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!((error.kind(), error.kind().code()), (ErrorKind::ShuttingDown, "SHUTTING_DOWN"));
    }
    assert_eq!(only_session(&world).await, id);
    assert_eq!(world.lines(id).await, ["user: one", "assistant: done"]);
}

#[cfg(feature = "session-store")]
#[tokio::test]
async fn full_disk_does_not_keep_a_session_busy() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(scratch.path()) else {
        println!("skipped: cannot mount a small disk (needs root)");
        return;
    };
    let model = ScriptedModel::new([Script::say("ok"), Script::Hang, Script::say("back")]);
    let options = RuntimeOptions { models: vec![Arc::clone(&model) as _], ..RuntimeOptions::default() };
    let sessions = Runtime::new(scratch.realm(), options).sessions();
    let created = sessions.create(NewSessionOptions::default(), say("one"), RunControl::default()).await;
    let id = created.unwrap().session_id;
    let resume = |prompt| sessions.start_turn(id, then(prompt), RunControl::default());
    let fill_disk = async {
        model.wait_for_requests(2).await;
        let filler = disk.fill();
        model.release();
        filler
    };
    let (stored, filler) = tokio::join!(resume("two"), fill_disk);
    assert_eq!(kind(stored), ErrorKind::StoreError);
    assert!(!sessions.read(id).await.unwrap().is_active);
    assert_eq!(kind(sessions.interrupt(id).await), ErrorKind::SessionNotRunning);
    assert_eq!(kind(resume("three").await), ErrorKind::StoreError);
    std::fs::remove_file(filler).unwrap();
    assert_eq!(text(&resume("four").await.unwrap()), "back");
}
