//! Which realm a server works in.

use std::fs;

use meerkat_testkit::McpClient;
use serde_json::json;

use crate::support::{Place, new_session};

#[test]
fn without_a_name_every_server_has_a_new_realm() {
    let place = Place::new();
    let start = |arguments: &[&str]| {
        let mut client = McpClient::start(&mut place.command(arguments));
        let realm = client.expect_tool("meerkat_config", json!({ "action": "get" }))["realm_id"].clone();
        assert_eq!(client.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }), "{realm}");
        let session = new_session(&mut client, "say hi");
        (realm.as_str().expect("a realm").to_owned(), session)
    };
    let (first, session) = start(&[]);
    let (second, _) = start(&["--isolated"]);
    let (third, _) = start(&[]);
    assert!(first != second && second != third && third != first, "{first} {second} {third}");
    for realm in [&first, &second, &third] {
        assert!(realm.starts_with("realm-"), "{realm}");
        assert!(
            place.log().contains(&format!("realm `{realm}`")),
            "{realm} is not in the log: {}",
            place.log()
        );
    }
    let mut other = McpClient::start(&mut place.command(&[]));
    assert_eq!(other.expect_error("meerkat_read", json!({ "session_id": session })), "SESSION_NOT_FOUND");
}

#[test]
fn realms_of_different_names_know_nothing_of_each_other() {
    let place = Place::new();
    let (mut one, mut two) = (place.server_on("one"), place.server_on("two"));
    let session = new_session(&mut one, "say hi");
    let patch = json!({ "action": "patch", "patch": { "agent": { "max_turns": 7 } } });
    one.expect_tool("meerkat_config", patch);
    let resume = json!({ "session_id": session, "prompt": "say more" });
    assert_eq!(two.expect_error("meerkat_resume", resume), "SESSION_NOT_FOUND");
    assert_eq!(two.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }));
    assert_eq!(two.expect_tool("meerkat_config", json!({ "action": "get" }))["generation"], 0);
}

#[test]
fn a_realm_in_memory_leaves_nothing_on_disk() {
    let place = Place::new();
    let arguments = ["--realm", "scratch", "--realm-backend", "memory"];
    let mut client = McpClient::start(&mut place.command(&arguments));
    let session = new_session(&mut client, "say hi");
    client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    let config = client.expect_tool("meerkat_config", json!({ "action": "get" }));
    assert_eq!((&config["backend"], &config["resolved_paths"]), (&json!("memory"), &json!(null)), "{config}");
    assert!(client.close().success());
    assert!(place.log().contains("(memory)"), "{}", place.log());
    let left = fs::read_dir(place.state()).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{:?} is not empty", place.state());
    let mut again = McpClient::start(&mut place.command(&arguments));
    assert_eq!(again.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }));
}

#[test]
fn an_archived_session_of_a_realm_in_memory_is_gone() {
    let place = Place::new();
    let mut client = McpClient::start(&mut place.command(&["--realm-backend", "memory"]));
    let session = new_session(&mut client, "say hi");
    client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    assert_eq!(client.expect_error("meerkat_read", json!({ "session_id": session })), "SESSION_NOT_FOUND");
}

#[test]
fn the_manifest_decides_the_backend_and_the_log_says_so() {
    let place = Place::new();
    let mut first = place.server();
    let session = new_session(&mut first, "say hi");
    assert!(first.close().success());
    let manifest = fs::read(place.state().join("test/realm_manifest.json")).unwrap();
    let mut second = McpClient::start(&mut place.command(&["--realm", "test", "--realm-backend", "memory"]));
    second.expect_tool("meerkat_read", json!({ "session_id": session }));
    let config = second.expect_tool("meerkat_config", json!({ "action": "get" }));
    assert_eq!(config["backend"], "sqlite", "{config}");
    assert!(second.close().success());
    let log = place.log();
    assert!(!log.contains("(memory)"), "the first line names a backend that the realm does not have: {log}");
    let warning = log.lines().find(|line| line.starts_with("warning:")).unwrap_or_default();
    assert!(warning.contains("`sqlite`") && warning.contains("`memory`"), "no warning in {log}");
    assert_eq!(fs::read(place.state().join("test/realm_manifest.json")).unwrap(), manifest);
}

#[test]
fn the_manifest_has_the_documented_fields() {
    let place = Place::new();
    new_session(&mut place.server_on("team-alpha"), "say hi");
    let text = fs::read_to_string(place.state().join("team-alpha/realm_manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&manifest["realm_id"], &manifest["backend"], &manifest["origin"]),
        (&json!("team-alpha"), &json!("sqlite"), &json!("explicit")),
        "{text}"
    );
    let created = manifest["created_at"].as_str().unwrap_or_default();
    assert!(created.parse::<u64>().is_ok(), "{text}");
}
