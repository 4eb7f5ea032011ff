//! Sessions: the examples of the MCP page, sent verbatim, and their replies.

use meerkat_testkit::{McpClient, eventually};
use serde_json::{Value, json};

use super::support::{
    TestEnv, UNKNOWN_SESSION, expected_messages, id_of, long_run, new_session, read_messages, redacted,
    running_session, text_of, until_idle,
};

const ABOUT: &str =
    "I am Meerkat's offline model: no API key is configured, and I make no network calls. You said: “";

fn read_file() -> Value {
    json!({
        "name": "read_file",
        "description": "Read a file from disk",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"]
        },
        "handler": "callback"
    })
}

/// Starts a session that waits for a result of `read_file`. Returns its payload.
fn pending_run(client: &mut McpClient) -> Value {
    let prompt = "call read_file {\"path\": \"/tmp/data.txt\"}\nthen\nsay thank you";
    client.expect_tool("meerkat_run", json!({ "prompt": prompt, "tools": [read_file()] }))
}

#[test]
fn minimal_run_has_the_documented_shape() {
    let env = TestEnv::new();
    let reply = env.server().tool("meerkat_run", json!({ "prompt": "Write a haiku about Rust" }));
    assert!(!reply.is_error, "{}", reply.payload);
    let blocks = reply.result["content"].as_array().expect("content");
    assert_eq!((blocks.len(), &blocks[0]["type"]), (1, &json!("text")), "{}", reply.result);
    assert!(text_of(&reply.payload).starts_with(ABOUT), "{}", reply.payload);
    let mut payload = reply.payload;
    payload["content"][0]["text"] = json!("Agent response here");
    payload["usage"] = json!({});
    // The documented fields come first and in the documented order.
    assert_eq!(
        redacted(&payload).to_string(),
        r#"{"content":[{"type":"text","text":"Agent response here"}],"session_id":"[uuid]","turns":1,"tool_calls":0,"structured_output":null,"schema_warnings":null,"extraction_error":null,"session_ref":"test:[uuid]","model":"offline","usage":{}}"#
    );
}

#[test]
fn full_run_is_served() {
    let env = TestEnv::new();
    let payload = env.server().expect_tool(
        "meerkat_run",
        json!({
            "prompt": "Analyze this code for bugs",
            "system_prompt": "You are a senior code reviewer.",
            "model": null,
            "max_tokens": 4096,
            "provider": null,
            "output_schema": {
                "type": "object",
                "properties": {
                    "bugs": {"type": "array", "items": {"type": "string"}},
                    "severity": {"type": "string"}
                },
                "required": ["bugs", "severity"]
            },
            "structured_output_retries": 2,
            "stream": false,
            "verbose": false,
            "tools": [read_file()],
            "enable_builtins": false,
            "builtin_config": {
                "enable_shell": false,
                "shell_timeout_secs": 30
            },
            "keep_alive": null,
            "comms_name": null,
            "hooks_override": null
        }),
    );
    assert!(text_of(&payload).contains("Analyze this code for bugs"), "{payload}");
    assert_eq!(payload["structured_output"], json!({ "bugs": [], "severity": "" }), "{payload}");
    let counts = (&payload["turns"], &payload["tool_calls"], &payload["schema_warnings"]);
    assert_eq!(counts, (&json!(2), &json!(0), &Value::Null), "{payload}");
}

#[test]
fn invalid_structured_output_keeps_text_and_error() {
    let env = TestEnv::new();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let prompt = "say the text\njson {\"n\": \"many\"}";
    let arguments = json!({ "prompt": prompt, "output_schema": schema, "structured_output_retries": 1 });
    let payload = env.server().expect_tool("meerkat_run", arguments);
    assert_eq!((text_of(&payload), &payload["structured_output"]), ("the text", &Value::Null), "{payload}");
    assert_eq!(payload["extraction_error"]["attempts"], 2, "{payload}");
    assert_eq!(payload["extraction_error"]["last_output"], "{\"n\": \"many\"}", "{payload}");
}

