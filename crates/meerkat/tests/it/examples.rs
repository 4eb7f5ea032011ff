//! The examples of the public pages, sent verbatim; the replies have the shapes shown there.

use meerkat_core::{ModelInfo, Provider};
use meerkat_testkit::{Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, call, fits};

/// The session id in the examples; it is replaced before they are sent.
const EXAMPLE_ID: &str = "01936f8a-7b2c-7000-8000-000000000001";

const RUN_MINIMAL: &str = r#"{
  "prompt": "Write a haiku about Rust"
}"#;

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
  "keep_alive": null,
  "comms_name": null,
  "hooks_override": null
}"#;

/// The same of the older page.
const RUN_FULL_OLDER: &str = r#"{
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
  "host_mode": false,
  "comms_name": null,
  "hooks_override": null
}"#;

/// The payload of the reply to a run that ended.
const RUN_REPLY: &str = r#"{"content":[{"type":"text","text":"Agent response here"}],"session_id":"01936f8a-...","turns":1,"tool_calls":0,"structured_output":null,"schema_warnings":null}"#;

const RESUME_MINIMAL: &str = r#"{
  "session_id": "01936f8a-7b2c-7000-8000-000000000001",
  "prompt": "Continue with this"
}"#;

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
  "keep_alive": null,
  "comms_name": null,
  "model": null,
  "max_tokens": null,
  "provider": null,
  "hooks_override": null
}"#;

/// The same of the older page.
const RESUME_WITH_RESULTS_OLDER: &str = r#"{
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
  "host_mode": false,
  "comms_name": null,
  "model": null,
  "max_tokens": null,
  "provider": null,
  "hooks_override": null
}"#;

/// Payload of the reply to a run that waits for the caller.
const PENDING_REPLY: &str = r#"{"content":[{"type":"text","text":"Agent is waiting for tool results"}],"session_id":"01936f8a-...","status":"pending_tool_call","pending_tool_calls":[{"tool_name":"read_file","args":{"path":"/tmp/data.txt"}}]}"#;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Creates a world in which `claude-opus-4-6` is a scripted model.
fn world(script: impl IntoIterator<Item = Script>) -> World {
    World::with(ScriptedModel::with_info(ModelInfo::new("claude-opus-4-6", Provider::Anthropic), script), [])
}

/// Checks that a reply has every field of an example, with the same values except for ids.
fn assert_contains(reply: &Value, example: &Value) {
    match (example, reply) {
        (Value::Object(example), Value::Object(reply)) => {
            for (key, value) in example {
                let found = reply.get(key).unwrap_or_else(|| panic!("no `{key}` in {reply:?}"));
                if key == "session_id" {
                    assert_eq!(found.as_str().unwrap().len(), EXAMPLE_ID.len(), "{found}");
                } else {
                    assert_contains(found, value);
                }
            }
        }
        (Value::Array(example), Value::Array(reply)) => {
            assert_eq!(example.len(), reply.len());
            example.iter().zip(reply).for_each(|(example, reply)| assert_contains(reply, example));
        }
        _ => assert_eq!(reply, example),
    }
}

/// Returns an example with its session id replaced by this one.
fn with_session(example: &str, session: &Value) -> Value {
    parse(&example.replace(EXAMPLE_ID, session.as_str().unwrap()))
}

#[tokio::test]
async fn minimal_run() {
    let world = world([]);
    let reply = call(&world, "meerkat_run", parse(RUN_MINIMAL)).await.unwrap();
    fits("meerkat_run", &reply);
    let mut example = parse(RUN_REPLY);
    example["content"] = reply["content"].clone();
    assert_contains(&reply, &example);
    assert_eq!(reply["content"][0]["type"], "text");
    assert_eq!(reply["model"], "offline", "without a key, the reply names the offline model");
}

