//! What nobody should send. Every case is answered with a reason, and the server goes on.

use base64::Engine as _;
use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use crate::support::{
    Place, UNKNOWN_SESSION, assert_answers, id_of, long_run, new_session, said, talk, text_of,
};

/// Calls a tool that must fail with this code and a message that names these words.
fn assert_refused(client: &mut McpClient, name: &str, arguments: &Value, code: &str, words: &[&str]) {
    let reply = client.tool(name, arguments.clone());
    let shown = arguments.to_string();
    let shown = shown.get(..200).unwrap_or(&shown);
    assert!(reply.is_error, "{name} {shown} was taken: {}", reply.payload);
    assert_eq!(reply.payload["code"], code, "{name} {shown}: {}", reply.payload);
    let message = reply.payload["message"].as_str().unwrap_or_default();
    for word in words {
        assert!(message.contains(word), "{name} {shown}: no `{word}` in {message:?}");
    }
}

#[test]
fn an_unknown_session_is_not_found_by_any_tool() {
    let place = Place::new();
    let mut client = place.server();
    for tool in ["meerkat_resume", "meerkat_read", "meerkat_history", "meerkat_interrupt", "meerkat_archive"]
    {
        let arguments = json!({ "session_id": UNKNOWN_SESSION, "prompt": "say hi" });
        assert_refused(&mut client, tool, &arguments, "SESSION_NOT_FOUND", &[UNKNOWN_SESSION]);
    }
    assert_answers(&mut client);
}

#[test]
fn a_malformed_session_id_is_refused_by_every_tool() {
    let place = Place::new();
    let mut client = place.server();
    let session = new_session(&mut client, "say hi");
    let long = "0".repeat(10_000);
    let bad =
        ["", " ", "nope", "01890000-0000-7000-8000", "../../etc/passwd", "\u{0}", &long, &session[..35]];
    for tool in ["meerkat_resume", "meerkat_read", "meerkat_history", "meerkat_interrupt", "meerkat_archive"]
    {
        for id in bad {
            let arguments = json!({ "session_id": id, "prompt": "say hi" });
            assert_refused(&mut client, tool, &arguments, "INVALID_PARAMS", &["session id"]);
        }
    }
    assert_answers(&mut client);
}

#[test]
fn an_empty_prompt_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let mut client = place.server();
    for prompt in ["", " ", "\n\t "] {
        assert_refused(
            &mut client,
            "meerkat_run",
            &json!({ "prompt": prompt }),
            "INVALID_PARAMS",
            &["`prompt`"],
        );
    }
    assert_eq!(client.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }));
    let session = new_session(&mut client, "say hi");
    for arguments in [
        json!({ "session_id": session }),
        json!({ "session_id": session, "prompt": "" }),
        json!({ "session_id": session, "prompt": "  ", "tool_results": [] }),
    ] {
        assert_refused(&mut client, "meerkat_resume", &arguments, "INVALID_PARAMS", &["`prompt`"]);
    }
    assert_eq!(talk(&mut client, &session), said(&[("user", "say hi"), ("assistant", "hi")]));
}