#[test]
fn pending_call_has_the_documented_shape() {
    let env = TestEnv::new();
    let mut client = env.server();
    let pending = pending_run(&mut client);
    assert_eq!(
        redacted(&pending).to_string(),
        r#"{"content":[{"type":"text","text":"Agent is waiting for tool results"}],"session_id":"[uuid]","status":"pending_tool_call","pending_tool_calls":[{"tool_use_id":"call_1","tool_name":"read_file","args":{"path":"/tmp/data.txt"}}],"session_ref":"test:[uuid]","model":"offline","usage":{"input_tokens":76,"output_tokens":9}}"#
    );
    let session = id_of(&pending);
    let state = client.expect_tool("meerkat_read", json!({ "session_id": session }))["state"].clone();
    assert_eq!(
        (&state["is_active"], &state["pending_tool_calls"]),
        (&json!(false), &pending["pending_tool_calls"])
    );
    let resumed = client.expect_tool(
        "meerkat_resume",
        json!({
            "session_id": session,
            "prompt": "",
            "stream": false,
            "verbose": false,
            "tools": [],
            "tool_results": [
                {
                    "tool_use_id": pending["pending_tool_calls"][0]["tool_use_id"],
                    "content": "File contents here...",
                    "is_error": false
                }
            ],
            "enable_builtins": false,
            "builtin_config": null,
            "keep_alive": null,
            "comms_name": null,
            "model": null,
            "max_tokens": null,
            "provider": null,
            "hooks_override": null
        }),
    );
    assert_eq!(text_of(&resumed), "thank you");
    assert_eq!(
        (id_of(&resumed), &resumed["turns"], &resumed["tool_calls"]),
        (session.clone(), &json!(1), &json!(1))
    );
    let results = json!([{ "tool_use_id": "call_1", "content": "File contents here...", "is_error": false }]);
    let history = client.expect_tool("meerkat_history", json!({ "session_id": session }));
    assert_eq!(history["messages"][2]["results"], results, "{history}");
}

#[test]
fn callback_results_may_arrive_in_any_order() {
    let env = TestEnv::new();
    let mut client = env.server();
    let prompt = "call read_file {\"path\":\"a\"}\ncall read_file {\"path\":\"b\"}";
    let pending = client.expect_tool("meerkat_run", json!({ "prompt": prompt, "tools": [read_file()] }));
    let calls = pending["pending_tool_calls"].as_array().expect("calls");
    let paths: Vec<_> = calls.iter().map(|call| &call["args"]["path"]).collect();
    assert_eq!(paths, ["a", "b"], "{pending}");
    let result = |call: &Value, content: &str, is_error: bool| json!({ "tool_use_id": call["tool_use_id"], "content": content, "is_error": is_error });
    let results = json!([result(&calls[1], "no such file", true), result(&calls[0], "one", false)]);
    let arguments = json!({ "session_id": id_of(&pending), "prompt": "", "tool_results": results });
    let resumed = client.expect_tool("meerkat_resume", arguments);
    assert_eq!(text_of(&resumed), "read_file → one\nread_file failed → no such file");
    assert_eq!(resumed["tool_calls"], 2);
}

#[test]
fn prompt_supersedes_pending_calls() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = id_of(&pending_run(&mut client));
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say never mind" }));
    assert_eq!(text_of(&resumed), "never mind");
    let history = client.expect_tool("meerkat_history", json!({ "session_id": session }));
    let roles: Vec<_> =
        history["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "block_assistant", "tool_results", "user", "block_assistant"], "{history}");
    let result = &history["messages"][2]["results"][0];
    assert_eq!((&result["tool_use_id"], &result["is_error"]), (&json!("call_1"), &json!(true)), "{history}");
    assert!(result["content"].to_string().contains("superseded"), "{history}");
}

#[test]
fn session_resumes_in_another_process() {
    let env = TestEnv::new();
    let mut first = env.server();
    let session = new_session(&mut first, "say one");
    assert!(first.close().success());
    let mut second = env.server();
    let arguments = json!({ "session_id": session, "prompt": "Continue with this" });
    let resumed = second.expect_tool("meerkat_resume", arguments);
    assert!(text_of(&resumed).contains("Continue with this"), "{resumed}");
    assert_eq!((id_of(&resumed), &resumed["turns"]), (session.clone(), &json!(1)));
    let lines = read_messages(&mut second, &session);
    assert_eq!(
        lines[..3],
        expected_messages(&[("user", "say one"), ("assistant", "one"), ("user", "Continue with this")])
    );
}

