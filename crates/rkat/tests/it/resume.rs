//! Resuming a session by all kinds of references.

use insta::assert_snapshot;

use crate::support::Rkat;

fn prompts(rkat: &Rkat, session: &str) -> Vec<String> {
    let session = rkat.args(["session", "show", session, "--json"]).run().json();
    let messages = session["messages"].as_array().unwrap();
    let user_messages = messages.iter().filter(|message| message["role"] == "user");
    user_messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn resume_without_value_uses_the_last_session() {
    let rkat = Rkat::new();
    rkat.session("say one");
    let last = rkat.session("say two");
    assert_snapshot!(rkat.args(["run", "--resume", "say three"]).run(), @r"
    three
    --- stderr
    session [uuid] · 1 step · 0 tool calls · 131 tokens · offline
    --- exit 0
    ");
    assert_eq!(prompts(&rkat, &last), ["say two", "say three"]);
}

#[test]
fn session_is_found_by_every_kind_of_reference() {
    let rkat = Rkat::new();
    let first = rkat.session("say one");
    rkat.session("say two");
    let realm = rkat.args(["realm", "current"]).run().text().trim().to_owned();
    // Ids start with a timestamp, so two of them differ only near the end.
    let names = [&first, &first[..30], &format!("{realm}:{first}"), "~1", "@1"];
    for name in names {
        let done = rkat.args(["run", "-q", &format!("--resume={name}"), "say again"]).run();
        assert_eq!(done.text(), "again\n");
        assert_eq!(rkat.args(["run", "-q", "--resume=@1", "say other"]).run().text(), "other\n");
    }
    assert_eq!(prompts(&rkat, &first).len(), 6);
}

#[test]
fn session_may_follow_resume_after_a_space() {
    let rkat = Rkat::new();
    let first = rkat.session("say one");
    for name in [&first, &first[..30], "@1"] {
        rkat.session("say two");
        assert_eq!(rkat.args(["run", "-q", "--resume", name, "say again"]).run().text(), "again\n");
    }
    assert_eq!(rkat.args(["-q", "--resume", "last", "say more"]).run().text(), "more\n");
    assert_eq!(prompts(&rkat, &first), ["say one", "say again", "say again", "say again", "say more"]);
    for name in ["@0", "last", &first] {
        let session = rkat.args(["session", "show", name, "--json"]).run().json();
        assert_eq!(session["session_id"], first.as_str());
    }
}

#[test]
fn session_reference_is_never_sent_as_a_prompt() {
    let rkat = Rkat::new();
    let session = rkat.session("say one");
    let id = "01936f8a-7b2c-7000-8000-000000000001";
    let lines: [&[&str]; 5] = [
        &["run", id],
        &["run", "--resume", "-q", id],
        &["run", "--resume=last", "last"],
        &["@1"],
        &["01936f8a"],
    ];
    for line in lines {
        let rejected = rkat.args(line.iter().copied()).run();
        assert_eq!(rejected.code, Some(2), "{line:?}: {rejected}");
        assert!(rejected.stderr.contains("is a session, not a prompt"), "{line:?}: {rejected}");
    }
    let unknown = rkat.args(["run", "--resume", "0193", "say x"]).run();
    assert!(unknown.stderr.contains("no session id starts with `0193`"), "{unknown}");
    assert_eq!(prompts(&rkat, &session), ["say one"]);
    assert_eq!(
        rkat.args(["session", "list", "--json"]).run().json()["sessions"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn reference_can_name_another_realm() {
    let rkat = Rkat::new();
    let created = rkat.args(["run", "--json", "-r", "team", "say one"]).run().json();
    let reference = created["session_ref"].as_str().unwrap();
    assert_eq!(rkat.args(["-q", &format!("--resume={reference}"), "say two"]).run().text(), "two\n");
    assert_eq!(prompts(&rkat, reference), ["say one", "say two"]);
}

#[test]
fn unknown_or_ambiguous_reference_is_rejected() {
    let rkat = Rkat::new();
    rkat.session("say one");
    rkat.session("say two");
    assert_snapshot!(rkat.args(["run", "--resume=zzz", "say x"]).run(), @r"
    --- stderr
    error: no session id starts with `zzz`; run `rkat session list` to see all sessions [SESSION_NOT_FOUND]
    --- exit 1
    ");
    assert_snapshot!(rkat.args(["run", "--resume=0", "say x"]).run(), @r"
    --- stderr
    error: 2 session ids start with `0`: [uuid], [uuid] [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["run", "--resume=~7", "say x"]).run(), @r"
    --- stderr
    error: realm `[workspace]` has no session `~7`; run `rkat session list` to see all sessions [SESSION_NOT_FOUND]
    --- exit 1
    ");
    let unknown = "--resume=01936f8a-7b2c-7000-8000-000000000001";
    assert_snapshot!(rkat.args(["run", unknown, "say x"]).run(), @r"
    --- stderr
    error: session `[uuid]` not found [SESSION_NOT_FOUND]
    --- exit 1
    ");
}
