//! The protocol: handshake, lists, errors, order of replies, cancellation, events.

use insta::assert_snapshot;
use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use crate::support::{
    Place, assert_answers, hello, id_of, long_run, new_session, said, talk, text_of, until_idle,
};

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// What every client is told when there is a new session.
const NEW_SESSION: &str = "notifications/resources/list_changed";

/// Waits for the next message that is not about a new session.
fn next_but_news(client: &mut McpClient) -> Value {
    loop {
        let message = client.receive();
        if message["method"] != NEW_SESSION {
            return message;
        }
    }
}

#[test]
fn every_version_we_support_is_echoed() {
    let place = Place::new();
    for version in VERSIONS {
        let mut client = place.silent_server();
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
fn a_version_we_do_not_know_is_answered_with_one_we_do() {
    let place = Place::new();
    for version in ["2026-07-28", "2099-01-01", "1999-01-01", "newest", ""] {
        let mut client = place.silent_server();
        let reply = client.request("initialize", hello(version));
        let offered = reply["result"]["protocolVersion"].as_str().unwrap_or_default();
        assert!(VERSIONS.contains(&offered), "asked for {version:?}: {reply}");
        client.notify("notifications/initialized", json!({}));
        assert_answers(&mut client);
    }
}

#[test]
fn a_ping_is_answered_before_and_after_the_handshake() {
    let place = Place::new();
    let mut client = place.silent_server();
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    assert!(client.request("initialize", hello("2025-11-25"))["result"].is_object());
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    client.notify("notifications/initialized", json!({}));
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_client_may_discover_first_and_shake_hands_then() {
    let place = Place::new();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "it", "version": "0" },
    });
    let mut client = place.silent_server();
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
fn a_client_of_the_newest_revision_needs_no_handshake() {
    let place = Place::new();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut client = place.silent_server();
    let listed = client.request("tools/list", json!({ "_meta": meta }));
    assert!(listed["result"]["tools"].is_array(), "tools/list without a handshake: {listed}");
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
    let arguments = json!({ "prompt": "say hi" });
    let params = json!({ "name": "meerkat_run", "arguments": arguments, "_meta": meta });
    let ran = client.request("tools/call", params);
    assert_eq!(text_of(&ran["result"]["structuredContent"]), "hi", "{ran}");
}

#[test]
fn a_client_may_shake_hands_after_requests_that_stand_for_themselves() {
    let place = Place::new();
    let mut client = place.silent_server();
    let first = crate::web::modern("tools/list", json!({}), json!({}));
    assert_eq!(client.request("tools/list", first["params"].clone())["result"]["resultType"], "complete");
    let greeting = client.request("initialize", hello("2026-07-28"));
    assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25");
    let listed = client.request("tools/list", json!({}));
    assert!(listed["result"]["tools"].is_array() && listed["result"]["resultType"].is_null(), "{listed}");
    let again = client.request("tools/list", first["params"].clone());
    assert_eq!(again["result"]["resultType"], "complete");
}

#[test]
fn an_answer_to_nothing_is_no_reason_to_end() {
    let place = Place::new();
    let mut client = place.silent_server();
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "result": {} }));
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "error": { "code": 1, "message": "no" } }));
    assert!(client.request("initialize", hello("2025-11-25"))["result"].is_object());
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "result": {} }));
    assert_answers(&mut client);
}

#[test]
fn a_client_of_an_old_revision_runs_and_resumes() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let place = Place::new();
        let mut client = place.silent_server();
        assert_eq!(client.request("initialize", hello(version))["result"]["protocolVersion"], version);
        client.notify("notifications/initialized", json!({}));
        let session = new_session(&mut client, "say one");
        let resumed =
            client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say two" }));
        assert_eq!(crate::support::text_of(&resumed), "two");
    }
}

