//! `rkat run` where calls need an approval and nobody is at a terminal.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::Rkat;

const WISHED: [&str; 6] =
    ["run", "--tools=safe", "--approvals=always", "-q", "--json", "call datetime {}\nthen\nsay done"];

/// Runs up to the call that waits; returns the session and the call.
fn waiting(rkat: &Rkat) -> (String, String) {
    let reply: Value = serde_json::from_str(&rkat.args(WISHED).run().stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&reply["session_id"]), text(&reply["pending_approvals"][0]["tool_use_id"]))
}

#[test]
fn a_run_that_needs_an_approval_says_how_to_give_it() {
    let asking = ["run", "--tools=safe", "--approvals=always", "call datetime {}"];
    assert_snapshot!(Rkat::new().args(asking).run(), @r#"
    {"tool_use_id":"call_1","tool_name":"datetime","args":{},"expires_at":"[time]"}
    --- stderr
    no API key is configured: the offline model answers
    these calls wait for an approval: `rkat run --resume=[uuid] --approve all` runs them, `--deny all` does not; limits, a schema and tools that were given for the run alone are to be given again
    session [uuid] · 1 step · 0 tool calls · 434 tokens · offline
    --- exit 1
    "#);
}

#[test]
fn calls_are_approved_and_denied_by_id_and_all_together() {
    let rkat = Rkat::new();
    for (said, ran) in [(["--approve", "all"], 1), (["--deny", "all"], 0)] {
        let (session, _) = waiting(&rkat);
        let resume = format!("--resume={session}");
        let done = rkat.args(["run", "-q", "--json", &resume, said[0], said[1]]).run().json();
        assert_eq!((&done["text"], &done["tool_calls"]), (&"done".into(), &ran.into()));
    }
    let (session, call) = waiting(&rkat);
    let resume = format!("--resume={session}");
    let done = rkat.args(["run", "-q", "--json", &resume, "--approve", "all", "--deny", &call]).run().json();
    assert_eq!(done["tool_calls"], 0, "what names the call counts more than what names all");
}

#[test]
fn decisions_that_fit_no_call_are_refused() {
    let rkat = Rkat::new();
    let (session, call) = waiting(&rkat);
    let resume = format!("--resume={session}");
    let unknown = rkat.args(["run", &resume, "--approve", "nothing"]).run().to_string();
    assert!(
        unknown.contains(&format!("no call that waits has the id `nothing`; waiting: `{call}`")),
        "{unknown}"
    );
    let shown = rkat.args(["session", "show", &session]).run().to_string();
    assert!(shown.contains("waiting for an approval of datetime"), "{shown}");
    rkat.args(["run", "-q", &resume, "--deny", "all"]).run();
    let late = rkat.args(["run", &resume, "--approve", "all"]).run().to_string();
    assert!(late.contains("waits for an approval"), "{late}");
    let policy = rkat.args(["run", "--approvals=sometimes", "hi"]).run().to_string();
    assert!(policy.contains("write never, on-request or always"), "{policy}");
}

#[test]
fn a_session_that_awaits_an_approval_is_listed_as_waiting() {
    let rkat = Rkat::new();
    let (session, _) = waiting(&rkat);
    let state = |args: &[&str]| rkat.args(args.iter().copied()).run().text().to_owned();
    for args in [&["session", "list"][..], &["session", "show", &session]] {
        assert!(state(args).lines().nth(1).unwrap().contains("  waiting  "), "{}", state(args));
    }
    let listed =
        || rkat.args(["session", "list", "--json"]).run().json()["sessions"][0]["is_waiting"].clone();
    assert_eq!(listed(), true);
    rkat.args(["run", "-q", "--resume", &session, "--deny", "all"]).run().text();
    assert_eq!((state(&["session", "list"]).contains("waiting"), listed()), (false, Value::Null));
}

#[test]
fn resuming_without_a_prompt_shows_what_waits() {
    let rkat = Rkat::new();
    let (session, call) = waiting(&rkat);
    let again = rkat.args(["run", "-q", "--json", "--resume", &session]).run();
    let reply: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((again.code, &reply["status"]), (Some(1), &"pending_approval".into()));
    assert_eq!(reply["pending_approvals"][0]["tool_use_id"], call.as_str());
    let text = rkat.args(["run", "--resume", &session]).run();
    assert!(text.stderr.contains("--approve all` runs them"), "{text}");
    rkat.args(["run", "-q", "--resume", &session, "--deny", "all"]).run().text();
    let nothing = rkat.args(["run", "--resume", &session]).run();
    assert_eq!(nothing.code, Some(2), "{nothing}");
    assert!(nothing.stderr.contains("there is no prompt"), "{nothing}");
}
