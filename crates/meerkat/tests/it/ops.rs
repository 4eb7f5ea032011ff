//! The table of operations that every surface exposes.

use std::collections::BTreeSet;

use meerkat::operations::{TABLE, find};
use meerkat::{Error, ErrorKind};
use meerkat_testkit::{Script, ScriptedModel, redact};
use serde_json::{Value, json};

use crate::world::{Profile, World, call, fits};

async fn run(world: &World, mut arguments: Value) -> Result<Value, Error> {
    arguments["model"] = json!(ScriptedModel::ID);
    call(world, "meerkat_run", arguments).await
}

/// Formats a reply without values that vary between runs, including the realm.
fn redacted(world: &World, reply: &Value) -> String {
    let realm = world.runtime.realm().id().to_string();
    redact(&serde_json::to_string_pretty(reply).unwrap()).replace(&realm, "[realm]")
}

fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_schema_is_accepted_by_clients() {
    let names: BTreeSet<_> = TABLE.iter().map(|operation| operation.name).collect();
    assert_eq!(names.len(), TABLE.len(), "names are unique");
    for operation in &TABLE {
        for schema in [operation.input_schema(), operation.output_schema()] {
            let name = operation.name;
            assert_eq!(schema["type"], "object", "{name}");
            let root: BTreeSet<_> = schema.as_object().unwrap().keys().map(String::as_str).collect();
            assert!(root.is_disjoint(&["anyOf", "oneOf", "allOf"].into()), "{name}: {root:?}");
            let mut all = BTreeSet::new();
            keys(&schema, &mut all);
            assert!(!all.contains("$ref") && !all.contains("$defs"), "{name}: {schema}");
            assert!(jsonschema::draft202012::new(&schema).is_ok(), "{name}");
        }
    }
}

#[test]
fn schemas_state_the_form_of_ids_and_the_length_of_texts() {
    let validator = |name: &str| jsonschema::draft202012::new(&find(name).unwrap().input_schema()).unwrap();
    let (read, run) = (validator("meerkat_read"), validator("meerkat_run"));
    let uuid = "01936f8a-7b2c-7000-8000-000000000001";
    for (id, is_uuid) in [
        (uuid.to_owned(), true),
        (uuid.replace('-', ""), true),
        ("-".repeat(32), false),
        (uuid.replacen('-', "", 1), false),
        (uuid.replace('0', "g"), false),
    ] {
        assert_eq!(read.is_valid(&json!({"session_id": id})), is_uuid, "{id}");
        assert_eq!(id.parse::<meerkat::SessionId>().is_ok(), is_uuid, "{id}");
    }
    for (length, is_valid) in [(32 * 1024, true), (32 * 1024 + 1, false)] {
        let text = "x".repeat(length);
        assert_eq!(run.is_valid(&json!({"prompt": "x", "additional_instructions": [text]})), is_valid);
    }
    for (length, is_valid) in [(8 * 1024, true), (8 * 1024 + 1, false)] {
        assert_eq!(run.is_valid(&json!({"prompt": "x", "labels": {"a": "x".repeat(length)}})), is_valid);
    }
}

#[test]
fn operations_are_found_by_exact_name() {
    assert!(
        TABLE.iter().all(|operation| find(operation.name).is_some_and(|found| found.doc == operation.doc))
    );
    assert!(find("meerkat").is_none());
}

#[tokio::test]
async fn every_reply_matches_its_schema() {
    let world = World::new([Script::say("hello"), Script::call("c1", "ask", json!({})), Script::say("bare")]);
    let tools = json!([{"name": "ask", "description": "Asks.", "input_schema": {}}]);
    let done = run(&world, json!({"prompt": "hi", "labels": {"team": "x"}})).await.unwrap();
    let rich = json!({"session_id": done["session_id"]});
    let pending = json!({"session_id": done["session_id"], "prompt": "go", "tools": tools});
    let pending = call(&world, "meerkat_resume", pending).await.unwrap();
    let bare = run(&world, json!({"prompt": "hi"})).await.unwrap();
    let bare = json!({"session_id": bare["session_id"]});
    let mut replies = vec![("meerkat_run", done), ("meerkat_resume", pending)];
    let calls = [
        ("meerkat_read", rich.clone()),
        ("meerkat_read", bare),
        ("meerkat_history", rich.clone()),
        ("meerkat_sessions", json!({})),
        ("meerkat_archive", rich),
        ("meerkat_config", json!({"action": "get"})),
        ("meerkat_capabilities", json!({})),
    ];
    for (name, arguments) in calls {
        replies.push((name, call(&world, name, arguments).await.unwrap()));
    }
    for (name, reply) in replies {
        fits(name, &reply);
    }
}

