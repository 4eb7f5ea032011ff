//! Failing disks and files: a coded error, no data loss, and a server that continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use meerkat_testkit::{McpClient, SmallDisk, checkpoint};
use serde_json::json;

use super::support::{TestEnv, assert_answers, expected_messages, new_session, read_messages, text_of};

/// Asserts that every tool that needs the realm fails with the store's error code and the path.
fn assert_store_fails(client: &mut McpClient, path: &Path) {
    for (name, arguments) in [
        ("meerkat_run", json!({ "prompt": "say hi" })),
        ("meerkat_sessions", json!({})),
        ("meerkat_config", json!({ "action": "get" })),
    ] {
        let reply = client.tool(name, arguments);
        assert!(reply.is_error, "{name}: {}", reply.payload);
        assert_eq!(reply.payload["code"], "SESSION_STORE_ERROR", "{name}: {}", reply.payload);
        let message = reply.payload["message"].as_str().unwrap_or_default();
        assert!(
            message.contains(&path.display().to_string()),
            "{name}: no `{}` in {message}",
            path.display()
        );
    }
    assert_answers(client);
}

#[test]
fn damaged_database_is_rejected_and_unchanged() {
    let env = TestEnv::new();
    let mut client = env.server();
    new_session(&mut client, "say hi");
    assert!(client.close().success());
    let database = env.state().join("test/sessions.sqlite3");
    checkpoint(&database);
    let intact = fs::read(&database).unwrap();
    let mut scrambled = intact.clone();
    scrambled.iter_mut().skip(200).for_each(|byte| *byte ^= 0x5a);
    for garbage in [b"this is not a database, whatever its name says\n".repeat(300), scrambled] {
        fs::write(&database, &garbage).unwrap();
        assert_store_fails(&mut env.server(), &database);
        assert!(fs::read(&database).unwrap() == garbage, "the damaged file was changed");
    }
    assert_eq!(
        text_of(&env.server_on("other").expect_tool("meerkat_run", json!({ "prompt": "say fine" }))),
        "fine"
    );
    // The restored database works again, even in a server started before.
    let mut client = env.server();
    fs::write(&database, b"no database at all, and long enough to be read as one".repeat(50)).unwrap();
    assert_store_fails(&mut client, &database);
    fs::write(&database, &intact).unwrap();
    let listed = client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn unreadable_session_is_missing_from_lists() {
    let env = TestEnv::new();
    let mut client = env.server();
    let bad = client.expect_tool("meerkat_run", json!({ "prompt": "say a", "system_prompt": "spoil-me" }));
    let good = new_session(&mut client, "say b");
    assert!(client.close().success());
    let database = env.state().join("test/sessions.sqlite3");
    checkpoint(&database);
    let mut bytes = fs::read(&database).unwrap();
    let (from, to) = (b"\"spoil-me", b"\"spoil\0me");
    let offsets: Vec<_> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    for at in offsets {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    fs::write(&database, bytes).unwrap();
    let mut client = env.server();
    for limit in [1, 10] {
        let listed = client.expect_tool("meerkat_sessions", json!({ "limit": limit }));
        let ids: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|s| &s["session_id"]).collect();
        assert_eq!((ids, listed.get("next_offset")), (vec![&json!(good)], None), "{listed}");
    }
    let after = client.expect_tool("meerkat_sessions", json!({ "offset": 1 }));
    assert_eq!(after["sessions"], json!([]), "{after}");
    let listed = client.request("resources/list", json!({}));
    let listed = listed["result"]["resources"].to_string();
    assert!(listed.contains(&good) && !listed.contains(bad["session_id"].as_str().unwrap()), "{listed}");
    let read = client.tool("meerkat_read", json!({ "session_id": bad["session_id"] }));
    assert_eq!(read.payload["code"], "SESSION_STORE_ERROR", "{}", read.payload);
}

#[test]
fn damaged_manifest_is_rejected_and_unchanged() {
    let env = TestEnv::new();
    let mut client = env.server();
    new_session(&mut client, "say hi");
    assert!(client.close().success());
    let manifest = env.state().join("test/realm_manifest.json");
    for garbage in ["", "{", "[]", "{\"backend\": \"paper\"}"] {
        fs::write(&manifest, garbage).unwrap();
        assert_store_fails(&mut env.server(), &manifest);
        assert_eq!(fs::read_to_string(&manifest).unwrap(), garbage);
    }
}

#[test]
fn impossible_state_root_fails_the_call() {
    let env = TestEnv::new();
    let file = env.path("file");
    fs::write(&file, "x").unwrap();
    for root in [file.join("below"), PathBuf::from("/proc/no-such-place")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rkat-mcp"));
        command.args(["--realm", "test", "--state-root"]).arg(&root).env_clear();
        let mut client = McpClient::start(command.stderr(std::process::Stdio::null()));
        assert_store_fails(&mut client, &root);
        assert!(client.close().success());
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
}

#[test]
fn file_at_realm_path_fails_the_call() {
    let env = TestEnv::new();
    fs::create_dir(env.state()).unwrap();
    fs::write(env.state().join("test"), "x").unwrap();
    assert_store_fails(&mut env.server(), &env.state().join("test"));
    assert_eq!(fs::read_to_string(env.state().join("test")).unwrap(), "x");
}

#[test]
fn full_disk_fails_runs_without_data_loss() {
    let env = TestEnv::new();
    fs::create_dir(env.state()).unwrap();
    let Some(disk) = SmallDisk::mount(&env.state()) else {
        println!("skipped: cannot mount a small disk (needs root)");
        return;
    };
    let mut client = env.server();
    let session = new_session(&mut client, "say before");
    let filler = disk.fill();
    let database = env.state().join("test/sessions.sqlite3");
    // Pages already allocated may still hold a message or two.
    let big = format!("say big\n{}", "x".repeat(200_000));
    for arguments in [json!({ "prompt": big }), json!({ "prompt": big })] {
        let reply = client.tool("meerkat_run", arguments);
        assert_eq!(reply.payload["code"], "SESSION_STORE_ERROR", "a run on a full disk: {}", reply.payload);
        let message = reply.payload["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("no space") && message.contains(&database.display().to_string()),
            "{message}"
        );
    }
    let resume = json!({ "session_id": session, "prompt": big });
    assert_eq!(client.expect_error("meerkat_resume", resume), "SESSION_STORE_ERROR");
    assert_answers(&mut client);
    let before = expected_messages(&[("user", "say before"), ("assistant", "before")]);
    assert_eq!(
        read_messages(&mut client, &session),
        before,
        "committed messages are readable on a full disk"
    );
    let listed = client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(
        listed["sessions"].as_array().map(Vec::len),
        Some(1),
        "a rejected run left a session: {listed}"
    );
    let mut late = env.server();
    assert_eq!(
        read_messages(&mut late, &session),
        before,
        "a server started on a full disk reads stored messages"
    );
    assert_eq!(late.expect_error("meerkat_run", json!({ "prompt": "say hi" })), "SESSION_STORE_ERROR");
    let other = env.server_on("other").tool("meerkat_run", json!({ "prompt": "say hi" }));
    assert_eq!(other.payload["code"], "SESSION_STORE_ERROR", "a new realm on a full disk: {}", other.payload);
    fs::remove_file(filler).unwrap();
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say after" }));
    assert_eq!(text_of(&resumed), "after");
    assert_eq!(text_of(&late.expect_tool("meerkat_run", json!({ "prompt": "say late" }))), "late");
    assert_eq!(text_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say new" }))), "new");
    assert!(client.close().success());
    assert_eq!(read_messages(&mut env.server(), &session)[..2], before);
}
