//! Clients over stdio that send more than they read: queues are bounded, and important messages get through.

use std::io::Write as _;
use std::process::Stdio;

use meerkat_testkit::eventually;
use serde_json::{Value, json};

use super::support::{LONG, TestEnv, hello, id_of};

/// Number of requests, more than may be in flight.
const TOO_MANY: u64 = 1100;

#[test]
fn request_limit_does_not_block_cancellation() {
    let env = TestEnv::new();
    let mut client = env.server();
    let ids: Vec<_> =
        (0..TOO_MANY).map(|_| client.begin_tool("meerkat_run", json!({ "prompt": LONG }))).collect();
    let rejected: Vec<_> = ids[1024..].iter().map(|id| client.finish(*id)).collect();
    for reply in &rejected {
        let reason = "too many requests in flight; wait for responses, or cancel some";
        assert_eq!(reply["error"], json!({ "code": -32600, "message": reason }));
    }
    for id in &ids[..1024] {
        client.notify("notifications/cancelled", json!({ "requestId": id }));
    }
    eventually("nothing runs", || {
        let listed = client.expect_tool("meerkat_sessions", json!({ "limit": 1000 }));
        let sessions = listed["sessions"].as_array().cloned().unwrap_or_default();
        sessions.iter().all(|session| session["is_active"] == false)
    });
}

#[test]
fn client_that_does_not_read_loses_nothing() {
    let env = TestEnv::new();
    let mut child = env
        .command(&["--realm", "test"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    let lines = 50_000;
    let (started, reading) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let hello =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello("2025-11-25") });
        writeln!(stdin, "{hello}").expect("the server reads");
        for line in 0..lines {
            writeln!(stdin, "nonsense {line}").expect("the server reads");
            if line == 1000 {
                started.send(()).expect("the test waits");
            }
        }
        stdin
    });
    // Read only after a part is written; the rest cannot be written before something is read.
    reading.recv().expect("a part is written");
    let answers = std::io::BufRead::lines(std::io::BufReader::new(stdout));
    let mut answers = answers.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let codes: Vec<_> =
        answers.by_ref().take(lines + 1).map(|answer| answer["error"]["code"].clone()).collect();
    assert_eq!(codes.iter().filter(|code| **code == -32700).count(), lines);
    drop(writer.join().expect("all is written"));
    assert_eq!(answers.next(), None);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn rejected_runs_create_no_sessions() {
    let env = TestEnv::new();
    let mut client = env.server();
    let run = client.expect_tool("meerkat_run", json!({ "prompt": "say hi" }));
    let duplicate = client.begin_tool("meerkat_run", json!({ "prompt": LONG }));
    let again = json!({ "name": "meerkat_run", "arguments": { "prompt": "say twice" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": duplicate, "method": "tools/call", "params": again }));
    assert_eq!(client.finish(duplicate)["error"]["code"], -32600);
    let running = super::support::running_session(&mut client);
    let listed = client.expect_tool("meerkat_sessions", json!({}));
    let mut sessions: Vec<_> = listed["sessions"].as_array().expect("sessions").iter().map(id_of).collect();
    sessions.sort();
    let mut expected = vec![id_of(&run), running];
    expected.sort();
    assert_eq!(sessions, expected);
}
