//! MCP protocol: handshake, lists, errors, order of replies, cancellation, and events.

use insta::assert_snapshot;
use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use super::support::{
    TestEnv, assert_answers, expected_messages, hello, id_of, long_run, new_session, read_messages, text_of,
    until_idle,
};

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Notification sent to every client for a new session.
const NEW_SESSION: &str = "notifications/resources/list_changed";

/// Waits for the next message, skipping notifications of new sessions.
fn next_message(client: &mut McpClient) -> Value {
    loop {
        let message = client.receive();
        if message["method"] != NEW_SESSION {
            return message;
        }
    }
}

#[test]
fn supported_versions_are_echoed() {
    let env = TestEnv::new();
    for version in VERSIONS {
        let mut client = env.silent_server();
        let reply = client.request("initialize", hello(version));
        assert_eq!(reply["result"]["protocolVersion"], version, "{reply}");
        assert_eq!(reply["result"]["serverInfo"]["name"], "rkat-mcp", "{reply}");
        assert!(reply["result"]["capabilities"]["tools"].is_object(), "{reply}");
        client.notify("notifications/initialized", json!({}));
        assert_answers(&mut client);
        assert_eq!(text_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say hi" }))), "hi");
    }
}

#[test]
fn unknown_version_gets_a_supported_one() {
    let env = TestEnv::new();
    for version in ["2026-07-28", "2099-01-01", "1999-01-01", "newest", ""] {
        let mut client = env.silent_server();
        let reply = client.request("initialize", hello(version));
        let negotiated = reply["result"]["protocolVersion"].as_str().unwrap_or_default();
        assert!(VERSIONS.contains(&negotiated), "asked for {version:?}: {reply}");
        client.notify("notifications/initialized", json!({}));
        assert_answers(&mut client);
    }
}

#[test]
fn ping_works_before_and_after_the_handshake() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    assert!(client.request("initialize", hello("2025-11-25"))["result"].is_object());
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    client.notify("notifications/initialized", json!({}));
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn discovery_may_precede_the_handshake() {
    let env = TestEnv::new();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "it", "version": "0" },
    });
    let mut client = env.silent_server();
    let found = client.request("server/discover", json!({ "_meta": meta }));
    let versions = found["result"]["supportedVersions"].to_string();
    assert!(versions.contains("2025-11-25"), "server/discover: {found}");
    let greeting = client.request("initialize", hello("2025-11-25"));
    assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25", "{greeting}");
    client.notify("notifications/initialized", json!({}));
    assert_answers(&mut client);
    assert_eq!(text_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say hi" }))), "hi");
}

#[test]
fn newest_revision_needs_no_handshake() {
    let env = TestEnv::new();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut client = env.silent_server();
    let listed = client.request("tools/list", json!({ "_meta": meta }));
    assert!(listed["result"]["tools"].is_array(), "tools/list without a handshake: {listed}");
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
    let arguments = json!({ "prompt": "say hi" });
    let params = json!({ "name": "meerkat_run", "arguments": arguments, "_meta": meta });
    let ran = client.request("tools/call", params);
    assert_eq!(text_of(&ran["result"]["structuredContent"]), "hi", "{ran}");
}

#[test]
fn self_contained_requests_may_precede_handshake() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let first = meerkat_testkit::web::modern("tools/list", json!({}), json!({}));
    assert_eq!(client.request("tools/list", first["params"].clone())["result"]["resultType"], "complete");
    let greeting = client.request("initialize", hello("2026-07-28"));
    assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25");
    let listed = client.request("tools/list", json!({}));
    assert!(listed["result"]["tools"].is_array() && listed["result"]["resultType"].is_null(), "{listed}");
    let again = client.request("tools/list", first["params"].clone());
    assert_eq!(again["result"]["resultType"], "complete");
}

#[test]
fn unexpected_response_is_ignored() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "result": {} }));
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "error": { "code": 1, "message": "no" } }));
    assert!(client.request("initialize", hello("2025-11-25"))["result"].is_object());
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "result": {} }));
    assert_answers(&mut client);
}

