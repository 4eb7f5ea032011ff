//! Config of the realm and capabilities of the build.

use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use super::support::TestEnv;

fn worker(env: &TestEnv) -> McpClient {
    // As on the MCP page.
    McpClient::start(&mut env.command(&[
        "--realm",
        "team-alpha",
        "--instance",
        "worker-1",
        "--realm-backend",
        "sqlite",
    ]))
}

#[test]
fn config_has_the_documented_envelope() {
    let env = TestEnv::new();
    let mut envelope = worker(&env).expect_tool("meerkat_config", json!({ "action": "get" }));
    let config = envelope["config"].take();
    let root = env.state().join("team-alpha");
    let path = |name: &str| json!(root.join(name));
    assert_eq!(
        envelope,
        json!({
            "config": null,
            "generation": 0,
            "realm_id": "team-alpha",
            "instance_id": "worker-1",
            "backend": "sqlite",
            "resolved_paths": {
                "root": root,
                "manifest_path": path("realm_manifest.json"),
                "config_path": path("sessions.sqlite3"),
                "sessions_sqlite_path": path("sessions.sqlite3"),
            },
        })
    );
    let sections: Vec<_> = config.as_object().expect("a document").keys().collect();
    let expected = [
        "agent",
        "max_tokens",
        "budget",
        "limits",
        "retry",
        "tools",
        "approvals",
        "shell",
        "skills",
        "registry",
        "hooks",
        "compaction",
        "memory",
        "prices",
        "models",
        "providers",
        "provider_tools",
        "self_hosted",
    ];
    assert_eq!(sections, expected);
    for file in ["realm_manifest.json", "sessions.sqlite3"] {
        assert!(root.join(file).is_file(), "{file} is not where the paths say");
    }
}

#[test]
fn stale_config_changes_are_rejected() {
    let env = TestEnv::new();
    let mut client = worker(&env);
    for generation in 1..=3 {
        let patch = json!({ "agent": { "max_turns": generation } });
        let changed = client.expect_tool("meerkat_config", json!({ "action": "patch", "patch": patch }));
        assert_eq!(changed["generation"], generation);
    }
    let set = json!({
        "action": "set",
        "config": { "agent": { "model": "gpt-5.5" } },
        "expected_generation": 3
    });
    let changed = client.expect_tool("meerkat_config", set.clone());
    assert_eq!(
        (&changed["generation"], &changed["config"]["agent"]["model"]),
        (&json!(4), &json!("gpt-5.5"))
    );
    assert_eq!(changed["config"]["agent"]["max_turns"], Value::Null, "set replaces the whole document");
    let patch = json!({
        "action": "patch",
        "patch": { "agent": { "max_tokens_per_turn": 8192 } },
        "expected_generation": 4
    });
    let changed = client.expect_tool("meerkat_config", patch.clone());
    let agent = &changed["config"]["agent"];
    assert_eq!(changed["generation"], 5);
    assert_eq!((&agent["model"], &agent["max_tokens_per_turn"]), (&json!("gpt-5.5"), &json!(8192)));
    for (stale, expected) in [(set, 3), (patch, 4)] {
        let reply = client.tool("meerkat_config", stale);
        assert!(reply.is_error, "a stale change was applied: {}", reply.payload);
        assert_eq!(reply.payload["code"], "INVALID_PARAMS");
        let conflict = json!({ "type": "generation_conflict", "expected_generation": expected, "current_generation": 5 });
        assert_eq!(reply.payload["data"], conflict);
    }
    assert!(client.close().success());
    let stored = worker(&env).expect_tool("meerkat_config", json!({ "action": "get" }));
    assert_eq!(
        (&stored["generation"], &stored["config"]),
        (&json!(5), &changed["config"]),
        "after a restart"
    );
}

#[test]
fn null_in_a_patch_restores_the_default() {
    let env = TestEnv::new();
    let mut client = env.server();
    let patch = |agent: Value| json!({ "action": "patch", "patch": { "agent": agent } });
    let before = client.expect_tool("meerkat_config", json!({ "action": "get" }));
    client.expect_tool("meerkat_config", patch(json!({ "max_tokens_per_turn": 5 })));
    let after = client.expect_tool("meerkat_config", patch(json!({ "max_tokens_per_turn": null })));
    assert_eq!(after["config"], before["config"]);
}

#[test]
fn invalid_change_is_rejected_without_effect() {
    let env = TestEnv::new();
    let mut client = env.server();
    let before = client.expect_tool("meerkat_config", json!({ "action": "get" }));
    let cases = [
        (json!({ "action": "set" }), "config"),
        (json!({ "action": "patch" }), "patch"),
        (json!({ "action": "forget" }), "action"),
        (json!({ "action": "set", "config": { "agnet": {} } }), "agnet"),
        (json!({ "action": "patch", "patch": { "agent": { "modle": "x" } } }), "agent.modle"),
        (json!({ "action": "patch", "patch": { "agent": { "model": 4 } } }), "agent.model"),
        (json!({ "action": "patch", "patch": { "agent": "fast" } }), "agent"),
        (
            json!({ "action": "patch", "patch": { "agent": { "max_tokens_per_turn": 0 } } }),
            "max_tokens_per_turn",
        ),
        (
            json!({ "action": "patch", "patch": { "tools": { "default_timeout": "soon" } } }),
            "default_timeout",
        ),
        (json!({ "action": "patch", "patch": {}, "expected_generation": 9 }), "generation"),
    ];
    for (arguments, named) in cases {
        let reply = client.tool("meerkat_config", arguments.clone());
        assert!(reply.is_error, "{arguments} was accepted: {}", reply.payload);
        assert_eq!(reply.payload["code"], "INVALID_PARAMS", "{arguments}: {}", reply.payload);
        let message = reply.payload["message"].as_str().unwrap_or_default();
        assert!(message.contains(named), "{arguments}: the message does not name `{named}`: {message}");
    }
    assert_eq!(client.expect_tool("meerkat_config", json!({ "action": "get" })), before);
}

#[test]
fn capabilities_have_the_documented_shape() {
    let env = TestEnv::new();
    let report = env.server().expect_tool("meerkat_capabilities", json!({}));
    assert_eq!(report["contract_version"], json!({ "major": 0, "minor": 6, "patch": 6 }));
    let capabilities = report["capabilities"].as_array().expect("a list");
    let documented = [
        ("sessions", "Session lifecycle management"),
        ("structured_output", "Structured output extraction with JSON schema"),
        ("hooks", "Lifecycle hooks for tool and turn events"),
        ("builtins", "Built-in tools (task management)"),
        ("shell", "Shell command execution"),
        ("comms", "Inter-agent communication"),
        ("memory_store", "Semantic memory indexing"),
        ("skills", "Skill loading and injection"),
    ];
    for (id, description) in documented {
        let entry = capabilities.iter().find(|entry| entry["id"] == id);
        let entry = entry.unwrap_or_else(|| panic!("no `{id}` in {report}"));
        assert_eq!(entry["description"], description, "{id}");
    }
    for entry in capabilities {
        let status = &entry["status"];
        let known = status == "Available"
            || status["DisabledByPolicy"]["description"].is_string()
            || status["NotCompiled"]["feature"].is_string()
            || status["NotSupportedByProtocol"]["reason"].is_string();
        assert!(known, "{entry}");
    }
    for id in ["sessions", "structured_output", "session_store"] {
        let available = json!("Available");
        assert!(capabilities.iter().any(|entry| entry["id"] == id && entry["status"] == available), "{id}");
    }
}