#[test]
fn pending_calls_survive_a_restart() {
    let env = TestEnv::new();
    let mut first = env.server();
    let pending = pending_run(&mut first);
    assert!(first.close().success());
    let results = json!([{ "tool_use_id": "call_1", "content": "x" }]);
    let arguments = json!({ "session_id": id_of(&pending), "prompt": "", "tool_results": results });
    assert_eq!(text_of(&env.server().expect_tool("meerkat_resume", arguments)), "thank you");
}

#[test]
fn failed_first_run_names_its_session() {
    let env = TestEnv::new();
    let mut client = env.server();
    let reply = client.tool("meerkat_run", json!({ "prompt": "fail auth" }));
    assert_eq!((reply.is_error, &reply.payload["code"]), (true, &json!("AGENT_ERROR")), "{}", reply.payload);
    assert!(reply.result.get("structuredContent").is_none(), "{}", reply.result);
    let data = redacted(&reply.payload["data"]);
    assert_eq!(
        (&data["session_id"], &data["session_ref"], &data["session_created"], &data["resumable"]),
        (&json!("[uuid]"), &json!("test:[uuid]"), &json!(true), &json!(true)),
        "{}",
        reply.payload
    );
    let session = id_of(&reply.payload["data"]);
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say again" }));
    assert_eq!(text_of(&resumed), "again");
}

#[test]
fn history_is_read_in_pages() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say 1");
    for number in 2..=3 {
        let arguments = json!({ "session_id": session, "prompt": format!("say {number}") });
        client.expect_tool("meerkat_resume", arguments);
    }
    // offset, limit → offset in the reply, has_more, text of each message.
    let pages = [
        (json!({}), 0, false, vec!["say 1", "1", "say 2", "2", "say 3", "3"]),
        (json!({ "offset": null, "limit": null }), 0, false, vec!["say 1", "1", "say 2", "2", "say 3", "3"]),
        (json!({ "limit": 2 }), 0, true, vec!["say 1", "1"]),
        (json!({ "offset": 2, "limit": 3 }), 2, true, vec!["say 2", "2", "say 3"]),
        (json!({ "offset": 4, "limit": 2 }), 4, false, vec!["say 3", "3"]),
        (json!({ "offset": 5 }), 5, false, vec!["3"]),
        (json!({ "offset": 900, "limit": 5 }), 6, false, vec![]),
        (json!({ "limit": 0 }), 0, true, vec![]),
        (json!({ "offset": u64::MAX, "limit": u64::MAX }), 6, false, vec![]),
    ];
    for (mut arguments, offset, has_more, expected) in pages {
        let limit = arguments.get("limit").filter(|limit| !limit.is_null()).cloned();
        arguments["session_id"] = json!(session);
        let page = client.expect_tool("meerkat_history", arguments.clone());
        let messages = page["messages"].as_array().unwrap();
        let text = |message: &Value| {
            message["content"].as_str().or(message["blocks"][0]["data"]["text"].as_str()).map(str::to_owned)
        };
        let texts: Vec<_> = messages.iter().filter_map(text).collect();
        assert_eq!(texts, expected, "{arguments}");
        assert_eq!(page["message_count"], 6, "{arguments}");
        assert_eq!((&page["offset"], &page["has_more"]), (&json!(offset), &json!(has_more)), "{arguments}");
        assert_eq!(page.get("limit").cloned(), limit, "{arguments}");
    }
}

#[test]
fn history_messages_have_the_documented_shape() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "think hm\nsay hi");
    let history = client.expect_tool("meerkat_history", json!({ "session_id": session }));
    assert_eq!(
        redacted(&history),
        json!({
            "session_id": "[uuid]",
            "session_ref": "test:[uuid]",
            "message_count": 2,
            "offset": 0,
            "has_more": false,
            "messages": [
                { "role": "user", "content": "think hm\nsay hi", "created_at": "[time]" },
                {
                    "role": "block_assistant",
                    "blocks": [
                        { "block_type": "reasoning", "data": { "text": "hm" } },
                        { "block_type": "text", "data": { "text": "hi" } },
                    ],
                    "stop_reason": "end_turn",
                    "created_at": "[time]",
                },
            ],
        })
    );
}

