//! Batches, which only one protocol revision has: accepted over stdio and HTTP, and rejected in other revisions.

use meerkat_testkit::web::{call, payload};
use serde_json::{Value, json};

use super::support::{LONG, TestEnv, hello, running_session, text_of, until_idle};
use super::web::Web;

const VERSION: &str = "2025-03-26";

fn ping(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

fn cancel(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// Returns the ids of the responses, sorted.
fn ids(answers: &[Value]) -> Vec<u64> {
    let mut ids: Vec<_> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn stdio_batch_gets_one_response() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    client.request("initialize", hello(VERSION));
    client.notify("notifications/initialized", json!({}));
    client.send(&json!([
        ping(9011),
        call(9012, "meerkat_run", json!({ "prompt": "say hello" })),
        ping(9013)
    ]));
    let answers = next_batch(&mut client);
    assert_eq!(ids(&answers), [9011, 9012, 9013]);
    let run = answers.iter().find(|answer| answer["id"] == 9012).expect("the run is answered");
    assert_eq!(text_of(&payload(run)), "hello");
    // Notifications are not answered, and cancelled requests are not waited for.
    client.send(&json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }]));
    client.send(&json!([ping(9021), call(9022, "meerkat_run", json!({ "prompt": LONG }))]));
    let session = running_session(&mut client);
    client.send(&json!([cancel(9022)]));
    assert_eq!(ids(&next_batch(&mut client)), [9021]);
    until_idle(&mut client, &session);
    // A duplicate id is rejected in the response.
    client.send(&json!([ping(9031), ping(9031)]));
    let answers = next_batch(&mut client);
    assert_eq!(ids(&answers), [9031, 9031]);
    assert_eq!(answers.iter().filter(|answer| answer.get("error").is_some()).count(), 1);
}

/// Returns the ids of the rejected requests of a batch, in the order of the batch.
fn rejected_ids(answers: &[Value], code: i64, reason: &str) -> Vec<Value> {
    for answer in answers {
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap_or_default().contains(reason), "{answer}");
    }
    answers.iter().map(|answer| answer["id"].clone()).collect()
}

/// Waits for a batch of messages.
fn next_batch(client: &mut meerkat_testkit::McpClient) -> Vec<Value> {
    loop {
        if let Value::Array(answers) = client.receive() {
            return answers;
        }
    }
}

#[test]
fn stdio_rejects_invalid_batches_atomically() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let assert_rejected = |client: &mut meerkat_testkit::McpClient, batch: Value, reason: &str| {
        client.send(&batch);
        let reply = client.receive();
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &json!(-32600)), "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap_or_default().contains(reason), "{reply}");
    };
    assert_rejected(&mut client, json!([ping(1)]), "2025-03-26");
    client.request("initialize", hello(VERSION));
    assert_rejected(&mut client, json!([]), "empty");
    client.send(&json!([ping(1), 7, { "jsonrpc": "2.0", "id": "b", "method": 5 }]));
    assert_eq!(rejected_ids(&next_batch(&mut client), -32600, "item 1"), [json!(1), json!("b")]);
    client.send_raw(
        b"[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":{\"a\":\"\\ud800\",\"b\":1e400}}]\n",
    );
    assert_eq!(rejected_ids(&next_batch(&mut client), -32600, "item 0"), [json!(2)]);
    client.send_raw(b"[{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{\"a\":NaN}}]\n");
    assert_eq!(rejected_ids(&next_batch(&mut client), -32700, "not JSON"), [json!(3)]);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello(VERSION) });
    assert_rejected(&mut client, json!([hello]), "initialize");
    assert_rejected(&mut client, Value::Array((0..129).map(ping).collect()), "129");
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn http_batch_responses_share_one_stream() {
    let env = TestEnv::new();
    let web = Web::start(&env);
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
    // The stream is stored as one: after its last event, nothing is left to read.
    assert!(web.listen(&session, last.as_deref()).event().is_none());
    assert_eq!(web.post(&headers, &json!([initialized])).status, 202);
}

#[test]
fn http_rejects_invalid_batches_atomically() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let (old, new) = (web.session_as(VERSION), web.session());
    let rejection = |session: &str, batch: &Value| web.post(&[("mcp-session-id", session)], batch).error();
    let (status, code, reason) = rejection(&new, &json!([ping(1)]));
    assert_eq!((status, code), (400, -32600));
    assert!(reason.contains("2025-03-26"), "{reason}");
    for batch in [json!([]), json!([ping(1), {}]), Value::Array((0..129).map(ping).collect())] {
        assert_eq!(rejection(&old, &batch).0, 400, "{batch}");
    }
    assert_eq!(rejection("unknown", &json!([ping(1)])).0, 404);
}
