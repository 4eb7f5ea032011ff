//! Invalid input over stdio. Every case is answered with a reason, and the server continues.

use base64::Engine as _;
use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use super::support::{
    TestEnv, UNKNOWN_SESSION, assert_answers, expected_messages, id_of, long_run, new_session, read_messages,
    text_of,
};

/// Asserts that a tool call fails with this code and a message that contains these words.
fn assert_rejected(client: &mut McpClient, name: &str, arguments: &Value, code: &str, words: &[&str]) {
    let reply = client.tool(name, arguments.clone());
    let excerpt = arguments.to_string();
    let excerpt = excerpt.get(..200).unwrap_or(&excerpt);
    assert!(reply.is_error, "{name} {excerpt} was accepted: {}", reply.payload);
    assert_eq!(reply.payload["code"], code, "{name} {excerpt}: {}", reply.payload);
    let message = reply.payload["message"].as_str().unwrap_or_default();
    for word in words {
        assert!(message.contains(word), "{name} {excerpt}: no `{word}` in {message:?}");
    }
}

#[test]
fn every_tool_reports_an_unknown_session() {
    let env = TestEnv::new();
    let mut client = env.server();
    for tool in ["meerkat_resume", "meerkat_read", "meerkat_history", "meerkat_interrupt", "meerkat_archive"]
    {
        let arguments = json!({ "session_id": UNKNOWN_SESSION, "prompt": "say hi" });
        assert_rejected(&mut client, tool, &arguments, "SESSION_NOT_FOUND", &[UNKNOWN_SESSION]);
    }
    assert_answers(&mut client);
}

#[test]
fn every_tool_rejects_malformed_session_ids() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say hi");
    let long = "0".repeat(10_000);
    let bad =
        ["", " ", "nope", "01890000-0000-7000-8000", "../../etc/passwd", "\u{0}", &long, &session[..35]];
    for tool in ["meerkat_resume", "meerkat_read", "meerkat_history", "meerkat_interrupt", "meerkat_archive"]
    {
        for id in bad {
            let arguments = json!({ "session_id": id, "prompt": "say hi" });
            assert_rejected(&mut client, tool, &arguments, "INVALID_PARAMS", &["session id"]);
        }
    }
    assert_answers(&mut client);
}