#[test]
fn progress_is_told_in_words_to_who_asks_for_it() {
    let place = Place::new();
    let mut client = place.server();
    let prompt = "wait 300\nsay a b";
    let params =
        json!({ "name": "meerkat_run", "arguments": { "prompt": prompt }, "_meta": { "progressToken": 5 } });
    client.request("tools/call", params);
    let told: Vec<_> = client
        .notifications()
        .iter()
        .filter(|notice| notice["method"] == "notifications/progress")
        .map(|notice| &notice["params"])
        .collect();
    assert!(told.len() >= 2, "{told:?}");
    assert!(
        told.iter().all(|notice| notice["progressToken"] == 5 && notice["message"].is_string()),
        "{told:?}"
    );
    let numbers: Vec<_> = told.iter().map(|notice| notice["progress"].as_f64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    let before = client.notifications().len();
    client.expect_tool("meerkat_run", json!({ "prompt": "say quiet" }));
    let later = &client.notifications()[before..];
    assert!(later.iter().all(|notice| notice["method"] == NEW_SESSION), "{later:?}");
}

#[test]
fn a_client_says_how_much_of_the_log_it_wants() {
    let place = Place::new();
    let mut client = place.server();
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
fn a_request_that_stands_for_itself_is_logged_only_if_it_says_so() {
    let place = Place::new();
    let mut client = place.silent_server();
    let run = json!({ "name": "meerkat_run", "arguments": { "prompt": "say hi", "stream": true } });
    let mut request = crate::web::modern("tools/call", run, json!({}))["params"].clone();
    client.request("tools/call", request.clone());
    assert!(client.notifications().is_empty(), "{:?}", client.notifications());
    request["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into();
    client.request("tools/call", request);
    assert!(client.notifications().iter().all(|notice| notice["method"] == "notifications/message"));
    assert!(!client.notifications().is_empty());
}

#[test]
fn lists_say_how_long_they_may_be_kept_where_the_revision_has_it() {
    let place = Place::new();
    let mut client = place.silent_server();
    for (method, fresh) in [
        ("tools/list", 60_000),
        ("prompts/list", 60_000),
        ("resources/templates/list", 60_000),
        ("resources/list", 0),
    ] {
        let params = crate::web::modern(method, json!({}), json!({}))["params"].clone();
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
fn the_tools_are_these_in_this_order() {
    let place = Place::new();
    let tools = tools(&mut place.server());
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
    meerkat_generate_image     Make an image            - - - openWorld
    skill                      Load Skill                readOnly - idempotent -
    ");
}

#[test]
fn the_list_of_tools_never_changes() {
    let place = Place::new();
    let mut first = place.server();
    let listed = tools(&mut first);
    new_session(&mut first, "say hi");
    assert_eq!(tools(&mut first), listed, "after a run");
    assert_eq!(tools(&mut place.server()), listed, "in another process");
}

#[test]
fn every_tool_has_schemas_that_every_client_takes() {
    let place = Place::new();
    for tool in tools(&mut place.server()) {
        let name = text(&tool["name"]);
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(name.len() <= 40 && name.bytes().all(fits), "{name}: a name some clients refuse");
        assert!(text(&tool["description"]).len() > 40, "{name}: hardly a description");
        for kind in ["inputSchema", "outputSchema"] {
            let schema = &tool[kind];
            if (name, kind) == ("skill", "outputSchema") {
                // Its answer is text to follow, and nothing else.
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
fn every_reply_fits_the_output_schema_of_its_tool() {
    let place = Place::new();
    let mut client = place.server();
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
    let mut faults = Vec::new();
    for (name, arguments) in calls {
        let reply = client.tool(name, arguments.clone());
        assert!(!reply.is_error, "{name} {arguments}: {}", reply.payload);
        assert_eq!(reply.result["structuredContent"], reply.payload, "{name}: text and structured content");
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("it is listed");
        let schema = jsonschema::validator_for(&tool["outputSchema"]).expect("a valid schema");
        let fault =
            |error: jsonschema::ValidationError<'_>| format!("{name}{}: {error}", error.instance_path());
        faults.extend(schema.iter_errors(&reply.payload).map(fault));
    }
    assert!(client.finish_tool(waiting).is_error, "the interrupted run");
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_is_unknown_has_its_own_error() {
    let place = Place::new();
    let mut client = place.server();
    let mut code = |method: &str, params: Value| {
        let reply = client.request(method, params);
        let message = text(&reply["error"]["message"]).to_owned();
        assert!(!message.is_empty(), "{method} is answered without a reason: {reply}");
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
fn a_quick_read_is_answered_before_a_slow_run() {
    let place = Place::new();
    let mut client = place.server();
    let session = new_session(&mut client, "say hi");
    let slow = client.begin_tool("meerkat_run", json!({ "prompt": "wait 1000\nsay slow" }));
    let quick = client.begin_tool("meerkat_read", json!({ "session_id": session }));
    let first = next_but_news(&mut client);
    assert_eq!(first["id"], quick, "the slow run held up the read: {first}");
    assert_eq!(text_of(&client.finish_tool(slow).payload), "slow");
}

#[test]
fn a_cancelled_run_stops_and_its_session_goes_on() {
    let place = Place::new();
    let mut client = place.server();
    let (request, session) = long_run(&mut client);
    client.notify("notifications/cancelled", json!({ "requestId": request, "reason": "test" }));
    until_idle(&mut client, &session);
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say back" }));
    assert_eq!(text_of(&resumed), "back");
    let expected =
        said(&[("user", "wait 60000"), ("assistant", ""), ("user", "say back"), ("assistant", "back")]);
    assert_eq!(talk(&mut client, &session), expected);
    // A cancelled request is not waited for at the end either.
    assert!(client.close().success());
}

#[test]
fn a_cancellation_of_nothing_is_ignored() {
    let place = Place::new();
    let mut client = place.server();
    let ended = client.begin_tool("meerkat_run", json!({ "prompt": "say done" }));
    assert_eq!(text_of(&client.finish_tool(ended).payload), "done");
    for request in [json!(ended), json!(999), json!("none")] {
        client.notify("notifications/cancelled", json!({ "requestId": request }));
    }
    client.notify("notifications/nobody_knows", json!({ "x": 1 }));
    assert_answers(&mut client);
}

#[test]
fn a_streamed_run_sends_its_events_before_its_reply() {
    let place = Place::new();
    let mut client = place.server();
    let request = client.begin_tool("meerkat_run", json!({ "prompt": "say a b", "stream": true }));
    let mut events = Vec::new();
    let reply = loop {
        let message = next_but_news(&mut client);
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
fn a_question_is_never_streamed() {
    let place = Place::new();
    let mut client = place.server();
    let arguments = json!({ "question": "How do I resume a session?", "stream": true, "verbose": true });
    let request = client.begin_tool("meerkat_help", arguments);
    let reply = next_but_news(&mut client);
    assert_eq!(reply["id"], request, "something came before the reply: {reply}");
    assert!(text_of(&reply["result"]["structuredContent"]).contains("meerkat_resume"), "{reply}");
    assert_eq!(place.log().lines().count(), 1, "{}", place.log());
}

#[test]
fn an_error_names_tools_and_no_commands() {
    let place = Place::new();
    let mut client = place.server();
    let reply = client.tool("meerkat_run", json!({ "prompt": "hi", "model": "nobody-1" }));
    let message = "no model `nobody-1` can be used: nobody is known to serve it; meerkat_models_catalog lists the models";
    assert_eq!(
        (&reply.payload["code"], &reply.payload["message"]),
        (&json!("PROVIDER_ERROR"), &json!(message))
    );
}

#[test]
fn no_schema_names_a_format_that_validators_do_not_know() {
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
    let place = Place::new();
    let tools = tools(&mut place.server());
    let mut found = Vec::new();
    for tool in &tools {
        formats(&tool["inputSchema"], &mut found);
        formats(&tool["outputSchema"], &mut found);
    }
    found.retain(|format| !["uuid", "date-time", "uri"].contains(format));
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_run_that_is_not_streamed_sends_no_events() {
    let place = Place::new();
    let mut client = place.server();
    for arguments in
        [json!({ "prompt": "say hi" }), json!({ "prompt": "say hi", "stream": false, "verbose": true })]
    {
        let request = client.begin_tool("meerkat_run", arguments.clone());
        let first = next_but_news(&mut client);
        assert_eq!(first["id"], request, "{arguments}: something came before the reply: {first}");
    }
}

#[test]
fn a_verbose_run_is_logged_on_stderr_and_a_quiet_one_is_not() {
    let place = Place::new();
    let mut client = place.server();
    let quiet = new_session(&mut client, "say quiet");
    let loud = id_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say loud", "verbose": true })));
    assert!(client.close().success());
    let log = place.log();
    assert!(!log.contains(&quiet), "a run that is not verbose is in the log: {log}");
    for kind in ["run_started", "text_complete", "run_completed"] {
        let line = log.lines().find(|line| line.contains(&loud) && line.contains(kind));
        assert!(line.is_some(), "no {kind} of {loud} in the log: {log}");
    }
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let place = Place::new();
    let mut command = place.command(&["--realm", "loud"]);
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
