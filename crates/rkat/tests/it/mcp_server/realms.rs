//! Choice of the realm that a server uses.

use std::fs;

use meerkat_testkit::McpClient;
use serde_json::json;

use super::support::{TestEnv, new_session};

#[test]
fn unnamed_servers_get_new_realms() {
    let env = TestEnv::new();
    let start = |arguments: &[&str]| {
        let mut client = McpClient::start(&mut env.command(arguments));
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
        assert!(env.log().contains(&format!("realm `{realm}`")), "{realm} is not in the log: {}", env.log());
    }
    let mut other = McpClient::start(&mut env.command(&[]));
    assert_eq!(other.expect_error("meerkat_read", json!({ "session_id": session })), "SESSION_NOT_FOUND");
}

#[test]
fn realms_are_isolated_from_each_other() {
    let env = TestEnv::new();
    let (mut one, mut two) = (env.server_on("one"), env.server_on("two"));
    let session = new_session(&mut one, "say hi");
    let patch = json!({ "action": "patch", "patch": { "agent": { "max_turns": 7 } } });
    one.expect_tool("meerkat_config", patch);
    let resume = json!({ "session_id": session, "prompt": "say more" });
    assert_eq!(two.expect_error("meerkat_resume", resume), "SESSION_NOT_FOUND");
    assert_eq!(two.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }));
    assert_eq!(two.expect_tool("meerkat_config", json!({ "action": "get" }))["generation"], 0);
}

#[test]
fn memory_realm_leaves_nothing_on_disk() {
    let env = TestEnv::new();
    let arguments = ["--realm", "scratch", "--realm-backend", "memory"];
    let mut client = McpClient::start(&mut env.command(&arguments));
    let session = new_session(&mut client, "say hi");
    client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    let config = client.expect_tool("meerkat_config", json!({ "action": "get" }));
    assert_eq!((&config["backend"], &config["resolved_paths"]), (&json!("memory"), &json!(null)), "{config}");
    assert!(client.close().success());
    assert!(env.log().contains("(memory)"), "{}", env.log());
    let remaining = fs::read_dir(env.state()).map_or(0, Iterator::count);
    assert_eq!(remaining, 0, "{:?} is not empty", env.state());
    let mut again = McpClient::start(&mut env.command(&arguments));
    assert_eq!(again.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }));
}

#[test]
fn archived_session_in_memory_realm_is_gone() {
    let env = TestEnv::new();
    let mut client = McpClient::start(&mut env.command(&["--realm-backend", "memory"]));
    let session = new_session(&mut client, "say hi");
    client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    assert_eq!(client.expect_error("meerkat_read", json!({ "session_id": session })), "SESSION_NOT_FOUND");
}

#[test]
fn manifest_backend_overrides_argument_with_warning() {
    let env = TestEnv::new();
    let mut first = env.server();
    let session = new_session(&mut first, "say hi");
    assert!(first.close().success());
    let manifest = fs::read(env.state().join("test/realm_manifest.json")).unwrap();
    let mut second = McpClient::start(&mut env.command(&["--realm", "test", "--realm-backend", "memory"]));
    second.expect_tool("meerkat_read", json!({ "session_id": session }));
    let config = second.expect_tool("meerkat_config", json!({ "action": "get" }));
    assert_eq!(config["backend"], "sqlite", "{config}");
    assert!(second.close().success());
    let log = env.log();
    assert!(!log.contains("(memory)"), "the first line names the wrong backend: {log}");
    let warning = log.lines().find(|line| line.starts_with("warning:")).unwrap_or_default();
    assert!(warning.contains("`sqlite`") && warning.contains("`memory`"), "no warning in {log}");
    assert_eq!(fs::read(env.state().join("test/realm_manifest.json")).unwrap(), manifest);
}

#[test]
fn manifest_has_the_documented_fields() {
    let env = TestEnv::new();
    new_session(&mut env.server_on("team-alpha"), "say hi");
    let text = fs::read_to_string(env.state().join("team-alpha/realm_manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&manifest["realm_id"], &manifest["backend"], &manifest["origin"]),
        (&json!("team-alpha"), &json!("sqlite"), &json!("explicit")),
        "{text}"
    );
    let created = manifest["created_at"].as_str().unwrap_or_default();
    assert!(created.parse::<u64>().is_ok(), "{text}");
}
