//! Batches, which one revision of the protocol has: received over stdio and over HTTP, and refused elsewhere.

use serde_json::{Value, json};

use crate::support::{LONG, Place, hello, running_session, text_of, until_idle};
use crate::web::{Web, call, payload};

const VERSION: &str = "2025-03-26";

fn ping(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

fn cancel(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// The ids of answers, in order.
fn ids(answers: &[Value]) -> Vec<u64> {
    let mut ids: Vec<_> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn over_stdio_a_batch_is_answered_with_one() {
    let place = Place::new();
    let mut client = place.silent_server();
    client.request("initialize", hello(VERSION));
    client.notify("notifications/initialized", json!({}));
    client.send(&json!([
        ping(9011),
        call(9012, "meerkat_run", json!({ "prompt": "say hello" })),
        ping(9013)
    ]));
    let answers = until_list(&mut client);
    assert_eq!(ids(&answers), [9011, 9012, 9013]);
    let run = answers.iter().find(|answer| answer["id"] == 9012).expect("the run is answered");
    assert_eq!(text_of(&payload(run)), "hello");
    // Only what is asked is answered, and what is cancelled is waited for no more.
    client.send(&json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }]));
    client.send(&json!([ping(9021), call(9022, "meerkat_run", json!({ "prompt": LONG }))]));
    let session = running_session(&mut client);
    client.send(&json!([cancel(9022)]));
    assert_eq!(ids(&until_list(&mut client)), [9021]);
    until_idle(&mut client, &session);
    // An id that is used twice is refused in the answer.
    client.send(&json!([ping(9031), ping(9031)]));
    let answers = until_list(&mut client);
    assert_eq!(ids(&answers), [9031, 9031]);
    assert_eq!(answers.iter().filter(|answer| answer.get("error").is_some()).count(), 1);
}

/// Waits for a list of messages.
fn until_list(client: &mut meerkat_testkit::McpClient) -> Vec<Value> {
    loop {
        if let Value::Array(answers) = client.receive() {
            return answers;
        }
    }
}

#[test]
fn over_stdio_a_batch_that_cannot_be_taken_is_refused_whole() {
    let place = Place::new();
    let mut client = place.silent_server();
    let refused = |client: &mut meerkat_testkit::McpClient, batch: Value, reason: &str| {
        client.send(&batch);
        let reply = client.receive();
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &json!(-32600)), "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap_or_default().contains(reason), "{reply}");
    };
    refused(&mut client, json!([ping(1)]), "2025-03-26");
    client.request("initialize", hello(VERSION));
    refused(&mut client, json!([]), "empty");
    refused(&mut client, json!([ping(1), 7]), "item 1");
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello(VERSION) });
    refused(&mut client, json!([hello]), "initialize");
    refused(&mut client, Value::Array((0..129).map(ping).collect()), "129");
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn over_http_the_answers_to_a_batch_come_on_one_stream() {
    let place = Place::new();
    let web = Web::start(&place);
    let session = web.session_as(VERSION);
    let headers = [("mcp-session-id", session.as_str())];
    let run = call(2, "meerkat_run", json!({ "prompt": "say hello" }));
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let mut stream = web.open_post(&headers, &json!([initialized, ping(1), run, ping(3)]));
    let mut answers = Vec::new();
    let mut last = None;
    while let Some((id, answer)) = stream.event() {
        last = id;
        answers.push(answer);
    }
    assert_eq!(ids(&answers), [1, 2, 3]);
    let run = answers.iter().find(|answer| answer["id"] == 2).expect("the run is answered");
    assert_eq!(text_of(&payload(run)), "hello");
    // The stream is kept as one: who saw its last event has nothing left to read.
    assert!(web.listen(&session, last.as_deref()).event().is_none());
    assert_eq!(web.post(&headers, &json!([initialized])).status, 202);
}

#[test]
fn over_http_a_batch_that_cannot_be_taken_is_refused_whole() {
    let place = Place::new();
    let web = Web::start(&place);
    let (old, new) = (web.session_as(VERSION), web.session());
    let refused = |session: &str, batch: &Value| web.post(&[("mcp-session-id", session)], batch).error();
    let (status, code, reason) = refused(&new, &json!([ping(1)]));
    assert_eq!((status, code), (400, -32600));
    assert!(reason.contains("2025-03-26"), "{reason}");
    for batch in [json!([]), json!([ping(1), {}]), Value::Array((0..129).map(ping).collect())] {
        assert_eq!(refused(&old, &batch).0, 400, "{batch}");
    }
    assert_eq!(refused("nobody", &json!([ping(1)])).0, 404);
}
