//! Blobs: fetched by their id.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn what_was_too_long_for_a_reply_can_be_fetched_whole() {
    let rkat = Rkat::new();
    rkat.args(["config", "patch", "--json", r#"{"limits": {"max_reply_bytes": 1024}}"#]).run();
    let text = "many words ".repeat(400);
    let session = rkat.session(&format!("say {text}"));
    let read = rkat.args(["session", "show", &session, "--json"]).run().json();
    let id = read["state"]["last_assistant_blob_id"].as_str().unwrap().to_owned();
    assert!(read["messages"][1].to_string().contains(text.trim_end()), "messages are shown whole here");

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
fn a_blob_that_is_not_there_is_refused() {
    let rkat = Rkat::new();
    let none = format!("sha256:{}", "0".repeat(64));
    assert_snapshot!(rkat.args(["blob", "get", &none]).run(), @r"
    --- stderr
    error: no blob `sha256:0000000000000000000000000000000000000000000000000000000000000000` is in this realm [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["blob", "get", "x"]).run(), @r"
    --- stderr
    error: `x` is not a blob id; expected `sha256:` and 64 hexadecimal digits [INVALID_PARAMS]
    --- exit 2
    ");
}