#[tokio::test]
async fn completed_run_reply_has_documented_shape() {
    let world = World::new([Script::say("hello")]);
    let reply = run(&world, json!({"prompt": "hi"})).await.unwrap();
    insta::assert_snapshot!(redacted(&world, &reply), @r#"
    {
      "content": [
        {
          "type": "text",
          "text": "hello"
        }
      ],
      "session_id": "[uuid]",
      "turns": 1,
      "tool_calls": 0,
      "structured_output": null,
      "schema_warnings": null,
      "extraction_error": null,
      "session_ref": "[realm]:[uuid]",
      "model": "scripted",
      "usage": {
        "input_tokens": 10,
        "output_tokens": 5
      }
    }
    "#);
}

#[tokio::test]
async fn pending_run_reply_has_documented_shape() {
    let world = World::new([Script::call("c1", "ask", json!({"n": 1})), Script::say("thanks")]);
    let tools = json!([{"name": "ask", "description": "Asks.", "input_schema": {"type": "object"}}]);
    let reply = run(&world, json!({"prompt": "hi", "tools": tools})).await.unwrap();
    insta::assert_snapshot!(redacted(&world, &reply), @r#"
    {
      "content": [
        {
          "type": "text",
          "text": "Agent is waiting for tool results"
        }
      ],
      "session_id": "[uuid]",
      "status": "pending_tool_call",
      "pending_tool_calls": [
        {
          "tool_use_id": "c1",
          "tool_name": "ask",
          "args": {
            "n": 1
          }
        }
      ],
      "session_ref": "[realm]:[uuid]",
      "model": "scripted",
      "usage": {
        "input_tokens": 10,
        "output_tokens": 5
      }
    }
    "#);
    let id = reply["session_id"].clone();
    let state = call(&world, "meerkat_read", json!({"session_id": id})).await.unwrap();
    assert_eq!(state["state"]["pending_tool_calls"], reply["pending_tool_calls"]);
    let results = json!([{"tool_use_id": "c1", "content": "no such thing", "is_error": true}]);
    let done =
        call(&world, "meerkat_resume", json!({"session_id": id, "tool_results": results})).await.unwrap();
    assert_eq!((&done["content"][0]["text"], &done["tool_calls"]), (&json!("thanks"), &json!(1)));
    let history =
        call(&world, "meerkat_history", json!({"session_id": id, "offset": 2, "limit": 1})).await.unwrap();
    let answer = json!([{"tool_use_id": "c1", "content": "no such thing", "is_error": true}]);
    assert_eq!((&history["messages"][0]["results"], &history["has_more"]), (&answer, &json!(true)));
}

#[tokio::test]
async fn invalid_arguments_are_rejected_with_their_path() {
    let world = World::new([]);
    let tool = |name: &str| json!({"name": name, "description": "d", "input_schema": {}});
    let cases = [
        ("meerkat_run", json!({}), "missing field `prompt`"),
        ("meerkat_run", json!({"prompt": 7}), "`prompt`: invalid type: integer `7`, expected a string"),
        ("meerkat_run", json!({"prompt": "  "}), "`prompt` is empty and there are no `tool_results`"),
        (
            "meerkat_run",
            json!({"prompt": "x", "tools": [{"name": 1, "description": "d", "input_schema": {}}]}),
            "`tools[0].name`: invalid type: integer `1`, expected a string",
        ),
        (
            "meerkat_run",
            json!({"prompt": "x", "tools": [tool("fine"), tool("not fine")]}),
            "`tools[1].name`: `not fine` must have 1 to 64 letters, digits, `_` or `-`",
        ),
        (
            "meerkat_run",
            json!({"prompt": "x", "tools": [tool("a"), tool("a")]}),
            "`tools[1].name`: duplicate tool `a`",
        ),
        ("meerkat_run", json!({"prompt": "x", "labels": {"mob_id": "1"}}), "the label `mob_id` is reserved"),
        ("meerkat_run", json!({"prompt": "x", "keep_alive": true}), "`keep_alive` needs a `comms_name`"),
        (
            "meerkat_run",
            json!({"prompt": "x", "output_schema": {"type": "no"}}),
            "`output_schema` is not a valid",
        ),
        (
            "meerkat_run",
            json!({"prompt": "x", "output_schema": {"schema": 1}}),
            "`output_schema.schema` must be",
        ),
        (
            "meerkat_run",
            json!({"prompt": "x", "budget_limits": {"max_tokens": -1}}),
            "`budget_limits.max_tokens`: ",
        ),
        ("meerkat_resume", json!({"session_id": "x", "prompt": "x"}), ""),
        ("meerkat_read", json!({"session_id": "../../etc"}), ""),
        ("meerkat_read", json!({"session_id": 7}), "`session_id`: "),
        (
            "meerkat_history",
            json!({"session_id": "01890000-0000-7000-8000-000000000000", "offset": -1}),
            "`offset`: ",
        ),
        ("meerkat_interrupt", json!({"session_id": ""}), ""),
        ("meerkat_archive", json!({}), "missing field `session_id`"),
        ("meerkat_config", json!({"action": "put"}), "`action`: unknown variant `put`"),
        ("meerkat_config", json!({"action": "set"}), "`config` is missing"),
        ("meerkat_config", json!({"action": "patch"}), "`patch` is missing"),
    ];
    for (name, arguments, message) in cases {
        let error = call(&world, name, arguments.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParams, "{name} {arguments}: {error}");
        assert!(error.to_string().starts_with(message), "{name} {arguments}: {error}");
    }
    let sessions = call(&world, "meerkat_sessions", json!({})).await.unwrap();
    assert_eq!(sessions, json!({"sessions": []}), "no session was created");
}

#[tokio::test]
async fn large_lists_are_rejected_at_the_first_item() {
    let world = World::new([]);
    let list = |item: Value| Value::Array(vec![item; 200_000]);
    let cases = [
        ("prompt", list(json!(1)), "`prompt[0]`: invalid type: integer `1`, expected an object"),
        ("prompt", list(json!(["text", "x"])), "`prompt[0]`: `[\"text\",\"x\"]` is not of type \"object\""),
        ("tools", list(json!(1)), "`tools[0]`: invalid type: integer `1`, expected an object"),
        (
            "tools",
            list(json!(["f", "d", {}, null])),
            "`tools[0]`: `[\"f\",\"d\",{},null]` is not of type \"object\"",
        ),
        (
            "tools",
            list(json!({"name": "", "description": "d", "input_schema": {}})),
            "`tools[0].name`: `` must have 1 to 64 letters, digits, `_` or `-`",
        ),
    ];
    for (field, list, message) in cases {
        let mut arguments = json!({"prompt": "hi"});
        arguments[field] = list;
        let error = run(&world, arguments).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidParams, message));
    }
}