#[tokio::test]
async fn full_run_of_either_page() {
    for example in [RUN_FULL, RUN_FULL_OLDER] {
        let value = json!({"bugs": ["one"], "severity": "low"});
        let world = world([Script::say("Agent response here"), Script::say(&value.to_string())]);
        let reply = call(&world, "meerkat_run", parse(example)).await.unwrap();
        let mut expected = parse(RUN_REPLY);
        expected["structured_output"] = value;
        expected["turns"] = reply["turns"].clone();
        expected["schema_warnings"] = reply["schema_warnings"].clone();
        assert_contains(&reply, &expected);
        assert!(reply["schema_warnings"].is_null() || reply["schema_warnings"].is_array(), "{reply}");
        let seen = world.model.seen();
        assert_eq!(
            (seen[0].system.as_str(), seen[0].tools.as_slice()),
            ("You are a senior code reviewer.", &["read_file".to_owned()][..])
        );
        assert_eq!(seen[0].lines, ["user: Analyze this code for bugs"]);
    }
}

#[tokio::test]
async fn minimal_resume() {
    let world = world([]);
    let missing = call(&world, "meerkat_resume", parse(RESUME_MINIMAL)).await.unwrap_err().body();
    assert_eq!(
        (missing.code.as_str(), &missing.data.unwrap()["session_id"]),
        ("SESSION_NOT_FOUND", &json!(EXAMPLE_ID))
    );
    let first = call(&world, "meerkat_run", parse(RUN_MINIMAL)).await.unwrap();
    let reply =
        call(&world, "meerkat_resume", with_session(RESUME_MINIMAL, &first["session_id"])).await.unwrap();
    let mut example = parse(RUN_REPLY);
    example["content"] = reply["content"].clone();
    assert_contains(&reply, &example);
    assert_eq!(reply["session_id"], first["session_id"], "the same session");
}

#[tokio::test]
async fn pending_call_and_result_of_either_page() {
    for example in [RESUME_WITH_RESULTS, RESUME_WITH_RESULTS_OLDER] {
        let path = json!({"path": "/tmp/data.txt"});
        let world = world([Script::call("tc_abc123", "read_file", path), Script::say("Agent response here")]);
        let mut run = parse(RUN_FULL);
        run["output_schema"] = json!(null);
        let pending = call(&world, "meerkat_run", run).await.unwrap();
        fits("meerkat_run", &pending);
        assert_contains(&pending, &parse(PENDING_REPLY));
        assert_eq!(pending["pending_tool_calls"][0]["tool_use_id"], "tc_abc123");
        assert_eq!((pending.get("turns"), pending.get("tool_calls")), (None, None));

        let reply =
            call(&world, "meerkat_resume", with_session(example, &pending["session_id"])).await.unwrap();
        let mut expected = parse(RUN_REPLY);
        expected["tool_calls"] = json!(1);
        assert_contains(&reply, &expected);
        assert_eq!(world.model.seen()[1].lines[2], "results: tc_abc123=File contents here...");
    }
}

#[tokio::test]
async fn config_is_read_set_and_patched() {
    let world = world([]);
    for turns in 1..=3 {
        world.configure(json!({"agent": {"max_turns": turns}})).await;
    }
    let got = call(&world, "meerkat_config", parse(r#"{ "action": "get" }"#)).await.unwrap();
    let keys: Vec<_> = got.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["config", "generation", "realm_id", "instance_id", "backend", "resolved_paths"]);
    let set = r#"{
      "action": "set",
      "config": { "agent": { "model": "gpt-5.5" } },
      "expected_generation": 3
    }"#;
    let set = call(&world, "meerkat_config", parse(set)).await.unwrap();
    assert_eq!((&set["generation"], &set["config"]["agent"]["model"]), (&json!(4), &json!("gpt-5.5")));
    assert_eq!(set["config"]["agent"]["max_turns"], json!(null), "omitted keys return to their defaults");
    let patch = r#"{
      "action": "patch",
      "patch": { "agent": { "max_tokens_per_turn": 8192 } },
      "expected_generation": 4
    }"#;
    let patched = call(&world, "meerkat_config", parse(patch)).await.unwrap();
    assert_eq!(patched["generation"], 5);
    assert_eq!(patched["config"]["agent"]["max_tokens_per_turn"], 8192);
    assert_eq!(patched["config"]["agent"]["model"], "gpt-5.5", "the rest stays");

    let older = [
        r#"{ "action": "get" }"#,
        r#"{ "action": "set", "config": { "agent": { "model": "gpt-5.2" } } }"#,
        r#"{ "action": "patch", "patch": { "agent": { "max_tokens_per_turn": 8192 } } }"#,
    ];
    for (example, generation) in older.into_iter().zip([5, 6, 7]) {
        let reply = call(&world, "meerkat_config", parse(example)).await.unwrap();
        assert_eq!(reply["generation"], generation, "{example}");
    }
}

