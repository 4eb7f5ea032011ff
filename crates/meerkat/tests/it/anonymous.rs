//! Anonymous clients: they use what the owner has enabled, and cannot loosen any restriction.

use meerkat::{ConfigAccess, ErrorKind};
use meerkat_core::ToolOutput;
use meerkat_testkit::{FnTool, Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, call};

fn anonymous(script: impl IntoIterator<Item = Script>) -> World {
    let tool = FnTool::new("erase", |_| async { ToolOutput::text("erased") });
    World::for_caller(ConfigAccess::Anonymous, ScriptedModel::new(script), [tool])
}

/// Calls an operation that must be rejected because it needs a token, and returns the reason.
async fn rejected(world: &World, name: &str, arguments: Value) -> String {
    let error = call(world, name, arguments).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CapabilityUnavailable, "{error}");
    let data = error.data().unwrap();
    assert_eq!(data["type"], "token_needed", "{data}");
    error.to_string()
}

fn run(options: &Value) -> Value {
    let mut arguments = json!({ "prompt": "hello", "model": ScriptedModel::ID });
    for (key, value) in options.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    arguments
}

#[tokio::test]
async fn config_writes_that_loosen_safety_are_rejected() {
    let world = anonymous([]);
    for (patch, key) in [
        (json!({ "tools": { "shell_enabled": true } }), "tools.shell_enabled"),
        (json!({ "tools": { "builtins_enabled": true } }), "tools.builtins_enabled"),
        (json!({ "registry": { "tools": ["*"] } }), "registry.tools"),
        (json!({ "agent": { "system_prompt": "obey" } }), "agent.system_prompt"),
        (json!({ "limits": { "max_sessions": 1 } }), "limits.max_sessions"),
        (
            json!({ "self_hosted": { "servers": { "a": { "base_url": "http://127.0.0.1:1" } } } }),
            "self_hosted.servers.a",
        ),
    ] {
        let expected = format!(
            "changing `{key}` needs a token; restart this server without `--no-token`, or change it with `rkat config`"
        );
        let patch = json!({ "action": "patch", "patch": patch });
        assert_eq!(rejected(&world, "meerkat_config", patch).await, expected);
    }
    world.configure(json!({ "tools": { "shell_enabled": true } })).await;
    let set = json!({ "action": "set", "config": { "agent": { "max_tokens_per_turn": 100 } } });
    let reason = rejected(&world, "meerkat_config", set).await;
    assert!(reason.starts_with("changing `tools.shell_enabled`"), "{reason}");
}

#[tokio::test]
async fn anonymous_client_may_choose_the_model() {
    let world = anonymous([]);
    let patch = json!({ "agent": { "model": ScriptedModel::ID, "max_tokens_per_turn": 100 } });
    let changed = call(&world, "meerkat_config", json!({ "action": "patch", "patch": patch })).await.unwrap();
    assert_eq!(changed["config"]["agent"]["max_tokens_per_turn"], 100);
}

#[tokio::test]
async fn run_cannot_enable_tools_without_a_token() {
    let world = anonymous([]);
    for (options, tools) in [
        (json!({ "enable_builtins": true }), "built-in tools (`enable_builtins`)"),
        (
            json!({ "enable_builtins": true, "builtin_config": { "enable_shell": true } }),
            "shell tools (`builtin_config.enable_shell`)",
        ),
    ] {
        let expected = format!(
            "a session with {tools} needs a token; restart this server without `--no-token`, or run the session with \
             `rkat`"
        );
        assert_eq!(rejected(&world, "meerkat_run", run(&options)).await, expected);
    }
    assert_eq!(call(&world, "meerkat_sessions", json!({})).await.unwrap()["sessions"], json!([]));
    call(&world, "meerkat_run", run(&json!({ "enable_builtins": false }))).await.unwrap();
}

#[tokio::test]
async fn session_with_tools_cannot_be_resumed() {
    let world = anonymous([]);
    world.configure(json!({ "tools": { "builtins_enabled": true } })).await;
    let options = run(&json!({ "enable_builtins": true }));
    let session = call(&world, "meerkat_run", options).await.unwrap()["session_id"].clone();
    world.configure(json!({ "tools": { "builtins_enabled": false } })).await;
    let resume = json!({ "session_id": session, "prompt": "again" });
    let reason = rejected(&world, "meerkat_resume", resume).await;
    assert!(reason.starts_with("a session with built-in tools"), "{reason}");
    let resume = json!({ "session_id": session, "prompt": "again", "enable_builtins": false });
    call(&world, "meerkat_resume", resume).await.unwrap();
}

#[tokio::test]
async fn tool_calls_are_denied_but_not_approved() {
    let world = anonymous([Script::call("a", "erase", json!({})), Script::say("done")]);
    world.configure(json!({ "approvals": { "policy": "always" } })).await;
    let waiting = call(&world, "meerkat_run", run(&json!({}))).await.unwrap();
    assert_eq!(waiting["status"], "pending_approval", "{waiting}");
    let decide = |approve: bool| {
        let decision = json!({ "tool_use_id": "a", "approve": approve });
        json!({ "session_id": waiting["session_id"], "prompt": "", "approvals": [decision] })
    };
    let reason = rejected(&world, "meerkat_resume", decide(true)).await;
    assert!(reason.starts_with("approving a tool call needs a token"), "{reason}");
    let done = call(&world, "meerkat_resume", decide(false)).await.unwrap();
    assert_eq!(done["content"][0]["text"], "done");
}

#[tokio::test]
#[cfg(feature = "mcp")]
async fn hook_overrides_stay_closed_without_a_token() {
    let world = anonymous([]);
    world.configure(json!({ "hooks": { "client_overrides": true } })).await;
    let hook = json!({
        "id": "h", "point": "run_started", "runtime": { "type": "command", "command": "true" },
    });
    let error = call(&world, "meerkat_run", run(&json!({ "hooks_override": { "entries": [hook] } }))).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("is restricted to the owner of the realm"), "{error}");
}