#[tokio::test]
async fn first_violation_after_valid_items_is_reported() {
    let world = World::new([]);
    let block = json!({"type": "text", "text": "x"});
    let image = json!({"type": "image", "media_type": "image/png", "source": ["inline", "x"]});
    let tool = json!({"name": "f", "description": "d", "input_schema": {}});
    let bad_name = json!({"name": " ", "description": "d", "input_schema": {}});
    let cases = [
        (json!({"prompt": [block, ["text", "x"], 7]}), "`prompt[2]`: invalid type: integer `7`"),
        (json!({"prompt": [block, block, ["text", "x"]]}), "`prompt[2]`: `[\"text\",\"x\"]` is not of type"),
        (json!({"prompt": [image]}), "`prompt[0]"),
        (json!({"prompt": "x", "tools": [tool, bad_name, ["f", "d", {}, null]]}), "`tools[2]`: `["),
        (json!({"prompt": "x", "budget_limits": [1, 2]}), "`budget_limits`: `[1,2]` is not of type"),
        (
            json!({"prompt": "x", "hooks_override": {"disable": ["a"], "entries": [[]]}}),
            "`hooks_override.entries[0]`",
        ),
    ];
    for (arguments, message) in cases {
        let error = run(&world, arguments.clone()).await.unwrap_err();
        assert!(error.to_string().starts_with(message), "{arguments}: {error}");
    }
}

