//! Examples from the public pages, sent over the wire verbatim and answered as documented.

use meerkat::{ConfigChange, DefaultRealm, Realm, RealmScope, Runtime, RuntimeOptions, SystemDirs};
use meerkat_testkit::{McpClient, Server};
use serde_json::{Value, json};

use super::support::TestEnv;

/// Session id in the examples; only this id is replaced before sending.
const EXAMPLE_ID: &str = "01936f8a-7b2c-7000-8000-000000000001";

const RUN_MINIMAL: &str = r#"{
  "prompt": "Write a haiku about Rust"
}"#;

/// Full run on both pages, which differ in one line.
const RUN_FULL: &str = r#"{
  "prompt": "Analyze this code for bugs",
  "system_prompt": "You are a senior code reviewer.",
  "model": "claude-opus-4-6",
  "max_tokens": 4096,
  "provider": "anthropic",
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
  "tools": [
    {
      "name": "read_file",
      "description": "Read a file from disk",
      "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"]
      },
      "handler": "callback"
    }
  ],
  "enable_builtins": false,
  "builtin_config": {
    "enable_shell": false,
    "shell_timeout_secs": 30
  },
  KEEP_ALIVE,
  "comms_name": null,
  "hooks_override": null
}"#;

const RESUME_MINIMAL: &str = r#"{
  "session_id": "01936f8a-7b2c-7000-8000-000000000001",
  "prompt": "Continue with this"
}"#;

/// Resume with results on both pages, which differ in one line.
const RESUME_WITH_RESULTS: &str = r#"{
  "session_id": "01936f8a-7b2c-7000-8000-000000000001",
  "prompt": "",
  "stream": false,
  "verbose": false,
  "tools": [],
  "tool_results": [
    {
      "tool_use_id": "tc_abc123",
      "content": "File contents here...",
      "is_error": false
    }
  ],
  "enable_builtins": false,
  "builtin_config": null,
  KEEP_ALIVE,
  "comms_name": null,
  "model": null,
  "max_tokens": null,
  "provider": null,
  "hooks_override": null
}"#;

/// Line in which the pages differ: in a run, and in a resume.
const PAGES: [[&str; 2]; 2] =
    [["\"keep_alive\": null", "\"keep_alive\": null"], ["\"host_mode\": false", "\"host_mode\": false"]];

/// Result of a completed run on both pages, up to the first undocumented field.
const DONE: &str = r#"{"content":[{"type":"text","text":"Agent response here"}],"session_id":"01936f8a-...","turns":1,"tool_calls":0,"structured_output":null,"schema_warnings":null"#;

/// Result of a pending run on both pages, up to the first undocumented field.
const PENDING: &str = r#"{"content":[{"type":"text","text":"Agent is waiting for tool results"}],"session_id":"01936f8a-...","status":"pending_tool_call","pending_tool_calls":[{"tool_name":"read_file","args":{"path":"/tmp/data.txt"}}]"#;

/// Builds an Anthropic response with one block.
fn answer(block: &Value, stop_reason: &str) -> (&'static str, String) {
    let usage = json!({ "input_tokens": 3, "output_tokens": 1 });
    let events = [
        json!({ "type": "message_start", "message": { "usage": usage } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop_reason }, "usage": {} }),
        json!({ "type": "message_stop" }),
    ];
    ("200 OK", events.iter().map(|event| format!("data: {event}\n\n")).collect())
}

fn text_response(text: &str) -> (&'static str, String) {
    answer(&json!({ "type": "text", "text": text }), "end_turn")
}

/// Starts a server with the key from the page, whose provider returns these responses.
fn server(env: &TestEnv, answers: impl IntoIterator<Item = (&'static str, String)>) -> (McpClient, Server) {
    let provider = Server::new(answers);
    let address = provider.address().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let scope = RealmScope {
            realm: Some("test".to_owned()),
            state_root: Some(env.state()),
            ..RealmScope::default()
        };
        let options = scope.options(DefaultRealm::Isolated, &SystemDirs::default(), "it").expect("a realm");
        let realm = Realm::open(options).expect("the realm opens");
        let owner = Runtime::new(realm, RuntimeOptions::default());
        let Value::Object(patch) = json!({ "providers": { "anthropic": { "base_url": address } } }) else {
            unreachable!("an object")
        };
        owner.config().change(ConfigChange::Patch(patch), None).await.expect("the owner may");
    });
    let mut command = env.command(&["--realm", "test"]);
    command.env("ANTHROPIC_API_KEY", "your-key");
    (McpClient::start(&mut command), provider)
}

/// Sends arguments verbatim and returns the text of the single block in the result.
fn send(client: &mut McpClient, id: u64, tool: &str, arguments: &str) -> String {
    let arguments = arguments.replace('\n', " ");
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{arguments}}}}}\n"
    );
    client.send_raw(line.as_bytes());
    let reply = client.finish(id);
    let result = &reply["result"];
    assert_ne!(result["isError"], true, "{reply}");
    let content = result["content"].as_array().unwrap_or_else(|| panic!("no content: {reply}"));
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")), "{reply}");
    let text = content[0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), result["structuredContent"]);
    text
}

/// Returns the session id in a result, and the result with the id of the examples.
fn with_example_id(text: &str) -> (String, String) {
    let payload: Value = serde_json::from_str(text).expect("JSON");
    let session = payload["session_id"].as_str().expect("a session").to_owned();
    let text = text.replace(&session, "01936f8a-...");
    (session, text)
}

