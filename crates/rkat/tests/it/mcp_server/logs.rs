//! The log of a server at its default level.

use std::fs;

use meerkat_testkit::{McpClient, SmallDisk, eventually};
use serde_json::{Value, json};

use super::support::{TestEnv, id_of, long_run, new_session, until_idle};

/// Waits until the log has a line with a text, and returns all such lines.
fn lines_with(env: &TestEnv, text: &str) -> Vec<String> {
    let found =
        || env.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect::<Vec<_>>();
    eventually("the line is logged", || !found().is_empty());
    found()
}

#[test]
fn failed_run_is_logged_once() {
    let env = TestEnv::new();
    let mut client = env.server();
    new_session(&mut client, "say hi");
    let failed = client.tool("meerkat_run", json!({ "prompt": "fail auth" })).payload;
    let session = id_of(&failed["data"]);
    assert!(client.close().success());
    let [line] = lines_with(&env, "the run failed").try_into().unwrap();
    let parts =
        [" WARN ", &format!("session={session}"), " run=", "code=\"AGENT_ERROR\"", " duration_ms=", "error="];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    assert!(!env.log().contains("INFO"), "{}", env.log());
}

#[test]
fn json_log_names_run_and_lost_server() {
    let env = TestEnv::new();
    fs::create_dir(env.path(".rkat")).unwrap();
    fs::write(env.path(".rkat/mcp.toml"), "[[servers]]\nname = \"gone\"\ncommand = \"no-such-program\"\n")
        .unwrap();
    let mut client = McpClient::start(
        env.command(&["--realm", "test", "--log-format", "json"]).env("RKAT_LOG_FORMAT", "text"),
    );
    client.tool("meerkat_run", json!({ "prompt": "fail auth" }));
    let parsed = |text| serde_json::from_str::<Value>(&lines_with(&env, text)[0]).unwrap();
    let failed = parsed("the run failed");
    assert_eq!(
        (&failed["level"], &failed["fields"]["code"]),
        (&json!("warn"), &json!("AGENT_ERROR")),
        "{failed}"
    );
    assert!(failed["fields"]["duration_ms"].is_u64(), "{failed}");
    let lost = parsed("the MCP server is unavailable");
    assert_eq!(
        (&lost["target"], &lost["fields"]["server"]),
        (&json!("meerkat_mcp::server::state"), &json!("gone"))
    );
    assert!(client.close().success());
}

#[test]
#[cfg(unix)]
fn deleted_realm_is_reported_and_logged_once() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say hi");
    fs::rename(env.state().join("test"), env.state().join("aside")).unwrap();
    for _ in 0..2 {
        let resume = json!({ "session_id": session, "prompt": "say more" });
        assert_eq!(client.expect_error("meerkat_resume", resume), "SESSION_STORE_ERROR");
    }
    assert!(client.close().success());
    assert_eq!(lines_with(&env, "the store is lost to this process").len(), 1);
    assert_eq!(lines_with(&env, "the run failed").len(), 2);
}

#[test]
fn full_disk_is_logged_with_its_file() {
    let env = TestEnv::new();
    fs::create_dir(env.state()).unwrap();
    let Some(disk) = SmallDisk::mount(&env.state()) else { return };
    let mut client = env.server();
    new_session(&mut client, "say hi");
    let _filler = disk.fill();
    let prompt = format!("say {}", "x".repeat(100_000));
    assert_eq!(client.expect_error("meerkat_run", json!({ "prompt": prompt })), "SESSION_STORE_ERROR");
    let line = &lines_with(&env, "cannot commit")[0];
    assert!(line.contains("ERROR") && line.contains("test/sessions.sqlite3"), "{line}");
    for _ in 0..3 {
        client.expect_error("meerkat_run", json!({ "prompt": prompt }));
    }
    client.close();
    assert_eq!(lines_with(&env, "cannot commit").len(), 1, "{}", env.log());
}

#[test]
fn run_whose_end_cannot_be_stored_is_logged_once() {
    let env = TestEnv::new();
    fs::create_dir(env.state()).unwrap();
    let Some(disk) = SmallDisk::mount(&env.state()) else { return };
    let mut client = env.server();
    let (run, session) = long_run(&mut client);
    let filler = disk.fill();
    client.tool("meerkat_interrupt", json!({ "session_id": session }));
    client.finish_tool(run);
    // The lease cannot be released either, which is tried again in the background.
    eventually("a commit fails", || env.log().contains("cannot commit"));
    fs::remove_file(filler).unwrap();
    until_idle(&mut client, &session);
    client.close();
    assert_eq!(lines_with(&env, "cannot commit").len(), 1, "{}", env.log());
}

#[test]
fn refused_run_is_logged() {
    let env = TestEnv::new();
    let mut client = env.server();
    let refused = client.tool("meerkat_run", json!({ "prompt": "hi", "model": "claude-sonnet-4-5" }));
    assert_eq!(refused.payload["code"], "PROVIDER_ERROR", "{}", refused.payload);
    client.expect_error("meerkat_run", json!({ "prompt": "" }));
    assert!(client.close().success());
    let [line] = lines_with(&env, "a run was refused").try_into().unwrap();
    assert!(line.contains(" WARN ") && line.contains("no API key"), "{line}");
}

#[test]
fn log_can_be_turned_off() {
    let env = TestEnv::new();
    let mut client = McpClient::start(env.command(&["--realm", "test"]).env("RKAT_LOG", "off"));
    client.tool("meerkat_run", json!({ "prompt": "fail auth" }));
    assert!(client.close().success());
    assert!(!env.log().contains("the run failed"), "{}", env.log());
}