#[tokio::test]
async fn output_schema_errors_quote_only_the_start() {
    let world = World::new([]);
    let long = "long \u{7}".repeat(60_000);
    let needs = |part: Value| json!({"type": "object", "properties": {&long: part}, "required": [&long]});
    let schemas = [
        json!({"type": long}),
        json!({"type": "object", "required": vec![7; 60_000]}),
        json!({"$ref": format!("#/$defs/{long}")}),
        json!({"pattern": format!("({long}")}),
        needs(json!(false)),
        json!({"schema": needs(json!({"not": {"const": 1}})), "compat": "strict"}),
    ];
    for schema in schemas {
        let error = run(&world, json!({"prompt": "hi", "output_schema": schema})).await;
        let Err(error) = error else { continue };
        let body = serde_json::to_string(&error.body()).unwrap();
        assert!(body.len() < 2000 && !error.to_string().contains('\u{7}'), "{body}");
    }
}

#[tokio::test]
async fn missing_features_are_rejected() {
    let world = World::new([]);
    let id = run(&world, json!({"prompt": "hi"})).await.unwrap()["session_id"].clone();
    let options = [json!({"keep_alive": true, "comms_name": "a"}), json!({"comms_name": "a"})];
    run(&world, json!({"prompt": "x", "hooks_override": {"entries": [], "disable": []}})).await.unwrap();
    for mut option in options {
        option["prompt"] = json!("x");
        let error = run(&world, option.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CapabilityUnavailable, "{option}: {error}");
        option["session_id"] = id.clone();
        let error = call(&world, "meerkat_resume", option.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CapabilityUnavailable, "{option}: {error}");
    }
    let disabled =
        json!({"prompt": "x", "enable_builtins": false, "keep_alive": false, "hooks_override": {}});
    assert!(run(&world, disabled).await.is_ok());
}

#[tokio::test]
async fn ten_megabyte_prompt_is_stored_in_full() {
    let world = World::new([]);
    let prompt = "meerkat ".repeat(10 * 1024 * 1024 / 8);
    let reply = run(&world, json!({"prompt": prompt})).await.unwrap();
    let id = reply["session_id"].as_str().unwrap().parse().unwrap();
    let first = world.sessions().history(id, 0, Some(1)).await.unwrap().messages.remove(0);
    assert!(serde_json::to_value(first).unwrap()["content"] == json!(prompt));
}