#[test]
fn old_revisions_can_run_and_resume() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let env = TestEnv::new();
        let mut client = env.silent_server();
        assert_eq!(client.request("initialize", hello(version))["result"]["protocolVersion"], version);
        client.notify("notifications/initialized", json!({}));
        let session = new_session(&mut client, "say one");
        let resumed =
            client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say two" }));
        assert_eq!(super::support::text_of(&resumed), "two");
    }
}

#[test]
fn requested_progress_has_messages() {
    let env = TestEnv::new();
    let mut client = env.server();
    let prompt = "wait 300\nsay a b";
    let params =
        json!({ "name": "meerkat_run", "arguments": { "prompt": prompt }, "_meta": { "progressToken": 5 } });
    client.request("tools/call", params);
    let reports: Vec<_> = client
        .notifications()
        .iter()
        .filter(|notice| notice["method"] == "notifications/progress")
        .map(|notice| &notice["params"])
        .collect();
    assert!(reports.len() >= 2, "{reports:?}");
    assert!(
        reports.iter().all(|notice| notice["progressToken"] == 5 && notice["message"].is_string()),
        "{reports:?}"
    );
    let numbers: Vec<_> = reports.iter().map(|notice| notice["progress"].as_f64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    let before = client.notifications().len();
    client.expect_tool("meerkat_run", json!({ "prompt": "say quiet" }));
    let later = &client.notifications()[before..];
    assert!(later.iter().all(|notice| notice["method"] == NEW_SESSION), "{later:?}");
}

#[test]
fn log_level_filters_messages() {
    let env = TestEnv::new();
    let mut client = env.server();
    let streamed = || json!({ "prompt": "say hi", "stream": true });
    let logged = |client: &McpClient| {
        client.notifications().iter().filter(|notice| notice["method"] == "notifications/message").count()
    };
    assert_eq!(client.request("logging/setLevel", json!({ "level": "error" }))["result"], json!({}));
    client.expect_tool("meerkat_run", streamed());
    assert_eq!(logged(&client), 0);
    client.request("logging/setLevel", json!({ "level": "debug" }));
    client.expect_tool("meerkat_run", streamed());
    assert!(logged(&client) > 0);
    assert_eq!(client.request("logging/setLevel", json!({ "level": "loud" }))["error"]["code"], -32602);
}

#[test]
fn self_contained_request_sets_its_log_level() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let run = json!({ "name": "meerkat_run", "arguments": { "prompt": "say hi", "stream": true } });
    let mut request = meerkat_testkit::web::modern("tools/call", run, json!({}))["params"].clone();
    client.request("tools/call", request.clone());
    assert!(client.notifications().is_empty(), "{:?}", client.notifications());
    request["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into();
    client.request("tools/call", request);
    assert!(client.notifications().iter().all(|notice| notice["method"] == "notifications/message"));
    assert!(!client.notifications().is_empty());
}

#[test]
fn lists_have_cache_hints_if_supported() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    for (method, fresh) in [
        ("tools/list", 60_000),
        ("prompts/list", 60_000),
        ("resources/templates/list", 60_000),
        ("resources/list", 0),
    ] {
        let params = meerkat_testkit::web::modern(method, json!({}), json!({}))["params"].clone();
        let result = client.request(method, params)["result"].clone();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(fresh), &json!("private")), "{method}");
    }
    client.request("initialize", hello("2025-11-25"));
    let listed = client.request("tools/list", json!({}))["result"].clone();
    assert!(listed.get("ttlMs").is_none() && listed.get("cacheScope").is_none());
    assert_eq!(client.request("tools/list", json!({ "cursor": "nonsense" }))["error"]["code"], -32602);
    assert_eq!(client.request("tools/list", json!({ "cursor": "" }))["result"], listed);
}

