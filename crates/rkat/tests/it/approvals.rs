//! `rkat run` without a terminal, with calls that need approval.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::Rkat;

const ASKING: [&str; 6] =
    ["run", "--tools=safe", "--approvals=always", "-q", "--json", "call datetime {}\nthen\nsay done"];

/// Runs until a call awaits approval; returns the session and the call.
fn waiting(rkat: &Rkat) -> (String, String) {
    let reply: Value = serde_json::from_str(&rkat.args(ASKING).run().stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&reply["session_id"]), text(&reply["pending_approvals"][0]["tool_use_id"]))
}

#[test]
fn pending_approval_prints_how_to_decide() {
    let asking = ["run", "--tools=safe", "--approvals=always", "call datetime {}"];
    assert_snapshot!(Rkat::new().args(asking).run(), @r#"
    {"tool_use_id":"call_1","tool_name":"datetime","args":{},"expires_at":"[time]"}
    --- stderr
    no API key configured; using the offline model
    calls awaiting approval: run them with `rkat run --resume=[uuid] --approve all`, or deny them with `--deny all`; pass this run's limits, schema, and tools again
    session [uuid] · 1 step · 0 tool calls · 437 tokens · offline
    --- exit 1
    "#);
}

#[test]
fn calls_are_decided_by_id_or_all() {
    let rkat = Rkat::new();
    for (decision, ran) in [(["--approve", "all"], 1), (["--deny", "all"], 0)] {
        let (session, _) = waiting(&rkat);
        let resume = format!("--resume={session}");
        let done = rkat.args(["run", "-q", "--json", &resume, decision[0], decision[1]]).run().json();
        assert_eq!((&done["text"], &done["tool_calls"]), (&"done".into(), &ran.into()));
    }
    let (session, call) = waiting(&rkat);
    let resume = format!("--resume={session}");
    let done = rkat.args(["run", "-q", "--json", &resume, "--approve", "all", "--deny", &call]).run().json();
    assert_eq!(done["tool_calls"], 0, "what names the call counts more than what names all");
}

#[test]
fn decisions_without_matching_call_fail() {
    let rkat = Rkat::new();
    let (session, call) = waiting(&rkat);
    let resume = format!("--resume={session}");
    let unknown = rkat.args(["run", &resume, "--approve", "nothing"]).run().to_string();
    assert!(
        unknown.contains(&format!("no call awaiting approval has the id `nothing`; pending: `{call}`")),
        "{unknown}"
    );
    let details = rkat.args(["session", "show", &session]).run().to_string();
    assert!(details.contains("awaiting approval of datetime"), "{details}");
    rkat.args(["run", "-q", &resume, "--deny", "all"]).run();
    let late = rkat.args(["run", &resume, "--approve", "all"]).run().to_string();
    assert!(late.contains("is awaiting approval"), "{late}");
    let policy = rkat.args(["run", "--approvals=sometimes", "hi"]).run().to_string();
    assert!(policy.contains("expected `never`, `on-request`, or `always`"), "{policy}");
}

#[test]
fn session_awaiting_approval_is_listed_as_waiting() {
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
fn resume_without_prompt_shows_pending_calls() {
    let rkat = Rkat::new();
    let (session, call) = waiting(&rkat);
    let again = rkat.args(["run", "-q", "--json", "--resume", &session]).run();
    let reply: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((again.code, &reply["status"]), (Some(1), &"pending_approval".into()));
    assert_eq!(reply["pending_approvals"][0]["tool_use_id"], call.as_str());
    let text = rkat.args(["run", "--resume", &session]).run();
    assert!(text.stderr.contains("--approve all`, or deny them"), "{text}");
    rkat.args(["run", "-q", "--resume", &session, "--deny", "all"]).run().text();
    let nothing = rkat.args(["run", "--resume", &session]).run();
    assert_eq!(nothing.code, Some(2), "{nothing}");
    assert!(nothing.stderr.contains("error: no prompt"), "{nothing}");
}