#[test]
fn results_that_fit_no_pending_call_are_refused_and_change_nothing() {
    let place = Place::new();
    let mut client = place.server();
    let tool = json!({ "name": "f", "description": "d", "input_schema": { "type": "object" } });
    let prompt = "call f {\"n\": 1}\ncall f {\"n\": 2}\nthen\nsay done";
    let pending = client.expect_tool("meerkat_run", json!({ "prompt": prompt, "tools": [tool] }));
    let session = id_of(&pending);
    let calls = &pending["pending_tool_calls"];
    let [one, two] = [0, 1].map(|n: usize| calls[n]["tool_use_id"].as_str().expect("an id"));
    let before = talk(&mut client, &session);
    let results = |ids: &[&str]| {
        let results: Vec<_> = ids.iter().map(|id| json!({ "tool_use_id": id, "content": "x" })).collect();
        json!({ "session_id": session, "prompt": "", "tool_results": results })
    };
    for (ids, words) in [
        (vec!["nobody"], vec!["`nobody`", one, two]),
        (vec![one, "nobody", two], vec!["`nobody`"]),
        (vec![one, one, two], vec!["two results", one]),
        (vec![one], vec!["no result", two]),
        (vec![""], vec!["``"]),
    ] {
        assert_refused(&mut client, "meerkat_resume", &results(&ids), "INVALID_PARAMS", &words);
    }
    assert_eq!(talk(&mut client, &session), before, "a refused result changed the session");
    assert_eq!(text_of(&client.expect_tool("meerkat_resume", results(&[one, two]))), "done");
    let finished = ["none is pending"];
    assert_refused(&mut client, "meerkat_resume", &results(&[one]), "INVALID_PARAMS", &finished);
    let mut with_prompt = results(&[one]);
    with_prompt["prompt"] = json!("say more");
    assert_refused(&mut client, "meerkat_resume", &with_prompt, "INVALID_PARAMS", &finished);
    assert_answers(&mut client);
}

#[test]
fn tools_that_no_provider_would_take_are_refused() {
    let place = Place::new();
    let mut client = place.server();
    let tool = |name: &str| json!({ "name": name, "description": "d", "input_schema": { "type": "object" } });
    let long = "x".repeat(65);
    for name in ["", "two words", "é", &long] {
        let arguments = json!({ "prompt": "say hi", "tools": [tool("good"), tool(name)] });
        assert_refused(&mut client, "meerkat_run", &arguments, "INVALID_PARAMS", &["tools[1].name"]);
    }
    let twice = json!({ "prompt": "say hi", "tools": [tool("good"), tool("good")] });
    assert_refused(&mut client, "meerkat_run", &twice, "INVALID_PARAMS", &["tools[1].name", "good"]);
}

#[test]
fn an_output_schema_that_is_none_is_refused() {
    let place = Place::new();
    let mut client = place.server();
    for schema in
        [json!({ "type": 3 }), json!({ "type": "objekt" }), json!({ "schema": 5, "format": "meerkat_v1" })]
    {
        let arguments = json!({ "prompt": "say hi", "output_schema": schema });
        assert_refused(&mut client, "meerkat_run", &arguments, "INVALID_PARAMS", &["schema"]);
    }
    assert_eq!(client.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }));
}

#[test]
fn a_prompt_of_ten_megabytes_is_served() {
    let place = Place::new();
    let mut client = place.server();
    let prompt = format!("say ok\n{}", "0123456789abcde\n".repeat(10 * 1024 * 1024 / 16));
    let payload = client.expect_tool("meerkat_run", json!({ "prompt": prompt }));
    assert_eq!(text_of(&payload), "ok");
    let first = json!({ "session_id": id_of(&payload), "limit": 1 });
    let history = client.expect_tool("meerkat_history", first);
    // It is too long for a reply, which says where the whole is.
    let shown = history["messages"][0]["content"].as_str().expect("a prompt");
    assert!(shown.starts_with("say ok\n") && shown.len() < 200_000, "{} bytes are shown", shown.len());
    let blob =
        client.expect_tool("meerkat_blob_get", json!({ "blob_id": history["messages"][0]["blob_id"] }));
    let whole = base64::engine::general_purpose::STANDARD.decode(blob["data"].as_str().unwrap()).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    assert!(whole["content"] == prompt, "the prompt was not kept as it was");
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": id_of(&payload), "prompt": "say more" }));
    assert_eq!(text_of(&resumed), "more");
}

#[test]
fn a_line_over_the_limit_is_refused_and_the_next_one_is_read() {
    let place = Place::new();
    let mut client = place.server();
    let line = vec![b'x'; 33 * 1024 * 1024];
    client.send_raw(&line);
    client.send_raw(b"\n");
    assert_error(&mut client, &Value::Null, -32600, "longer than");
    assert_answers(&mut client);
}

