//! Many servers on one realm: no data is lost, and servers conflict only on the same session.

use std::collections::BTreeMap;
use std::thread;

use meerkat_testkit::{McpClient, eventually};
use serde_json::{Value, json};

use super::support::{
    LONG, TestEnv, expected_messages, id_of, long_run, new_session, read_messages, text_of,
};

const SERVERS: usize = 16;
const RUNS: usize = 20;

/// Results of one server.
#[derive(Default)]
struct Done {
    /// Its own sessions, each with the expected answer.
    own: Vec<(String, String)>,
    /// Prompts that the shared session accepted.
    shared: Vec<String>,
    /// Number of times the shared session was busy.
    busy: usize,
    /// Unexpected failures.
    failures: Vec<Value>,
}

#[test]
fn concurrent_servers_lose_no_runs() {
    let env = TestEnv::new();
    let shared = new_session(&mut env.server(), "say first");
    let done: Vec<Done> = thread::scope(|scope| {
        let work = |server: usize| {
            let (env, shared) = (&env, &shared);
            scope.spawn(move || work(&mut env.server(), server, shared))
        };
        let threads: Vec<_> = (0..SERVERS).map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("no server fails")).collect()
    });
    let failures: Vec<_> = done.iter().flat_map(|done| &done.failures).collect();
    assert!(
        failures.is_empty(),
        "{} failures other than a busy shared session: {failures:#?}",
        failures.len()
    );

    let mut client = env.server();
    let listed = client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(
        listed["sessions"].as_array().map(Vec::len),
        Some(SERVERS * RUNS + 1),
        "sessions in the realm"
    );
    for (session, word) in done.iter().flat_map(|done| &done.own) {
        let prompt = format!("say {word}");
        assert_eq!(
            read_messages(&mut client, session),
            expected_messages(&[("user", &prompt), ("assistant", word)]),
            "{session}"
        );
    }
    let lines = read_messages(&mut client, &shared);
    let mut accepted: BTreeMap<&str, usize> = BTreeMap::new();
    for pair in lines.chunks(2) {
        let prompt = pair[0].1.as_str();
        let word = prompt.lines().last().and_then(|line| line.strip_prefix("say "));
        assert_eq!(
            pair.get(1),
            word.map(|word| ("assistant".to_owned(), word.to_owned())).as_ref(),
            "{pair:?}"
        );
        *accepted.entry(prompt).or_default() += 1;
    }
    let succeeded: Vec<_> = done.iter().flat_map(|done| &done.shared).map(String::as_str).collect();
    let expected: BTreeMap<_, _> =
        succeeded.iter().copied().chain(["say first"]).map(|prompt| (prompt, 1)).collect();
    assert_eq!(
        accepted, expected,
        "the shared session has every answered prompt exactly once, and nothing else"
    );
    let busy: usize = done.iter().map(|done| done.busy).sum();
    assert_eq!(busy + succeeded.len(), SERVERS * RUNS);
    assert!(
        busy > 0 && !succeeded.is_empty(),
        "no contention: {} accepted, {busy} rejected",
        succeeded.len()
    );
}

fn work(client: &mut McpClient, server: usize, shared: &str) -> Done {
    let mut done = Done::default();
    for run in 0..RUNS {
        let word = format!("{server}-{run}");
        let reply = client.tool("meerkat_run", json!({ "prompt": format!("say {word}") }));
        if reply.is_error || text_of(&reply.payload) != word {
            done.failures.push(reply.payload);
        } else {
            done.own.push((id_of(&reply.payload), word.clone()));
        }
        let prompt = format!("wait 5\nsay {word}");
        let reply = client.tool("meerkat_resume", json!({ "session_id": shared, "prompt": prompt }));
        if !reply.is_error && text_of(&reply.payload) == word {
            done.shared.push(prompt);
        } else if reply.is_error && reply.payload["code"] == "SESSION_BUSY" {
            done.busy += 1;
        } else {
            done.failures.push(reply.payload);
        }
    }
    done
}

#[test]
fn session_active_elsewhere_is_busy_and_readable() {
    let env = TestEnv::new();
    let (mut one, mut two) = (env.server(), env.server());
    let (request, session) = long_run(&mut one);
    for client in [&mut two, &mut one] {
        let resume = json!({ "session_id": session, "prompt": "say mine" });
        assert_eq!(client.expect_error("meerkat_resume", resume), "SESSION_BUSY");
        let read = client.expect_tool("meerkat_read", json!({ "session_id": session }));
        assert_eq!(read["state"]["is_active"], true, "{read}");
        assert_eq!(read_messages(client, &session), expected_messages(&[("user", LONG)]));
    }
    let other = new_session(&mut two, "say not in the way");
    assert_ne!(other, session);
    one.notify("notifications/cancelled", json!({ "requestId": request }));
    eventually("the session is free for another server", || {
        !two.tool("meerkat_resume", json!({ "session_id": session, "prompt": "say mine" })).is_error
    });
    let expected =
        expected_messages(&[("user", LONG), ("assistant", ""), ("user", "say mine"), ("assistant", "mine")]);
    assert_eq!(read_messages(&mut one, &session), expected);
}

#[test]
fn server_interrupts_run_of_another() {
    let env = TestEnv::new();
    let (mut one, mut two) = (env.server(), env.server());
    let (request, session) = long_run(&mut one);
    let interrupted = two.expect_tool("meerkat_interrupt", json!({ "session_id": session }));
    assert_eq!(interrupted, json!({ "session_id": session, "interrupted": true }));
    let stopped = one.finish_tool(request);
    assert_eq!(stopped.payload["code"], "REQUEST_CANCELLED", "{}", stopped.payload);
    assert_eq!(id_of(&stopped.payload["data"]), session);
    let again = two.expect_error("meerkat_interrupt", json!({ "session_id": session }));
    assert_eq!(again, "SESSION_NOT_RUNNING");
    let resumed = two.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say back" }));
    assert_eq!(text_of(&resumed), "back");
}

#[test]
fn server_archives_active_session_of_another() {
    let env = TestEnv::new();
    let (mut one, mut two) = (env.server(), env.server());
    let (request, session) = long_run(&mut one);
    two.expect_tool("meerkat_archive", json!({ "session_id": session }));
    assert_eq!(one.finish_tool(request).payload["code"], "REQUEST_CANCELLED");
    let resume = json!({ "session_id": session, "prompt": "say more" });
    assert_eq!(one.expect_error("meerkat_resume", resume), "SESSION_NOT_FOUND");
}

#[test]
fn concurrent_config_changes_are_all_counted() {
    let env = TestEnv::new();
    thread::scope(|scope| {
        for server in 0..8 {
            let env = &env;
            scope.spawn(move || {
                let mut client = env.server();
                for _ in 0..5 {
                    let key = format!("tool-{server}");
                    let patch = json!({ "tools": { "tool_timeouts": { key: "7s" } } });
                    client.expect_tool("meerkat_config", json!({ "action": "patch", "patch": patch }));
                }
            });
        }
    });
    let config = env.server().expect_tool("meerkat_config", json!({ "action": "get" }));
    let timeouts = config["config"]["tools"]["tool_timeouts"].as_object().map(serde_json::Map::len);
    assert_eq!((&config["generation"], timeouts), (&json!(40), Some(8)), "{config}");
}