#[test]
fn tools_are_listed_in_fixed_order() {
    let env = TestEnv::new();
    let tools = tools(&mut env.server());
    let hints = |tool: &Value| {
        let annotations = &tool["annotations"];
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
            .map(|hint| {
                let set = annotations[hint].as_bool();
                let set = set.unwrap_or_else(|| panic!("{hint} is not set: {tool}"));
                if set { hint.trim_end_matches("Hint") } else { "-" }
            })
            .join(" ")
    };
    let lines: Vec<_> = tools
        .iter()
        .map(|tool| format!("{:<27}{:<26}{}", text(&tool["name"]), text(&tool["title"]), hints(tool)))
        .collect();
    assert_snapshot!(lines.join("\n"), @r"
    meerkat_run                Run an agent              - destructive - openWorld
    meerkat_resume             Continue a session        - destructive - openWorld
    meerkat_help               Ask about Meerkat         - destructive - openWorld
    meerkat_read               Read a session            readOnly - idempotent -
    meerkat_history            Read a session's history  readOnly - idempotent -
    meerkat_sessions           List sessions             readOnly - idempotent -
    meerkat_blob_get           Fetch a blob              readOnly - idempotent -
    meerkat_interrupt          Interrupt a run           - - idempotent -
    meerkat_archive            Archive a session         - destructive idempotent -
    meerkat_config             Read or change the config - - idempotent -
    meerkat_capabilities       List capabilities         readOnly - idempotent -
    meerkat_models_catalog     List models               readOnly - idempotent -
    meerkat_skills             List or inspect skills    readOnly - idempotent -
    meerkat_mcp_add            Add an MCP server         - - - openWorld
    meerkat_mcp_remove         Remove an MCP server      - destructive idempotent -
    meerkat_mcp_reload         Reconnect MCP servers     - - idempotent -
    meerkat_event_stream_open  Open an event stream      readOnly - idempotent -
    meerkat_event_stream_read  Read an event stream      readOnly - idempotent -
    meerkat_event_stream_close Close an event stream     - - idempotent -
    meerkat_generate_image     Generate an image         - - - openWorld
    skill                      Load Skill                readOnly - idempotent -
    ");
}

#[test]
fn tool_list_never_changes() {
    let env = TestEnv::new();
    let mut first = env.server();
    let listed = tools(&mut first);
    new_session(&mut first, "say hi");
    assert_eq!(tools(&mut first), listed, "after a run");
    assert_eq!(tools(&mut env.server()), listed, "in another process");
}

#[test]
fn tool_schemas_are_portable() {
    let env = TestEnv::new();
    for tool in tools(&mut env.server()) {
        let name = text(&tool["name"]);
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(name.len() <= 40 && name.bytes().all(fits), "{name}: a name some clients reject");
        assert!(text(&tool["description"]).len() > 40, "{name}: hardly a description");
        for kind in ["inputSchema", "outputSchema"] {
            let schema = &tool[kind];
            if (name, kind) == ("skill", "outputSchema") {
                // Its result is only text for the model.
                assert_eq!(*schema, Value::Null);
                continue;
            }
            assert_eq!(schema["type"], "object", "{name}: the root of {kind}");
            for union in ["anyOf", "oneOf", "allOf"] {
                assert!(schema.get(union).is_none(), "{name}: {kind} has {union} at its root");
            }
            let written = schema.to_string();
            assert!(!written.contains("\"$ref\""), "{name}: {kind} has references");
        }
        for (field, schema) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
            assert!(!text(&schema["description"]).is_empty(), "{name}: `{field}` is not described");
        }
    }
}