#[test]
fn sessions_are_filtered_and_paged_newest_first() {
    let env = TestEnv::new();
    let mut client = env.server();
    let label = [("one", "x"), ("two", "x"), ("three", "y"), ("four", "x")];
    let ids: Vec<_> = label
        .iter()
        .map(|(name, team)| {
            let labels = json!({ "name": name, "team": team });
            id_of(&client.expect_tool("meerkat_run", json!({ "prompt": "say hi", "labels": labels })))
        })
        .collect();
    let [one, two, three, four] = [0, 1, 2, 3].map(|index: usize| ids[index].as_str());
    client.expect_tool("meerkat_archive", json!({ "session_id": two }));
    client.expect_tool("meerkat_resume", json!({ "session_id": one, "prompt": "say more" }));
    let cases = [
        (json!({}), vec![one, four, three]),
        (
            json!({ "limit": null, "offset": null, "labels": null, "include_archived": null }),
            vec![one, four, three],
        ),
        (json!({ "labels": { "team": "x" } }), vec![one, four]),
        (json!({ "labels": { "team": "x", "name": "four" } }), vec![four]),
        (json!({ "labels": { "team": "z" } }), vec![]),
        (json!({ "limit": 2 }), vec![one, four]),
        (json!({ "offset": 1, "limit": 1 }), vec![four]),
        (json!({ "offset": 9 }), vec![]),
        (json!({ "labels": { "team": "x" }, "offset": 1 }), vec![four]),
    ];
    for (arguments, expected) in cases {
        assert_eq!(list_sessions(&mut client, &arguments), expected, "{arguments}");
    }
    let mut all = list_sessions(&mut client, &json!({ "include_archived": true }));
    all.sort_unstable();
    assert_eq!(all, ids, "with archived ones");
    let mut team =
        list_sessions(&mut client, &json!({ "include_archived": true, "labels": { "team": "x" } }));
    team.sort_unstable();
    assert_eq!(team, [one, two, four], "archived ones of a team");
    let entry = client.expect_tool("meerkat_sessions", json!({ "limit": 1 }))["sessions"][0].clone();
    let mut entry = redacted(&entry);
    assert!(entry["total_tokens"].take().as_u64().is_some_and(|tokens| tokens > 0));
    assert_eq!(
        entry,
        json!({
            "session_id": "[uuid]",
            "session_ref": "test:[uuid]",
            "created_at": "[unix]",
            "updated_at": "[unix]",
            "message_count": 4,
            "total_tokens": null,
            "is_active": false,
            "labels": { "name": "one", "team": "x" },
        })
    );
}

#[test]
fn active_session_is_read_without_waiting() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (request, session) = long_run(&mut client);
    let state = client.expect_tool("meerkat_read", json!({ "session_id": session }))["state"].clone();
    assert_eq!(
        redacted(&state),
        json!({
            "session_id": "[uuid]",
            "created_at": "[unix]",
            "updated_at": "[unix]",
            "message_count": 1,
            "is_active": true,
            "model": "offline",
            "provider": "other",
            "last_assistant_text": null,
            "archived": false,
        })
    );
    assert_eq!(
        read_messages(&mut client, &session),
        expected_messages(&[("user", "wait 60000")]),
        "committed messages are available"
    );
    client.expect_tool("meerkat_interrupt", json!({ "session_id": session }));
    assert!(client.finish_tool(request).is_error);
    let read = client.expect_tool("meerkat_read", json!({ "session_id": session }));
    assert_eq!(
        (&read["state"]["is_active"], &read["billing"]["total_tokens"]),
        (&json!(false), &json!(0)),
        "{read}"
    );
}

#[test]
fn interrupted_answer_is_in_the_history() {
    for cancels in [false, true] {
        let env = TestEnv::new();
        let mut client = env.server();
        let prompt = "say Once upon a\nwait 60000";
        let request = client.begin_tool("meerkat_run", json!({ "prompt": prompt }));
        let session = running_session(&mut client);
        let open = json!({ "session_id": session, "after": 0 });
        let stream = client.expect_tool("meerkat_event_stream_open", open)["stream_id"].clone();
        eventually("text is streamed", || {
            let read = json!({ "stream_id": stream, "timeout_ms": 1000, "limit": 100 });
            client.expect_tool("meerkat_event_stream_read", read).to_string().contains("text_delta")
        });
        if cancels {
            client.notify("notifications/cancelled", json!({ "requestId": request }));
        } else {
            client.expect_tool("meerkat_interrupt", json!({ "session_id": session }));
        }
        until_idle(&mut client, &session);
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say back" }));
        let history = client.expect_tool("meerkat_history", json!({ "session_id": session }));
        let answer = &history["messages"][1];
        let blocks = json!([{ "block_type": "text", "data": { "text": "Once upon a" } }]);
        assert_eq!((&answer["stop_reason"], &answer["blocks"]), (&json!("cancelled"), &blocks), "{cancels}");
        assert_eq!(history["messages"][2]["content"], "say back");
    }
}