#[test]
fn lines_that_are_no_messages_are_answered_with_a_reason() {
    let place = Place::new();
    let mut client = place.server();
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let batch = format!("[{ping},{ping}]");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [(&[u8], Value, i64, &str); 12] = [
        (b"hello", json!(null), -32700, "not JSON"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1", json!(null), -32700, "not JSON"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"x\":\"\xff\xfe\"}",
            json!(null),
            -32700,
            "not JSON",
        ),
        (b"\xff\xfe\xfd", json!(null), -32700, "not JSON"),
        (b"Content-Length: 40", json!(null), -32700, "not JSON"),
        (deep.as_bytes(), json!(null), -32600, "batch"),
        (batch.as_bytes(), json!(null), -32600, "batch"),
        (b"[]", json!(null), -32600, "batch"),
        (b"{}", json!(null), -32600, "JSON-RPC"),
        (b"42", json!(null), -32600, "JSON-RPC"),
        (b"{\"id\":9,\"method\":\"ping\"}", json!(9), -32600, "JSON-RPC"),
        (b"{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}", json!("a"), -32600, "JSON-RPC"),
    ];
    for (line, id, code, reason) in cases {
        client.send_raw(line);
        client.send_raw(b"\n");
        assert_error(&mut client, &id, code, reason);
    }
    client.send_raw(b"\n  \r\n\t\n");
    assert_answers(&mut client);
}

#[test]
fn lines_that_are_no_messages_do_not_spoil_the_handshake() {
    let place = Place::new();
    let mut client = place.silent_server();
    client.send_raw(b"garbage\n[]\n");
    assert_error(&mut client, &Value::Null, -32700, "not JSON");
    assert_error(&mut client, &Value::Null, -32600, "batch");
    client.notify("notifications/initialized", json!({}));
    client.notify("notifications/cancelled", json!({ "requestId": 1 }));
    assert!(client.request("initialize", crate::support::hello("2025-11-25"))["result"].is_object());
    client.notify("notifications/initialized", json!({}));
    assert_answers(&mut client);
}

#[test]
fn an_id_that_is_in_flight_is_not_taken_again() {
    let place = Place::new();
    let mut client = place.server();
    let (request, session) = long_run(&mut client);
    client.send(&json!({ "jsonrpc": "2.0", "id": request, "method": "ping" }));
    assert_error(&mut client, &json!(request), -32600, "in flight");
    client.expect_tool("meerkat_interrupt", json!({ "session_id": session }));
    assert_eq!(
        client.finish_tool(request).payload["code"],
        "REQUEST_CANCELLED",
        "the first request is answered"
    );
    client.send(&json!({ "jsonrpc": "2.0", "id": request, "method": "ping" }));
    assert_eq!(
        client.receive(),
        json!({ "jsonrpc": "2.0", "id": request, "result": {} }),
        "it is free again"
    );
}

#[test]
fn an_id_is_free_as_soon_as_its_answer_is_there() {
    let place = Place::new();
    let mut client = place.server();
    for _ in 0..500 {
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        assert_eq!(client.receive(), json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    }
}

#[test]
fn ids_may_be_strings() {
    let place = Place::new();
    let mut client = place.server();
    for id in [json!("a"), json!(""), json!("01890000-0000"), json!(0)] {
        client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        assert_eq!(client.receive(), json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
}

/// Waits for a protocol error. A notification may come before it.
fn assert_error(client: &mut McpClient, id: &Value, code: i64, reason: &str) {
    let mut reply = client.receive();
    while reply.get("method").is_some() {
        reply = client.receive();
    }
    assert_eq!((&reply["id"], &reply["error"]["code"]), (id, &json!(code)), "expected {reason:?}: {reply}");
    let message = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(reason), "no {reason:?} in {reply}");
}