#[tokio::test]
async fn capabilities_match_the_documented_ones() {
    let example = parse(
        r#"{
          "contract_version": {"major": 0, "minor": 6, "patch": 6},
          "capabilities": [
            {"id": "sessions", "description": "Session lifecycle management", "status": "Available"},
            {"id": "structured_output", "description": "Structured output extraction with JSON schema", "status": "Available"},
            {"id": "hooks", "description": "Lifecycle hooks for tool and turn events", "status": "Available"},
            {"id": "builtins", "description": "Built-in tools (task management)", "status": {"DisabledByPolicy": {"description": "Disabled by config"}}},
            {"id": "shell", "description": "Shell command execution", "status": {"DisabledByPolicy": {"description": "Disabled by config"}}},
            {"id": "comms", "description": "Inter-agent communication", "status": {"NotCompiled": {"feature": "comms"}}},
            {"id": "memory_store", "description": "Semantic memory indexing", "status": "Available"},
            {"id": "skills", "description": "Skill loading and injection", "status": "Available"}
          ]
        }"#,
    );
    let reply = call(&world([]), "meerkat_capabilities", parse("{}")).await.unwrap();
    assert_eq!(reply["contract_version"], example["contract_version"]);
    let entries = reply["capabilities"].as_array().unwrap();
    for expected in example["capabilities"].as_array().unwrap() {
        let entry = entries.iter().find(|entry| entry["id"] == expected["id"]).unwrap();
        assert_eq!(entry["description"], expected["description"]);
        // The features of a build vary; the format of their status does not.
        let fits = match &entry["status"] {
            Value::String(status) => status == "Available",
            status => {
                status["DisabledByPolicy"]["description"].is_string()
                    || status["NotCompiled"]["feature"].is_string()
            }
        };
        assert!(fits, "{entry}");
    }
}

#[tokio::test]
async fn catalog_has_the_documented_entry() {
    let example = parse(
        r#"{
          "contract_version": "0.6.6",
          "providers": [
            {
              "provider": "anthropic",
              "default_model_id": "claude-opus-4-7",
              "models": [
                {
                  "id": "claude-opus-4-7",
                  "display_name": "Claude Opus 4.7",
                  "tier": "recommended",
                  "context_window": 1000000,
                  "max_output_tokens": 128000,
                  "profile": {
                    "model_family": "claude-opus-4",
                    "supports_temperature": false,
                    "supports_thinking": true,
                    "supports_reasoning": false,
                    "params_schema": {}
                  }
                }
              ]
            }
          ]
        }"#,
    );
    let reply = call(&world([]), "meerkat_models_catalog", parse("{}")).await.unwrap();
    assert_eq!(reply["contract_version"], example["contract_version"]);
    let find = |list: &Value, key: &str, value: &Value| -> Value {
        list.as_array().unwrap().iter().find(|entry| entry[key] == *value).unwrap().clone()
    };
    let expected = &example["providers"][0];
    let provider = find(&reply["providers"], "provider", &expected["provider"]);
    assert_eq!(provider["default_model_id"], expected["default_model_id"]);
    let model = find(&provider["models"], "id", &expected["models"][0]["id"]);
    assert_contains(&model, &expected["models"][0]);
    assert!(model["profile"]["params_schema"].is_object());
}
