//! Streams of a session: routing of messages, first events, and resuming expired streams.

use meerkat_testkit::eventually;
use meerkat_testkit::web::{Stream, call, legacy, payload};
use serde_json::{Value, json};

use super::support::{LONG, TestEnv, text_of};
use super::web::Web;

/// Reads all messages until the stream ends.
fn rest(mut stream: Stream) -> Vec<Value> {
    std::iter::from_fn(|| stream.event()).map(|(_, message)| message).collect()
}

/// Reads until an event with an id. Returns the id.
fn next_id(stream: &mut Stream) -> String {
    loop {
        let line = stream.line().expect("an event with an id");
        if let Some(id) = line.strip_prefix("id:") {
            return id.trim().to_owned();
        }
    }
}

#[test]
fn request_messages_use_the_request_stream() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let standing = web.listen(&session, None);
    let mut message = call(7, "meerkat_run", json!({ "prompt": "say hello", "stream": true }));
    message["params"]["_meta"]["progressToken"] = "p".into();
    let own = rest(web.open_post(&legacy(&session), &message));
    let methods = |messages: &[Value]| {
        let named = messages.iter().filter_map(|message| message["method"].as_str().map(str::to_owned));
        named.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(methods(&own), ["notifications/message", "notifications/progress"]);
    let events = own.iter().filter(|message| message["params"]["data"]["source"] == "meerkat");
    assert!(events.count() > 2, "{own:?}");
    assert_eq!(text_of(&payload(own.last().expect("an answer"))), "hello");
    // Deleting the session ends its stream, so all of its messages can be read.
    assert_eq!(web.send("DELETE", "/mcp", &legacy(&session), b"").status, 204);
    assert_eq!(methods(&rest(standing)), ["notifications/resources/list_changed"]);
}

#[test]
fn streams_start_with_priming_event_if_supported() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    for (version, primes) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)]
    {
        let session = web.session_as(version);
        let headers = [("mcp-session-id", session.as_str())];
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let mut stream = web.open_post(&headers, &list);
        let mut first = Vec::new();
        while let Some(line) = stream.line().filter(|line| !line.is_empty()) {
            first.push(line.split_once(':').map_or(line.clone(), |(field, _)| field.to_owned()));
        }
        let expected = if primes { ["data", "id", "retry"].as_slice() } else { ["data", "id"].as_slice() };
        first.sort();
        assert_eq!(first, expected, "{version}");
        let empty = |body: &str| body.lines().any(|line| line.trim_end() == "data:");
        assert!(!empty(&web.initialize_as(version).body), "{version}: the handshake");
        assert_eq!(empty(&web.post(&headers, &list).body), primes, "{version}");
        let mut standing = web.listen(&session, None);
        web.tool(&session, 2, "meerkat_run", json!({ "prompt": "say hi" }));
        let mut lines = Vec::new();
        while !lines.iter().any(|line: &String| line.contains("list_changed")) {
            lines.push(standing.line().expect("a notification"));
        }
        assert_eq!(empty(&lines.join("\n")), primes, "{version}: the session's own stream: {lines:?}");
    }
}

#[test]
fn unknown_stream_is_rejected_with_a_reason() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let (session, other) = (web.session(), web.session());
    let rejection = |session: &str, last: &str| {
        let (status, code, reason) = web.listen(session, Some(last)).rest().error();
        assert!(reason.contains("repeat its request"), "{reason}");
        (status, code)
    };
    for last in ["0", "nonsense", "99~1", "1~99"] {
        assert_eq!(rejection(&session, last), (400, -32600), "{last}");
    }
    // The stream of a cancelled request.
    let mut stream = web.open_post(&legacy(&session), &call(7, "meerkat_run", json!({ "prompt": LONG })));
    let last = next_id(&mut stream);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(web.post(&legacy(&session), &cancel).status, 202);
    assert_eq!(rest(stream), Vec::<Value>::new(), "it ends without an answer");
    assert_eq!(rejection(&session, &last), (400, -32600));
    // The stream of a session, requested in another session, and after its end.
    let mut standing = web.listen(&session, None);
    let last = next_id(&mut standing);
    assert_eq!(rejection(&other, &last), (400, -32600));
    assert_eq!(web.send("DELETE", "/mcp", &legacy(&session), b"").status, 204);
    let gone = web.listen(&session, Some(&last)).rest();
    assert_eq!(gone.error(), (404, -32600, "Not Found: Session not found".to_owned()));
}

#[test]
fn missed_notifications_are_replayed() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let last = next_id(&mut web.listen(&session, None));
    web.tool(&session, 1, "meerkat_run", json!({ "prompt": "say hi" }));
    let (id, notice) = web.listen(&session, Some(&last)).event().expect("the notification");
    assert_eq!(notice["method"], "notifications/resources/list_changed");
    assert_ne!(id, Some(last));
}

#[test]
fn newest_session_stream_gets_notifications() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let mut older = web.listen(&session, None);
    let mut newer = web.listen(&session, None);
    next_id(&mut older);
    web.tool(&session, 1, "meerkat_run", json!({ "prompt": "say one" }));
    let (first, _) = newer.event().expect("a notification");
    drop(newer);
    let mut second = None;
    eventually("the older stream gets a notification", || {
        web.tool(&session, 2, "meerkat_run", json!({ "prompt": "say two" }));
        second = older.event().and_then(|(id, _)| id);
        second.is_some()
    });
    assert_ne!(second, first, "no notification is sent twice");
    assert_eq!(web.send("DELETE", "/mcp", &legacy(&session), b"").status, 204);
    rest(older);
}

#[test]
fn unread_stream_does_not_block_others() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let long = format!("say {}", "x".repeat(300_000));
    let streamed = json!({ "prompt": long, "stream": true });
    let unread: Vec<_> = (0..8)
        .map(|id| web.open_post(&legacy(&session), &call(id, "meerkat_run", streamed.clone())))
        .collect();
    for id in 10..20 {
        let answer = web.tool(&session, id, "meerkat_run", json!({ "prompt": "say hello" }));
        assert_eq!(text_of(&answer), "hello");
    }
    drop(unread);
}

#[test]
fn watch_limit_is_enforced() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let uris = |count: usize| (0..count).map(|number| format!("meerkat://{number}")).collect::<Vec<_>>();
    let listen = |count: usize| {
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris(count) } });
        let mut stream = web.open_modern("subscriptions/listen", wanted, json!({}));
        let (_, first) = stream.event().expect("an acknowledgement");
        let accepted = &first["params"]["notifications"]["resourceSubscriptions"];
        (accepted.as_array().map_or(0, Vec::len), stream)
    };
    let (accepted, _stream) = listen(1024);
    assert_eq!(accepted, 1024);
    let (accepted, mut stream) = listen(1025);
    assert_eq!(accepted, 0, "a rejected subscription is not acknowledged");
    let (_, error) = stream.event().expect("an error");
    let reason = "a client may watch at most 1024 resources, with URIs of at most 2048 bytes; unsubscribe from some first";
    assert_eq!(error["error"], json!({ "code": -32602, "message": reason }));
    let mut client = env.server();
    let long =
        client.request("resources/subscribe", json!({ "uri": format!("meerkat://{}", "x".repeat(2048)) }));
    assert_eq!(long["error"], json!({ "code": -32602, "message": reason }));
    for uri in uris(1024) {
        assert_eq!(client.request("resources/subscribe", json!({ "uri": uri }))["result"], json!({}));
    }
    let one_more = client.request("resources/subscribe", json!({ "uri": "meerkat://more" }));
    assert_eq!(one_more["error"], json!({ "code": -32602, "message": reason }));
}