#[test]
fn interrupt_stops_run_and_informs_both_callers() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (request, session) = long_run(&mut client);
    let interrupted = client.expect_tool("meerkat_interrupt", json!({ "session_id": session }));
    assert_eq!(interrupted, json!({ "session_id": session, "interrupted": true }));
    let stopped = client.finish_tool(request);
    assert!(stopped.is_error, "{}", stopped.payload);
    assert_eq!(stopped.payload["code"], "REQUEST_CANCELLED", "{}", stopped.payload);
    let data = json!({
        "session_id": session,
        "session_ref": format!("test:{session}"),
        "session_created": true,
        "resumable": true,
    });
    assert_eq!(stopped.payload["data"], data);
    let again = client.expect_error("meerkat_interrupt", json!({ "session_id": session }));
    assert_eq!(again, "SESSION_NOT_RUNNING", "an idle session");
    let unknown = client.expect_error("meerkat_interrupt", json!({ "session_id": UNKNOWN_SESSION }));
    assert_eq!(unknown, "SESSION_NOT_FOUND");
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say back" }));
    assert_eq!(text_of(&resumed), "back");
}

#[test]
fn archived_session_is_only_readable() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say hi");
    let archived = client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    assert_eq!(archived, json!({ "session_id": session, "archived": true }));
    let state = client.expect_tool("meerkat_read", json!({ "session_id": session }))["state"].clone();
    assert_eq!((&state["archived"], &state["is_active"]), (&json!(true), &json!(false)), "{state}");
    assert_eq!(
        read_messages(&mut client, &session),
        expected_messages(&[("user", "say hi"), ("assistant", "hi")])
    );
    assert!(list_sessions(&mut client, &json!({})).is_empty());
    for (tool, arguments) in [
        ("meerkat_resume", json!({ "session_id": session, "prompt": "say more" })),
        ("meerkat_archive", json!({ "session_id": session })),
    ] {
        assert_eq!(client.expect_error(tool, arguments), "SESSION_NOT_FOUND", "{tool}");
    }
}

#[test]
fn archiving_stops_an_active_run() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (request, session) = long_run(&mut client);
    client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    assert_eq!(client.finish_tool(request).payload["code"], "REQUEST_CANCELLED");
    assert_eq!(
        read_messages(&mut client, &session),
        expected_messages(&[("user", "wait 60000"), ("assistant", "")])
    );
}

#[test]
fn unsupported_options_create_no_session() {
    let env = TestEnv::new();
    let mut client = env.server();
    let cases = [
        (json!({ "keep_alive": true, "comms_name": "bob" }), "CAPABILITY_UNAVAILABLE"),
        (json!({ "keep_alive": true }), "INVALID_PARAMS"),
        (json!({ "keep_alive": true, "comms_name": " " }), "INVALID_PARAMS"),
        (json!({ "hooks_override": { "entries": [], "disable": ["x"] } }), "INVALID_PARAMS"),
        (json!({ "model": "no-such-model" }), "PROVIDER_ERROR"),
        (json!({ "labels": { "mob_id": "x" } }), "INVALID_PARAMS"),
        (json!({ "labels": { "meerkat.x": "x" } }), "INVALID_PARAMS"),
    ];
    for (mut arguments, code) in cases {
        arguments["prompt"] = json!("say hi");
        assert_eq!(client.expect_error("meerkat_run", arguments.clone()), code, "{arguments}");
    }
    assert!(list_sessions(&mut client, &json!({})).is_empty(), "a rejected run left a session");
}

fn list_sessions(client: &mut McpClient, arguments: &Value) -> Vec<String> {
    let reply = client.expect_tool("meerkat_sessions", arguments.clone());
    reply["sessions"].as_array().expect("sessions").iter().map(id_of).collect()
}
