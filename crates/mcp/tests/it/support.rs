//! Shared test helpers: odd servers, sets of them, and calls.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{Invocation, RunId, SessionId, Tool, ToolCall, ToolOutput, ToolSource as _};
use meerkat_mcp::config::ServerConfig;
use meerkat_mcp::{Launcher, ServerSet, ServerSetOptions, ServerView};
use serde_json::{Value, json};

/// Time limit that no working operation reaches.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Returns the path of the example binary that implements all odd servers.
pub(crate) fn odd_server() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/odd_server");
    assert!(program.exists(), "build it first: cargo build -p meerkat-mcp --examples");
    program
}

pub(crate) fn odd(name: &str, mode: &str) -> Value {
    json!({ "name": name, "command": odd_server(), "args": [mode], "era": "legacy" })
}

pub(crate) fn create_set(entries: &[Value]) -> Arc<ServerSet> {
    create_set_with(
        ServerSetOptions {
            launcher: Launcher { supervisor: Some(odd_server()), ..Launcher::default() },
            ..ServerSetOptions::default()
        },
        entries,
    )
}

pub(crate) fn create_set_with(options: ServerSetOptions, entries: &[Value]) -> Arc<ServerSet> {
    let set = ServerSet::new(options);
    for entry in entries {
        set.add(ServerConfig::from_json(entry).unwrap());
    }
    Arc::new(set)
}

pub(crate) async fn ready_set(entries: &[Value]) -> Arc<ServerSet> {
    let set = create_set(entries);
    assert!(set.wait_until_ready(LONG).await, "{:?}", set.views());
    set
}

pub(crate) fn view(set: &ServerSet, name: &str) -> ServerView {
    set.views().into_iter().find(|view| view.name == name).unwrap()
}

pub(crate) fn names(set: &ServerSet) -> Vec<String> {
    set.tools().iter().map(|tool| tool.def().name.clone()).collect()
}

pub(crate) fn tool(set: &ServerSet, name: &str) -> Arc<dyn Tool> {
    let tool = set.tools().into_iter().find(|tool| tool.def().name == name);
    tool.unwrap_or_else(|| panic!("no {name} among {:?}; {:?}", names(set), set.views()))
}

pub(crate) async fn call(set: &ServerSet, name: &str, args: Value) -> ToolOutput {
    run(&*tool(set, name), args).await
}

pub(crate) async fn run(tool: &dyn Tool, args: Value) -> ToolOutput {
    let id = "0190b6a0-0000-7000-8000-000000000000";
    let call = ToolCall { id: "c1".to_owned(), name: tool.def().name.clone(), args };
    let session_id: SessionId = id.parse().unwrap();
    let run_id: RunId = id.parse().unwrap();
    tool.call(Invocation { session_id, run_id, call, trace: None }).await
}

/// Waits until a condition is true.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..3000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("timed out: {what}");
}