#[test]
fn empty_prompt_is_rejected_without_side_effects() {
    let env = TestEnv::new();
    let mut client = env.server();
    for prompt in ["", " ", "\n\t "] {
        assert_rejected(
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
        assert_rejected(&mut client, "meerkat_resume", &arguments, "INVALID_PARAMS", &["`prompt`"]);
    }
    assert_eq!(
        read_messages(&mut client, &session),
        expected_messages(&[("user", "say hi"), ("assistant", "hi")])
    );
}

#[test]
fn results_for_unknown_calls_are_rejected() {
    let env = TestEnv::new();
    let mut client = env.server();
    let tool = json!({ "name": "f", "description": "d", "input_schema": { "type": "object" } });
    let prompt = "call f {\"n\": 1}\ncall f {\"n\": 2}\nthen\nsay done";
    let pending = client.expect_tool("meerkat_run", json!({ "prompt": prompt, "tools": [tool] }));
    let session = id_of(&pending);
    let calls = &pending["pending_tool_calls"];
    let [one, two] = [0, 1].map(|n: usize| calls[n]["tool_use_id"].as_str().expect("an id"));
    let before = read_messages(&mut client, &session);
    let results = |ids: &[&str]| {
        let results: Vec<_> = ids.iter().map(|id| json!({ "tool_use_id": id, "content": "x" })).collect();
        json!({ "session_id": session, "prompt": "", "tool_results": results })
    };
    for (ids, words) in [
        (vec!["unknown"], vec!["`unknown`", one, two]),
        (vec![one, "unknown", two], vec!["`unknown`"]),
        (vec![one, one, two], vec!["two results", one]),
        (vec![one], vec!["no result", two]),
        (vec![""], vec!["``"]),
    ] {
        assert_rejected(&mut client, "meerkat_resume", &results(&ids), "INVALID_PARAMS", &words);
    }
    assert_eq!(read_messages(&mut client, &session), before, "a rejected result changed the session");
    assert_eq!(text_of(&client.expect_tool("meerkat_resume", results(&[one, two]))), "done");
    let finished = ["none is pending"];
    assert_rejected(&mut client, "meerkat_resume", &results(&[one]), "INVALID_PARAMS", &finished);
    let mut with_prompt = results(&[one]);
    with_prompt["prompt"] = json!("say more");
    assert_rejected(&mut client, "meerkat_resume", &with_prompt, "INVALID_PARAMS", &finished);
    assert_answers(&mut client);
}

#[test]
fn invalid_tool_names_are_rejected() {
    let env = TestEnv::new();
    let mut client = env.server();
    let tool = |name: &str| json!({ "name": name, "description": "d", "input_schema": { "type": "object" } });
    let long = "x".repeat(65);
    for name in ["", "two words", "é", &long] {
        let arguments = json!({ "prompt": "say hi", "tools": [tool("good"), tool(name)] });
        assert_rejected(&mut client, "meerkat_run", &arguments, "INVALID_PARAMS", &["tools[1].name"]);
    }
    let twice = json!({ "prompt": "say hi", "tools": [tool("good"), tool("good")] });
    assert_rejected(&mut client, "meerkat_run", &twice, "INVALID_PARAMS", &["tools[1].name", "good"]);
}

#[test]
fn invalid_output_schema_is_rejected() {
    let env = TestEnv::new();
    let mut client = env.server();
    for schema in
        [json!({ "type": 3 }), json!({ "type": "objekt" }), json!({ "schema": 5, "format": "meerkat_v1" })]
    {
        let arguments = json!({ "prompt": "say hi", "output_schema": schema });
        assert_rejected(&mut client, "meerkat_run", &arguments, "INVALID_PARAMS", &["schema"]);
    }
    assert_eq!(client.expect_tool("meerkat_sessions", json!({})), json!({ "sessions": [] }));
}

#[test]
fn errors_quote_only_the_start_of_a_value() {
    let env = TestEnv::new();
    let mut client = env.server();
    let long = "long \u{7}".repeat(60_000);
    let requests = [
        ("tools/call", json!({ "name": long })),
        ("prompts/get", json!({ "name": long })),
        ("resources/read", json!({ "uri": long })),
        ("resources/read", json!({ "uri": format!("skill://{long}/SKILL.md") })),
        ("resources/read", json!({ "uri": format!("iii://{long}") })),
        ("resources/read", json!({ "uri": format!("iii://a/{long}") })),
        ("resources/read", json!({ "uri": format!("iii://a/b/{long}") })),
        (
            "tools/call",
            json!({ "name": "meerkat_run", "arguments": { "prompt": "hi", "output_schema": { "type": long } } }),
        ),
        ("tools/call", json!({ "name": "meerkat_read", "arguments": { "session_id": long } })),
        ("tools/call", json!({ "name": "meerkat_run", "arguments": { "prompt": "say hi", "model": long } })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/resource", "uri": long }, "argument": { "name": "x", "value": "" } }),
        ),
        (&long, json!({})),
    ];
    for (method, params) in requests {
        let reply = client.request(method, params);
        let message = reply["error"]["message"].as_str().or(reply["result"]["content"][0]["text"].as_str());
        let message = message.expect("an error").to_owned();
        let name = method.get(..20).unwrap_or(method);
        assert!(message.contains("long ") && message.contains('…'), "{name}: {message:.300}");
        let reply = reply.to_string();
        // A control character is escaped in a text, and its backslash in JSON.
        let has_control = reply.replace(r"\\u0007", "").contains(r"\u0007");
        assert!(reply.len() < 3000 && !has_control, "{name}: {} bytes: {reply:.300}", reply.len());
    }
    assert_answers(&mut client);
}

#[test]
fn ten_megabyte_prompt_is_served() {
    let env = TestEnv::new();
    let mut client = env.server();
    let prompt = format!("say ok\n{}", "0123456789abcde\n".repeat(10 * 1024 * 1024 / 16));
    let payload = client.expect_tool("meerkat_run", json!({ "prompt": prompt }));
    assert_eq!(text_of(&payload), "ok");
    let first = json!({ "session_id": id_of(&payload), "limit": 1 });
    let history = client.expect_tool("meerkat_history", first);
    // The prompt is too long for a reply, which names the blob with the full text.
    let truncated = history["messages"][0]["content"].as_str().expect("a prompt");
    assert!(truncated.starts_with("say ok\n") && truncated.len() < 200_000, "{} bytes", truncated.len());
    let blob =
        client.expect_tool("meerkat_blob_get", json!({ "blob_id": history["messages"][0]["blob_id"] }));
    let full = base64::engine::general_purpose::STANDARD.decode(blob["data"].as_str().unwrap()).unwrap();
    let full: Value = serde_json::from_slice(&full).unwrap();
    assert!(full["content"] == prompt, "the stored prompt was changed");
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": id_of(&payload), "prompt": "say more" }));
    assert_eq!(text_of(&resumed), "more");
}

#[test]
fn oversized_line_is_rejected_and_next_one_read() {
    let env = TestEnv::new();
    let mut client = env.server();
    let line = vec![b'x'; 33 * 1024 * 1024];
    client.send_raw(&line);
    client.send_raw(b"\n");
    assert_error(&mut client, &Value::Null, -32600, "longer than");
    // Some clients send the id first, others last.
    for (id, start, end) in [
        (json!(7), r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":""#, "\"}}\n"),
        (json!("b"), r#"{"method":"ping","params":{"a":""#, "\"},\"jsonrpc\":\"2.0\",\"id\":\"b\"}\n"),
    ] {
        client.send_raw(start.as_bytes());
        client.send_raw(&line);
        client.send_raw(end.as_bytes());
        assert_error(&mut client, &id, -32600, "longer than");
    }
    assert_answers(&mut client);
}

#[test]
fn invalid_lines_are_answered_with_errors() {
    let env = TestEnv::new();
    let mut client = env.server();
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let batch = format!("[{ping},{ping}]");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested = format!("{{\"id\":7,\"params\":{}}}", &deep);
    let cases: [(&[u8], Value, i64, &str); 16] = [
        (b"hello", json!(null), -32700, "not JSON"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1", json!(null), -32700, "not JSON"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"x\":\"\xff\xfe\"}",
            json!(7),
            -32700,
            "not JSON",
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\\ud800\"}", json!(7), -32700, "hex escape"),
        (b"{\"params\":{\"a\":1e400},\"id\":\"b\"}", json!("b"), -32700, "number out of range"),
        (b"{\"params\":{\"a\":NaN},\"id\":8}", json!(8), -32700, "not JSON"),
        (nested.as_bytes(), json!(7), -32700, "recursion limit"),
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
fn invalid_lines_do_not_break_the_handshake() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    client.send_raw(b"garbage\n[]\n");
    assert_error(&mut client, &Value::Null, -32700, "not JSON");
    assert_error(&mut client, &Value::Null, -32600, "batch");
    client.notify("notifications/initialized", json!({}));
    client.notify("notifications/cancelled", json!({ "requestId": 1 }));
    assert!(client.request("initialize", super::support::hello("2025-11-25"))["result"].is_object());
    client.notify("notifications/initialized", json!({}));
    assert_answers(&mut client);
}

#[test]
fn in_flight_id_cannot_be_reused() {
    let env = TestEnv::new();
    let mut client = env.server();
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
        "the id can be reused"
    );
}

#[test]
fn id_is_reusable_after_its_response() {
    let env = TestEnv::new();
    let mut client = env.server();
    for _ in 0..500 {
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        assert_eq!(client.receive(), json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    }
}

#[test]
fn ids_may_be_strings() {
    let env = TestEnv::new();
    let mut client = env.server();
    for id in [json!("a"), json!(""), json!("01890000-0000"), json!(0)] {
        client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        assert_eq!(client.receive(), json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
}

/// Asserts that the next response is a protocol error, skipping notifications.
fn assert_error(client: &mut McpClient, id: &Value, code: i64, reason: &str) {
    let mut reply = client.receive();
    while reply.get("method").is_some() {
        reply = client.receive();
    }
    assert_eq!((&reply["id"], &reply["error"]["code"]), (id, &json!(code)), "expected {reason:?}: {reply}");
    let message = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(reason), "no {reason:?} in {reply}");
}
