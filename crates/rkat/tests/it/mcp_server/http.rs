//! Streamable HTTP: both eras at one URL, broken streams, and shutdown.

use meerkat_testkit::eventually;
use meerkat_testkit::web::{MODERN, call, legacy, modern, payload};
use serde_json::{Value, json};

use super::support::{LONG, TestEnv, id_of, text_of};
use super::web::Web;

#[test]
fn root_page_describes_the_server() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let reply = web.send("GET", "/", &[], b"");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    assert!(reply.body.contains("/mcp"), "{reply:?}");
}

#[test]
fn root_page_does_not_name_the_version() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let reply = web.send("GET", "/", &[], b"");
    assert!(!format!("{reply:?}").contains(env!("CARGO_PKG_VERSION")), "{reply:?}");
}

#[test]
fn session_lasts_until_it_is_deleted() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let first = web.tool(&session, 1, "meerkat_run", json!({ "prompt": "say hello" }));
    assert_eq!(text_of(&first), "hello");
    let again = json!({ "session_id": id_of(&first), "prompt": "say more" });
    assert_eq!(text_of(&web.tool(&session, 2, "meerkat_resume", again)), "more");
    assert_eq!(web.send("DELETE", "/mcp", &legacy(&session), b"").status, 204);
    let gone = web.post(&legacy(&session), &call(3, "meerkat_sessions", json!({})));
    assert_eq!(gone.error(), (404, -32600, "Not Found: Session not found".to_owned()));
}

#[test]
fn self_contained_request_needs_no_session() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let run = json!({ "name": "meerkat_run", "arguments": { "prompt": "say hello" } });
    let reply = web.modern("tools/call", run, json!({}));
    assert_eq!(reply["result"]["resultType"], "complete");
    assert_eq!(text_of(&payload(&reply)), "hello");
    let found = web.modern("server/discover", json!({}), json!({}));
    assert_eq!(
        found["result"]["supportedVersions"].as_array().map(|versions| versions.contains(&json!(MODERN))),
        Some(true)
    );
}

#[test]
fn eras_and_transports_share_sessions() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let id = id_of(&web.tool(&session, 1, "meerkat_run", json!({ "prompt": "say one" })));
    let resume = json!({ "name": "meerkat_resume", "arguments": { "session_id": id, "prompt": "say two" } });
    assert_eq!(text_of(&payload(&web.modern("tools/call", resume, json!({})))), "two");
    let mut stdio = env.server();
    let read = stdio.expect_tool("meerkat_read", json!({ "session_id": id }));
    assert_eq!(read["state"]["message_count"], 4);
}

#[test]
fn slow_request_gets_headers_and_keep_alive_early() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let run = json!({ "name": "meerkat_run", "arguments": { "prompt": LONG } });
    let mut stream = web.open_modern("tools/call", run, json!({}));
    assert_eq!(stream.status, 200);
    assert_eq!(stream.line().as_deref(), Some(":"));
}

#[test]
fn closing_a_modern_stream_stops_the_run() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let run = json!({ "name": "meerkat_run", "arguments": { "prompt": LONG } });
    let stream = web.open_modern("tools/call", run, json!({}));
    let session = running(&web);
    drop(stream);
    until_idle(&web, &session);
}

#[test]
fn closed_legacy_stream_can_be_resumed() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let mut stream =
        web.open_post(&legacy(&session), &call(7, "meerkat_run", json!({ "prompt": "wait 1500\nsay late" })));
    // The first event has the id for resuming.
    let first = stream.line().expect("a first event");
    let mut last = first.strip_prefix("id:").map(|id| id.trim().to_owned());
    while last.is_none() {
        let line = stream.line().expect("an event with an id");
        last = line.strip_prefix("id:").map(|id| id.trim().to_owned());
    }
    drop(stream);
    let headers = [
        ("accept", "text/event-stream"),
        ("mcp-session-id", session.as_str()),
        ("last-event-id", last.as_deref().expect("an id")),
    ];
    let (_, reply) = web.open("GET", "/mcp", &headers, b"").event().expect("the answer");
    assert_eq!(reply["id"], 7);
    assert_eq!(text_of(&payload(&reply)), "late");
    // The response can be replayed again, because the stream is retained for a while.
    let (_, again) = web.open("GET", "/mcp", &headers, b"").event().expect("the answer");
    assert_eq!(again, reply);
}