#[test]
fn replies_match_their_output_schemas() {
    let env = TestEnv::new();
    let mut client = env.server();
    let tools = tools(&mut client);
    let tool = json!({ "name": "f", "description": "d", "input_schema": { "type": "object" } });
    let pending = client.expect_tool("meerkat_run", json!({ "prompt": "call f", "tools": [tool] }));
    let session = new_session(&mut client, "say hi");
    let labelled =
        json!({ "prompt": "say hi", "labels": { "a": "b" }, "output_schema": { "type": "object" } });
    client.expect_tool("meerkat_run", labelled.clone());
    let (waiting, running) = long_run(&mut client);
    let calls = [
        ("meerkat_run", json!({ "prompt": "call f", "tools": [tool] })),
        ("meerkat_run", labelled),
        ("meerkat_resume", json!({ "session_id": session, "prompt": "say more" })),
        ("meerkat_read", json!({ "session_id": session })),
        ("meerkat_read", json!({ "session_id": id_of(&pending) })),
        ("meerkat_history", json!({ "session_id": id_of(&pending) })),
        ("meerkat_history", json!({ "session_id": session, "limit": 1 })),
        ("meerkat_sessions", json!({})),
        ("meerkat_interrupt", json!({ "session_id": running })),
        ("meerkat_archive", json!({ "session_id": session })),
        ("meerkat_sessions", json!({ "include_archived": true })),
        ("meerkat_config", json!({ "action": "get" })),
        ("meerkat_capabilities", json!({})),
    ];
    let mut violations = Vec::new();
    for (name, arguments) in calls {
        let reply = client.tool(name, arguments.clone());
        assert!(!reply.is_error, "{name} {arguments}: {}", reply.payload);
        assert_eq!(reply.result["structuredContent"], reply.payload, "{name}: text and structured content");
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("it is listed");
        let schema = jsonschema::validator_for(&tool["outputSchema"]).expect("a valid schema");
        let describe =
            |error: jsonschema::ValidationError<'_>| format!("{name}{}: {error}", error.instance_path());
        violations.extend(schema.iter_errors(&reply.payload).map(describe));
    }
    assert!(client.finish_tool(waiting).is_error, "the interrupted run");
    violations.sort();
    violations.dedup();
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn unknown_methods_and_tools_have_distinct_errors() {
    let env = TestEnv::new();
    let mut client = env.server();
    let mut code = |method: &str, params: Value| {
        let reply = client.request(method, params);
        let message = text(&reply["error"]["message"]).to_owned();
        assert!(!message.is_empty(), "{method}: the error has no message: {reply}");
        (reply["error"]["code"].as_i64().unwrap_or_default(), message)
    };
    assert_eq!(code("meerkat/run", json!({})).0, -32601);
    let (number, message) = code("tools/call", json!({ "name": "meerkat_fly", "arguments": {} }));
    assert_eq!(number, -32602);
    assert!(message.contains("meerkat_fly"), "{message}");
    for params in [json!({}), json!({ "name": 3 }), json!({ "name": "meerkat_run", "arguments": [1] })] {
        assert_eq!(code("tools/call", params.clone()).0, -32602, "{params}");
    }
    assert_answers(&mut client);
}

#[test]
fn quick_read_overtakes_slow_run() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say hi");
    let slow = client.begin_tool("meerkat_run", json!({ "prompt": "wait 1000\nsay slow" }));
    let quick = client.begin_tool("meerkat_read", json!({ "session_id": session }));
    let first = next_message(&mut client);
    assert_eq!(first["id"], quick, "the slow run blocked the read: {first}");
    assert_eq!(text_of(&client.finish_tool(slow).payload), "slow");
}

#[test]
fn cancelled_run_can_be_resumed() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (request, session) = long_run(&mut client);
    client.notify("notifications/cancelled", json!({ "requestId": request, "reason": "test" }));
    until_idle(&mut client, &session);
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say back" }));
    assert_eq!(text_of(&resumed), "back");
    let expected = expected_messages(&[
        ("user", "wait 60000"),
        ("assistant", ""),
        ("user", "say back"),
        ("assistant", "back"),
    ]);
    assert_eq!(read_messages(&mut client, &session), expected);
    // On exit, the server does not wait for a cancelled request either.
    assert!(client.close().success());
}

#[test]
fn cancellation_of_unknown_request_is_ignored() {
    let env = TestEnv::new();
    let mut client = env.server();
    let ended = client.begin_tool("meerkat_run", json!({ "prompt": "say done" }));
    assert_eq!(text_of(&client.finish_tool(ended).payload), "done");
    for request in [json!(ended), json!(999), json!("none")] {
        client.notify("notifications/cancelled", json!({ "requestId": request }));
    }
    client.notify("notifications/unknown", json!({ "x": 1 }));
    assert_answers(&mut client);
}

#[test]
fn streamed_events_precede_the_reply() {
    let env = TestEnv::new();
    let mut client = env.server();
    let request = client.begin_tool("meerkat_run", json!({ "prompt": "say a b", "stream": true }));
    let mut events = Vec::new();
    let reply = loop {
        let message = next_message(&mut client);
        if message["id"] == request {
            break message;
        }
        events.push(message);
    };
    let session = id_of(&reply["result"]["structuredContent"]);
    for (seq, event) in (1..).zip(&events) {
        assert_eq!(event["method"], "notifications/message", "{event}");
        assert_eq!(event["params"]["level"], "info", "{event}");
        let data = &event["params"]["data"];
        assert_eq!((&data["source"], &data["session_id"]), (&json!("meerkat"), &json!(session)), "{event}");
        let envelope = &data["event"];
        assert_eq!(envelope["source"], json!({ "type": "session", "session_id": session }), "{event}");
        assert_eq!(envelope["source_id"], format!("session:{session}"), "{event}");
        assert_eq!(envelope["seq"], seq, "{event}");
        assert!(envelope["event_id"].is_string() && envelope["timestamp_ms"].is_u64(), "{event}");
    }
    let kinds: Vec<_> =
        events.iter().map(|event| text(&event["params"]["data"]["event"]["payload"]["type"])).collect();
    assert_snapshot!(
        kinds.join(" "),
        @"run_started turn_started text_delta text_delta text_complete turn_completed run_completed"
    );
}

