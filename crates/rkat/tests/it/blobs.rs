//! Blobs: fetched by their id.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn oversized_answer_can_be_fetched_as_blob() {
    let rkat = Rkat::new();
    rkat.args(["config", "patch", "--json", r#"{"limits": {"max_reply_bytes": 1024}}"#]).run();
    let text = "many words ".repeat(400);
    let session = rkat.session(&format!("say {text}"));
    let read = rkat.args(["session", "show", &session, "--json"]).run().json();
    let id = read["state"]["last_assistant_blob_id"].as_str().unwrap().to_owned();
    assert!(read["messages"][1].to_string().contains(text.trim_end()), "messages are not truncated here");

    assert_eq!(rkat.args(["blob", "get", &id]).run().text(), text.trim_end());
    rkat.args(["blob", "get", &id, "-o", "answer.txt"]).run();
    assert_eq!(std::fs::read_to_string(rkat.work().join("answer.txt")).unwrap(), text.trim_end());
    let json = rkat.args(["blob", "get", &id, "--json"]).run().json();
    assert_eq!(
        (json["blob_id"].as_str(), json["media_type"].as_str()),
        (Some(id.as_str()), Some("text/plain"))
    );
}

#[test]
fn unknown_blob_is_rejected() {
    let rkat = Rkat::new();
    let none = format!("sha256:{}", "0".repeat(64));
    assert_snapshot!(rkat.args(["blob", "get", &none]).run(), @r"
    --- stderr
    error: no blob `sha256:0000000000000000000000000000000000000000000000000000000000000000` in this realm [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["blob", "get", "x"]).run(), @r"
    --- stderr
    error: `x` is not a blob id; expected `sha256:` and 64 hexadecimal digits [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn blobs_hold_no_secrets_of_the_environment() {
    let rkat = Rkat::new();
    let secret = "pg-swordfish-4711";
    let run = |args: &[&str]| rkat.args(args.iter().copied()).env("PGPASSWORD", secret).run();
    std::fs::write(rkat.work().join("file"), format!("url = db:{secret}@host\n")).unwrap();
    let loaded = run(&["run", "-q", "--tools=safe", r#"call blob_load_file {"path": "file"}"#]).stdout;
    let id = loaded.split('"').find(|part| part.starts_with("sha256:")).unwrap().to_owned();
    assert_eq!(rkat.args(["blob", "get", &id]).run().stdout, "url = db:***@host\n");

    rkat.args(["config", "patch", "--json", r#"{"limits": {"max_reply_bytes": 1024}}"#]).run();
    // Truncation keeps the first three quarters of the limit, and the secret spans that boundary.
    let text = format!("{}{secret}{}", "x".repeat(760), "x".repeat(4000));
    let session = rkat.session(&format!("say {text}"));
    let read = run(&["session", "show", &session, "--json"]).json();
    let id = read["state"]["last_assistant_blob_id"].as_str().unwrap().to_owned();
    assert_eq!(rkat.args(["blob", "get", &id]).run().stdout.trim_end(), text.replace(secret, "***"));
    let state = read["state"].to_string();
    assert!(!state.contains("sword") && !state.contains("4711"), "{state}");
}
