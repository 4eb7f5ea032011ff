//! Concurrent processes and signals.

#![cfg(unix)]

use insta::assert_snapshot;

use crate::support::{Output, Rkat};

/// Omits the events, whose number depends on the timing of the interrupt.
fn without_events(rkat: &Rkat, output: &Output) -> String {
    let lines = output.stderr.lines().filter(|line| !line.starts_with('{'));
    let code = output.code.map_or("none".to_owned(), |code| code.to_string());
    rkat.redact(&format!("{}{}\nexit {code}", output.stdout, lines.collect::<Vec<_>>().join("\n")))
}

#[test]
fn ctrl_c_leaves_session_resumable() {
    let rkat = Rkat::new();
    let mut run = rkat.args(["run", "-v", "say first\nwait 60000"]).start();
    let id = run.wait_for_step();
    run.signal("INT");
    let done = run.finish();
    assert_snapshot!(without_events(&rkat, &done), @r#"
    interrupting; press Ctrl-C again to exit immediately
    error: the run was interrupted; the session can be resumed [REQUEST_CANCELLED]
    hint: rkat run --resume=[workspace]:[uuid] "…" continues the session
    exit 130
    "#);
    let resumed = rkat.args(["run", "-q", &format!("--resume={id}"), "say back"]).run();
    assert_eq!(resumed.text(), "back\n");
}

#[test]
fn signals_keep_streamed_text() {
    for signal in ["INT", "TERM"] {
        let rkat = Rkat::new();
        let mut run = rkat.args(["run", "-v", "say Once upon a\nwait 60000"]).start();
        let id = run.wait_for_step();
        run.wait_for("\"text_delta\"");
        run.signal(signal);
        assert_eq!(run.finish().code, Some(130), "{signal}");
        rkat.args(["run", "-q", &format!("--resume={id}"), "say back"]).run().text();
        let session = rkat.args(["session", "show", "last"]).run();
        let messages = session.text().split_once("\n\n").map(|(_, messages)| messages.to_owned());
        let expected = "user    say Once upon a\n        wait 60000\n\nagent   Once upon a\n        [interrupted]\n\n\
                        user    say back\n\nagent   back\n";
        assert_eq!(messages.as_deref(), Some(expected), "{signal}");
    }
}

#[test]
fn ctrl_c_is_reported_in_json() {
    let rkat = Rkat::new();
    let mut run = rkat.args(["run", "-v", "--json", "wait 60000"]).start();
    run.wait_for_step();
    run.signal("INT");
    assert_snapshot!(without_events(&rkat, &run.finish()), @r#"
    {"error":{"code":"REQUEST_CANCELLED","message":"the run was interrupted; the session can be resumed","data":{"session_id":"[uuid]","session_ref":"[workspace]:[uuid]","session_created":true,"resumable":true}}}
    interrupting; press Ctrl-C again to exit immediately
    error: the run was interrupted; the session can be resumed [REQUEST_CANCELLED]
    hint: rkat run --resume=[workspace]:[uuid] "…" continues the session
    exit 130
    "#);
}

#[test]
fn session_has_one_run_at_a_time() {
    let rkat = Rkat::new();
    let mut run = rkat.args(["run", "-v", "wait 60000"]).start();
    let id = run.wait_for_step();
    let resume = format!("--resume={id}");
    assert_snapshot!(rkat.args(["run", &resume, "say too early"]).run(), @r"
    --- stderr
    error: session `[uuid]` has an active run; requests are not queued: try again when the run has ended [SESSION_BUSY]
    --- exit 1
    ");
    assert_snapshot!(rkat.args(["session", "list"]).run(), @r"
    SESSION                               CHANGED   STATE    MESSAGES  TOKENS  MODEL    LABELS
    [uuid]  just now  running  1         0       offline
    --- stderr
    --- exit 0
    ");
    // Other sessions of the realm are not affected.
    assert_eq!(rkat.args(["run", "-q", "say meanwhile"]).run().text(), "meanwhile\n");
    assert_snapshot!(rkat.args(["session", "interrupt", &id]).run(), @r"
    interrupted [uuid]
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(without_events(&rkat, &run.finish()), @r#"
    error: the run was interrupted; the session can be resumed [REQUEST_CANCELLED]
    hint: rkat run --resume=[workspace]:[uuid] "…" continues the session
    exit 130
    "#);
    assert_eq!(rkat.args(["run", "-q", &resume, "say now"]).run().text(), "now\n");
}

#[test]
fn deleting_a_session_stops_its_run() {
    let rkat = Rkat::new();
    let mut run = rkat.args(["run", "-v", "wait 60000"]).start();
    let id = run.wait_for_step();
    assert_eq!(rkat.args(["session", "delete", &id, "--json"]).run().json()["archived"], true);
    assert_eq!(run.finish().code, Some(130));
}

#[test]
fn killed_process_leaves_session_resumable() {
    let rkat = Rkat::new();
    let mut run = rkat.args(["run", "-v", "wait 60000"]).start();
    let id = run.wait_for_step();
    run.signal("KILL");
    assert_eq!(run.finish().code, None);
    let resumed = rkat.args(["run", "-q", &format!("--resume={id}"), "say alive"]).run();
    assert_eq!(resumed.text(), "alive\n");
}

#[test]
fn realm_in_use_is_not_deleted_without_force() {
    let rkat = Rkat::new();
    let mut run = rkat.args(["run", "-v", "-r", "team", "wait 60000"]).start();
    run.wait_for_step();
    assert_snapshot!(rkat.args(["realm", "delete", "team"]).run(), @r"
    --- stderr
    error: realm `team` is in use; stop the processes that use it, or force the deletion [SESSION_STORE_ERROR]
    --- exit 1
    ");
    let listed = rkat.args(["realm", "list"]).run();
    let row = listed.text().lines().nth(1).unwrap();
    assert!(
        row.starts_with("team   sqlite   named   just now  just now  ") && row.ends_with(" KB  in use"),
        "{row}"
    );
    run.signal("INT");
    run.finish();
    assert_eq!(rkat.args(["realm", "delete", "team"]).run().text(), "deleted team\n");
}