#[test]
fn help_is_never_streamed() {
    let env = TestEnv::new();
    let mut client = env.server();
    let arguments = json!({ "question": "How do I resume a session?", "stream": true, "verbose": true });
    let request = client.begin_tool("meerkat_help", arguments);
    let reply = next_message(&mut client);
    assert_eq!(reply["id"], request, "something came before the reply: {reply}");
    assert!(text_of(&reply["result"]["structuredContent"]).contains("meerkat_resume"), "{reply}");
    assert_eq!(env.log().lines().count(), 1, "{}", env.log());
}

#[test]
fn errors_name_tools_instead_of_commands() {
    let env = TestEnv::new();
    let mut client = env.server();
    let reply = client.tool("meerkat_run", json!({ "prompt": "hi", "model": "no-such-model" }));
    let message = "cannot use model `no-such-model`: unknown model; see meerkat_models_catalog";
    assert_eq!(
        (&reply.payload["code"], &reply.payload["message"]),
        (&json!("PROVIDER_ERROR"), &json!(message))
    );
}

#[test]
fn schemas_use_only_known_formats() {
    fn formats<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| formats(item, found)),
            Value::Object(object) => {
                found.extend(object.get("format").and_then(Value::as_str));
                object.values().for_each(|value| formats(value, found));
            }
            _ => {}
        }
    }
    let env = TestEnv::new();
    let tools = tools(&mut env.server());
    let mut found = Vec::new();
    for tool in &tools {
        formats(&tool["inputSchema"], &mut found);
        formats(&tool["outputSchema"], &mut found);
    }
    found.retain(|format| !["uuid", "date-time", "uri"].contains(format));
    assert_eq!(found, [""; 0]);
}

#[test]
fn unstreamed_run_sends_no_events() {
    let env = TestEnv::new();
    let mut client = env.server();
    for arguments in
        [json!({ "prompt": "say hi" }), json!({ "prompt": "say hi", "stream": false, "verbose": true })]
    {
        let request = client.begin_tool("meerkat_run", arguments.clone());
        let first = next_message(&mut client);
        assert_eq!(first["id"], request, "{arguments}: something came before the reply: {first}");
    }
}

#[test]
fn only_verbose_runs_are_logged() {
    let env = TestEnv::new();
    let mut client = env.server();
    let quiet = new_session(&mut client, "say quiet");
    let loud = id_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say loud", "verbose": true })));
    assert!(client.close().success());
    let log = env.log();
    assert!(!log.contains(&quiet), "a run that is not verbose is in the log: {log}");
    for kind in ["run_started", "text_complete", "run_completed"] {
        let line = log.lines().find(|line| line.contains(&loud) && line.contains(kind));
        assert!(line.is_some(), "no {kind} of {loud} in the log: {log}");
    }
}

#[test]
fn unread_log_does_not_block_requests() {
    let env = TestEnv::new();
    let mut command = env.command(&["--realm", "loud"]);
    let mut client = McpClient::start(command.stderr(std::process::Stdio::piped()));
    let prompt = format!("say {}", "word ".repeat(40_000));
    let requests: Vec<_> = (0..3)
        .map(|_| client.begin_tool("meerkat_run", json!({ "prompt": prompt, "verbose": true })))
        .collect();
    for request in requests {
        let reply = client.finish_tool(request);
        assert!(!reply.is_error, "{}", reply.payload);
    }
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

fn tools(client: &mut McpClient) -> Vec<Value> {
    let listed = client.request("tools/list", json!({}));
    listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("tools/list: {listed}")).clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