#[test]
fn cancelled_request_stops_its_run() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let _stream = web.open_post(&legacy(&session), &call(7, "meerkat_run", json!({ "prompt": LONG })));
    let running = running(&web);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(web.post(&legacy(&session), &cancel).status, 202);
    until_idle(&web, &running);
}

#[test]
fn in_flight_ids_are_tracked_per_session() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let (one, other) = (web.session(), web.session());
    let mut waiting = web.open_post(&legacy(&one), &call(7, "meerkat_run", json!({ "prompt": LONG })));
    let running = running(&web);
    let duplicate = web.post(&legacy(&one), &call(7, "meerkat_sessions", json!({}))).message();
    assert_eq!(
        duplicate["error"],
        json!({ "code": -32600, "message": "a request with this id is already in flight" })
    );
    assert!(web.tool(&other, 7, "meerkat_sessions", json!({}))["sessions"].is_array());
    web.tool(&other, 8, "meerkat_interrupt", json!({ "session_id": running }));
    let (_, reply) = waiting.event().expect("the first request is answered");
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&json!(7), &json!(true)));
}

#[test]
fn progress_is_sent_on_its_request_stream() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let mut message = call(7, "meerkat_run", json!({ "prompt": "say hello" }));
    message["params"]["_meta"]["progressToken"] = "p".into();
    let mut stream = web.open_post(&legacy(&session), &message);
    let mut seen = Vec::new();
    let reply = loop {
        let (_, event) = stream.event().expect("the answer comes");
        if event["id"] == 7 {
            break event;
        }
        assert_eq!(
            (&event["method"], &event["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("p"))
        );
        assert!(event["params"]["message"].is_string(), "{event}");
        seen.push(event["params"]["progress"].as_f64().expect("a number"));
    };
    assert_eq!(text_of(&payload(&reply)), "hello");
    assert!(!seen.is_empty() && seen.is_sorted_by(|one, next| one < next), "{seen:?}");
}

#[test]
fn changes_notify_every_client() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let (one, other) = (web.session(), web.session());
    let headers = |session: &'static str| [("accept", "text/event-stream"), ("mcp-session-id", session)];
    let mut streams: Vec<_> = [one.clone(), other]
        .into_iter()
        .map(|session| web.open("GET", "/mcp", &headers(session.leak()), b""))
        .collect();
    let everything = json!({ "notifications": { "resourcesListChanged": true } });
    let mut listening = web.open_modern("subscriptions/listen", everything, json!({}));
    let (_, acknowledged) = listening.event().expect("an acknowledgement");
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let session = id_of(&web.tool(&one, 1, "meerkat_run", json!({ "prompt": "say hello" })));
    streams.push(listening);
    for stream in &mut streams {
        let (_, event) = stream.event().expect("a notification");
        assert_eq!(event["method"], "notifications/resources/list_changed");
    }
    let watched = format!("meerkat://session/{session}");
    let subscribe =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": { "uri": watched } });
    assert_eq!(web.post(&legacy(&one), &subscribe).message()["result"], json!({}));
    web.tool(&one, 3, "meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    let (_, event) = streams[0].event().expect("a notification");
    assert_eq!(
        (&event["method"], &event["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(watched))
    );
}

#[test]
fn signal_stops_runs_and_answers_waiting_requests() {
    let env = TestEnv::new();
    let mut web = Web::start(&env);
    let session = web.session();
    let mut waiting = web.open_post(&legacy(&session), &call(7, "meerkat_run", json!({ "prompt": LONG })));
    let modern = web.open_modern(
        "tools/call",
        json!({ "name": "meerkat_run", "arguments": { "prompt": LONG } }),
        json!({}),
    );
    let _standing =
        web.open("GET", "/mcp", &[("accept", "text/event-stream"), ("mcp-session-id", &session)], b"");
    eventually("both run", || active(&web).len() == 2);
    let sessions = active(&web);
    assert!(web.stop().success());
    let (_, reply) = waiting.event().expect("the request is answered");
    assert_eq!(reply["result"]["isError"], true, "{reply}");
    assert!(modern.rest().message()["result"]["isError"] == true);
    let mut stdio = env.server();
    for session in sessions {
        let resumed =
            stdio.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say back" }));
        assert_eq!(text_of(&resumed), "back");
    }
}

fn active(web: &Web) -> Vec<String> {
    let listed = web.modern("tools/call", json!({ "name": "meerkat_sessions", "arguments": {} }), json!({}));
    let sessions = payload(&listed)["sessions"].as_array().cloned().unwrap_or_default();
    sessions.iter().filter(|session| session["is_active"] == true).map(id_of).collect()
}

/// Waits until a session runs, and returns its id.
fn running(web: &Web) -> String {
    let mut found = None;
    eventually("a session runs", || {
        found = active(web).pop();
        found.is_some()
    });
    found.expect("a running session")
}

fn until_idle(web: &Web, session: &str) {
    eventually("the session is idle", || !active(web).iter().any(|id| id == session));
    let read = json!({ "name": "meerkat_read", "arguments": { "session_id": session } });
    assert_eq!(payload(&web.modern("tools/call", read, json!({})))["session_id"], session);
}

#[test]
fn clients_that_support_tasks_get_tasks() {
    let env = TestEnv::new();
    let mut web = Web::start(&env);
    let tasks = || json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let run = |prompt: &str| json!({ "name": "meerkat_run", "arguments": { "prompt": prompt } });
    let started = |web: &Web, prompt: &str| {
        let reply = web.modern("tools/call", run(prompt), tasks());
        assert_eq!(reply["result"]["resultType"], "task", "{reply}");
        reply["result"]["taskId"].as_str().expect("a task id").to_owned()
    };
    let status = |web: &Web, task: &str| -> Value {
        web.modern("tasks/get", json!({ "taskId": task }), tasks())["result"].clone()
    };
    let done = started(&web, "say hello");
    eventually("the task is completed", || status(&web, &done)["status"] == "completed");
    let result = status(&web, &done)["result"].clone();
    assert_eq!(text_of(&result["structuredContent"]), "hello");
    let session = id_of(&result["structuredContent"]);
    assert!(done.starts_with(&session), "{done} does not name its session {session}");
    let stopped = started(&web, LONG);
    assert_eq!(status(&web, &stopped)["status"], "working");
    web.modern("tasks/cancel", json!({ "taskId": stopped }), tasks());
    eventually("the task is cancelled", || status(&web, &stopped)["status"] == "cancelled");
    assert!(web.stop().success());
    let web = Web::start(&env);
    let after = status(&web, &done);
    assert_eq!(after["status"], "completed");
    assert_eq!(after["result"]["structuredContent"]["session_id"], session);
    assert_eq!(text_of(&after["result"]["structuredContent"]), "hello");
    let unknown = web.modern("tasks/get", json!({ "taskId": "x.y" }), tasks());
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn legacy_client_with_tasks_is_answered_directly() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let mut greeting = super::support::hello("2025-11-25");
    greeting["capabilities"] = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    client.request("initialize", greeting);
    assert_eq!(text_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say hello" }))), "hello");
}

#[test]
fn client_without_tasks_is_answered_directly() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let run = json!({ "name": "meerkat_run", "arguments": { "prompt": "say hello" } });
    let reply = web.modern("tools/call", run, json!({ "elicitation": {} }));
    assert_eq!(text_of(&payload(&reply)), "hello");
    let message = modern("tasks/get", json!({ "taskId": "x" }), json!({}));
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tasks/get"), ("mcp-name", "x")];
    assert_eq!(web.post(&headers, &message).error().1, -32021);
}