#[test]
fn minimal_run_and_resume_match_the_docs() {
    let env = TestEnv::new();
    let (mut client, provider) =
        server(&env, [text_response("Agent response here"), text_response("Agent response here")]);
    let (session, text) = with_example_id(&send(&mut client, 900, "meerkat_run", RUN_MINIMAL));
    assert!(text.starts_with(DONE), "{text}");
    let resume = RESUME_MINIMAL.replace(EXAMPLE_ID, &session);
    let (again, text) = with_example_id(&send(&mut client, 901, "meerkat_resume", &resume));
    assert!(text.starts_with(DONE) && again == session, "{text}");
    let messages = &provider.seen()[1].body["messages"];
    assert_eq!(messages[2]["content"][0]["text"], "Continue with this", "{messages}");
}

#[test]
fn full_run_of_either_page_matches_the_docs() {
    for [run, _] in PAGES {
        let env = TestEnv::new();
        let output = r#"{"bugs":["one"],"severity":"low"}"#;
        let (mut client, provider) =
            server(&env, [text_response("Agent response here"), text_response(output)]);
        let run = RUN_FULL.replace("KEEP_ALIVE", run);
        let (_, text) = with_example_id(&send(&mut client, 900, "meerkat_run", &run));
        let expected = DONE
            .replace("\"turns\":1", "\"turns\":2")
            .replace("\"structured_output\":null", &format!("\"structured_output\":{output}"));
        let (expected, _) = expected.split_once(",\"schema_warnings\"").expect("the last field");
        assert!(text.starts_with(expected), "{text}");
        let body = &provider.seen()[0].body;
        assert_eq!(
            (&body["model"], &body["max_tokens"]),
            (&json!("claude-opus-4-6"), &json!(4096)),
            "{body}"
        );
        assert!(body["system"].to_string().contains("You are a senior code reviewer."), "{body}");
        assert!(body["tools"].to_string().contains("read_file"), "{body}");
    }
}

#[test]
fn pending_call_of_either_page_matches_the_docs() {
    for [run, resume] in PAGES {
        let env = TestEnv::new();
        let input = json!({ "path": "/tmp/data.txt" });
        let call = json!({ "type": "tool_use", "id": "tc_abc123", "name": "read_file", "input": input });
        let (mut client, _provider) = server(
            &env,
            [answer(&call, "tool_use"), text_response("Agent response here"), text_response("{}")],
        );
        let run = RUN_FULL.replace("KEEP_ALIVE", run);
        let (session, text) = with_example_id(&send(&mut client, 900, "meerkat_run", &run));
        let text = text.replace("\"tool_use_id\":\"tc_abc123\",", "");
        assert!(text.starts_with(PENDING), "{text}");
        let resume = RESUME_WITH_RESULTS.replace("KEEP_ALIVE", resume).replace(EXAMPLE_ID, &session);
        let (again, text) = with_example_id(&send(&mut client, 901, "meerkat_resume", &resume));
        let done = DONE.replace("\"tool_calls\":0", "\"tool_calls\":1");
        assert!(text.starts_with(&done) && again == session, "{text}");
    }
}

#[test]
fn config_examples_of_either_page_match_the_docs() {
    let env = TestEnv::new();
    let mut client = env.server();
    for turns in 1..=3 {
        let patch = json!({ "action": "patch", "patch": { "agent": { "max_turns": turns } } });
        client.expect_tool("meerkat_config", patch);
    }
    let examples = [
        (r#"{ "action": "get" }"#, 3),
        (
            r#"{ "action": "set", "config": { "agent": { "model": "gpt-5.5" } }, "expected_generation": 3 }"#,
            4,
        ),
        (
            r#"{ "action": "patch", "patch": { "agent": { "max_tokens_per_turn": 8192 } }, "expected_generation": 4 }"#,
            5,
        ),
        (r#"{ "action": "set", "config": { "agent": { "model": "gpt-5.2" } } }"#, 6),
        (r#"{ "action": "patch", "patch": { "agent": { "max_tokens_per_turn": 8192 } } }"#, 7),
    ];
    for (id, (example, generation)) in (900..).zip(examples) {
        let envelope: Value =
            serde_json::from_str(&send(&mut client, id, "meerkat_config", example)).expect("JSON");
        let keys: Vec<_> = envelope.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["config", "generation", "realm_id", "instance_id", "backend", "resolved_paths"]);
        assert_eq!(envelope["generation"], generation, "{example}");
    }
}

#[test]
fn catalog_and_capabilities_need_no_arguments() {
    let env = TestEnv::new();
    let mut client = env.server();
    let text = send(&mut client, 900, "meerkat_models_catalog", "{}");
    let head = r#"{"contract_version":"0.6.6","providers":[{"provider":"anthropic","default_model_id":"claude-opus-4-7","models":[{"id":"#;
    assert!(text.starts_with(head), "{text}");
    let entry = r#"{"id":"claude-opus-4-7","display_name":"Claude Opus 4.7","tier":"recommended","context_window":1000000,"max_output_tokens":128000,"profile":{"model_family":"claude-opus-4","supports_temperature":false,"supports_thinking":true,"supports_reasoning":false,"params_schema":{"#;
    assert!(text.contains(entry), "{text}");
    let text = send(&mut client, 901, "meerkat_capabilities", "{}");
    let expected = r#"{"contract_version":{"major":0,"minor":6,"patch":6},"capabilities":[{"id":"sessions","description":"Session lifecycle management","status":"Available"},"#;
    assert!(text.starts_with(expected), "{text}");
    // Both pages show these. Whether a build has them varies; the format of the status does not.
    let disabled = r#""status":{"DisabledByPolicy":{"description":"Disabled by config"}}"#;
    let entry = format!(r#"{{"id":"builtins","description":"Built-in tools (task management)",{disabled}}}"#);
    assert!(text.contains(&entry), "{text}");
    let comms = r#"{"id":"comms","description":"Inter-agent communication","status":{"NotCompiled":{"feature":"comms"}}}"#;
    assert!(text.contains(comms), "{text}");
}
