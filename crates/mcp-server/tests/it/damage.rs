//! Disks and files that fail: a coded error, nothing lost, and the server goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use meerkat_testkit::{McpClient, SmallDisk, checkpoint};
use serde_json::json;

use crate::support::{Place, assert_answers, new_session, said, talk, text_of};

/// Calls every tool that needs the realm; each must fail with the store's code and name the path.
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
fn a_damaged_database_is_refused_unchanged_and_other_realms_are_fine() {
    let place = Place::new();
    let mut client = place.server();
    new_session(&mut client, "say hi");
    assert!(client.close().success());
    let database = place.state().join("test/sessions.sqlite3");
    checkpoint(&database);
    let whole = fs::read(&database).unwrap();
    let mut scrambled = whole.clone();
    scrambled.iter_mut().skip(200).for_each(|byte| *byte ^= 0x5a);
    for garbage in [b"this is no database, whatever its name says\n".repeat(300), scrambled] {
        fs::write(&database, &garbage).unwrap();
        assert_store_fails(&mut place.server(), &database);
        assert!(fs::read(&database).unwrap() == garbage, "the damaged file was changed");
    }
    assert_eq!(
        text_of(&place.server_on("other").expect_tool("meerkat_run", json!({ "prompt": "say fine" }))),
        "fine"
    );
    // Restored, it serves again, also in a server that was there before.
    let mut client = place.server();
    fs::write(&database, b"no database at all, and long enough to be read as one".repeat(50)).unwrap();
    assert_store_fails(&mut client, &database);
    fs::write(&database, &whole).unwrap();
    let listed = client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn unreadable_session_is_missing_from_lists() {
    let place = Place::new();
    let mut client = place.server();
    let bad = client.expect_tool("meerkat_run", json!({ "prompt": "say a", "system_prompt": "spoil-me" }));
    let good = new_session(&mut client, "say b");
    assert!(client.close().success());
    let database = place.state().join("test/sessions.sqlite3");
    checkpoint(&database);
    let mut bytes = fs::read(&database).unwrap();
    let (from, to) = (b"\"spoil-me", b"\"spoil\0me");
    let places: Vec<_> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    fs::write(&database, bytes).unwrap();
    let mut client = place.server();
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
fn a_damaged_manifest_is_refused_unchanged() {
    let place = Place::new();
    let mut client = place.server();
    new_session(&mut client, "say hi");
    assert!(client.close().success());
    let manifest = place.state().join("test/realm_manifest.json");
    for garbage in ["", "{", "[]", "{\"backend\": \"paper\"}"] {
        fs::write(&manifest, garbage).unwrap();
        assert_store_fails(&mut place.server(), &manifest);
        assert_eq!(fs::read_to_string(&manifest).unwrap(), garbage);
    }
}

#[test]
fn a_state_root_that_cannot_be_is_an_error_of_the_call() {
    let place = Place::new();
    let file = place.beside("file");
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
fn a_realm_folder_that_is_a_file_is_an_error_of_the_call() {
    let place = Place::new();
    fs::create_dir(place.state()).unwrap();
    fs::write(place.state().join("test"), "x").unwrap();
    assert_store_fails(&mut place.server(), &place.state().join("test"));
    assert_eq!(fs::read_to_string(place.state().join("test")).unwrap(), "x");
}

#[test]
fn a_full_disk_fails_the_run_and_loses_nothing() {
    let place = Place::new();
    fs::create_dir(place.state()).unwrap();
    let Some(disk) = SmallDisk::mount(&place.state()) else {
        println!("skipped: a small disk cannot be mounted here (it takes root)");
        return;
    };
    let mut client = place.server();
    let session = new_session(&mut client, "say before");
    let filler = disk.fill();
    let database = place.state().join("test/sessions.sqlite3");
    // What is allocated already may still take a message or two.
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
    let before = said(&[("user", "say before"), ("assistant", "before")]);
    assert_eq!(talk(&mut client, &session), before, "what was committed is readable on a full disk");
    let listed = client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(
        listed["sessions"].as_array().map(Vec::len),
        Some(1),
        "a refused run left a session: {listed}"
    );
    let mut late = place.server();
    assert_eq!(talk(&mut late, &session), before, "a server that starts on a full disk reads what is stored");
    assert_eq!(late.expect_error("meerkat_run", json!({ "prompt": "say hi" })), "SESSION_STORE_ERROR");
    let other = place.server_on("other").tool("meerkat_run", json!({ "prompt": "say hi" }));
    assert_eq!(other.payload["code"], "SESSION_STORE_ERROR", "a new realm on a full disk: {}", other.payload);
    fs::remove_file(filler).unwrap();
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say after" }));
    assert_eq!(text_of(&resumed), "after");
    assert_eq!(text_of(&late.expect_tool("meerkat_run", json!({ "prompt": "say late" }))), "late");
    assert_eq!(text_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say new" }))), "new");
    assert!(client.close().success());
    assert_eq!(talk(&mut place.server(), &session)[..2], before);
}