#[tokio::test]
async fn session_operations_work_by_name() {
    let world = World::new([Script::say("hello")]);
    let id =
        run(&world, json!({"prompt": "hi", "labels": {"team": "x"}})).await.unwrap()["session_id"].clone();
    let session = json!({"session_id": id});
    let read = call(&world, "meerkat_read", session.clone()).await.unwrap();
    assert_eq!(read["state"]["last_assistant_text"], "hello");
    assert_eq!(
        (&read["state"]["labels"], &read["billing"]["total_tokens"]),
        (&json!({"team": "x"}), &json!(15))
    );
    let list = call(&world, "meerkat_sessions", json!({"labels": {"team": "x"}})).await.unwrap();
    assert_eq!((&list["sessions"][0]["session_id"], &list["sessions"][0]["message_count"]), (&id, &json!(2)));
    let idle = call(&world, "meerkat_interrupt", session.clone()).await.unwrap_err();
    assert_eq!(idle.kind(), ErrorKind::SessionNotRunning);
    let archived = call(&world, "meerkat_archive", session.clone()).await.unwrap();
    assert_eq!(archived, json!({"session_id": id, "archived": true}));
    let error = call(&world, "meerkat_resume", json!({"session_id": id, "prompt": "x"})).await.unwrap_err();
    assert_eq!(error.body().code, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn config_operations_work_by_name() {
    let world = World::new([]);
    let got = call(&world, "meerkat_config", json!({"action": "get"})).await.unwrap();
    assert_eq!((&got["generation"], &got["config"]["tools"]["max_concurrent"]), (&json!(0), &json!(10)));
    assert_eq!(got["resolved_paths"].is_object(), Profile::THIS.is_durable());
    assert_eq!(got["backend"], if Profile::THIS.is_durable() { "sqlite" } else { "memory" });
    let patch = json!({"action": "patch", "patch": {"agent": {"max_turns": 7}}, "expected_generation": 0});
    let changed = call(&world, "meerkat_config", patch.clone()).await.unwrap();
    assert_eq!((&changed["generation"], &changed["config"]["agent"]["max_turns"]), (&json!(1), &json!(7)));
    let stale = call(&world, "meerkat_config", patch).await.unwrap_err();
    assert_eq!(stale.body().data.unwrap()["type"], "generation_conflict");
}

#[tokio::test]
async fn capabilities_match_the_build() {
    let world = World::new([]);
    let report = call(&world, "meerkat_capabilities", json!({})).await.unwrap();
    let built = |yes, feature: &str| {
        if yes { json!("Available") } else { json!({"NotCompiled": {"feature": feature}}) }
    };
    let expected = [
        ("sessions", json!("Available")),
        ("streaming", json!("Available")),
        ("structured_output", json!("Available")),
        ("hooks", json!("Available")),
        ("builtins", json!({"DisabledByPolicy": {"description": "Disabled by config"}})),
        ("shell", json!({"DisabledByPolicy": {"description": "Disabled by config"}})),
        ("comms", built(false, "comms")),
        ("memory_store", built(cfg!(feature = "memory-store-session"), "memory-store-session")),
        ("schedule", built(false, "schedule")),
        ("work_graph", built(false, "workgraph")),
        ("session_store", built(Profile::THIS.is_durable(), "session-store")),
        ("session_compaction", built(Profile::THIS.compacts(), "session-compaction")),
        ("skills", built(cfg!(feature = "skills"), "skills")),
        ("mcp_live", built(cfg!(feature = "mcp"), "mcp")),
        ("registry", built(cfg!(feature = "registry"), "registry")),
    ];
    let entries = report["capabilities"].as_array().unwrap();
    let found: Vec<_> =
        entries.iter().map(|entry| (entry["id"].as_str().unwrap(), entry["status"].clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(report["contract_version"], json!({"major": 0, "minor": 6, "patch": 6}));
}

#[tokio::test]
async fn in_memory_realm_has_no_durable_sessions() {
    let world = World::in_memory([], [], None);
    let report = call(&world, "meerkat_capabilities", json!({})).await.unwrap();
    let entries = report["capabilities"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["id"] == "session_store").unwrap();
    assert_ne!(entry["status"], json!("Available"));
}

#[tokio::test]
async fn deeply_nested_response_fails_only_the_run() {
    let world = World::new([]);
    let id =
        call(&world, "meerkat_run", json!({"prompt": "say hi", "model": "offline"})).await.unwrap()["session_id"].clone();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(120), "]".repeat(120));
    let call_deep = json!({"session_id": id, "prompt": format!("call f {deep}")});
    let error = call(&world, "meerkat_resume", call_deep).await.unwrap_err();
    assert!(error.to_string().contains("nested too deeply"), "{error}");
    let next = call(&world, "meerkat_resume", json!({"session_id": id, "prompt": "say on"})).await.unwrap();
    assert_eq!(next["content"][0]["text"], "on");
    let history = call(&world, "meerkat_history", json!({"session_id": id})).await.unwrap();
    assert_eq!(history["messages"].as_array().unwrap().len(), 5);
}
