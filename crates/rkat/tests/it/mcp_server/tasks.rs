//! Runs as tasks: their state while they run, when they finish, and after a restart.

use meerkat_testkit::web::modern;
use meerkat_testkit::{McpClient, eventually};
use serde_json::{Value, json};

use super::support::{
    LONG, TestEnv, UNKNOWN_SESSION, expected_messages, id_of, read_messages, text_of, until_idle,
};

/// Sends a self-contained request of a client that supports tasks.
fn ask(client: &mut McpClient, method: &str, params: Value) -> Value {
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    client.request(method, modern(method, params, capabilities)["params"].clone())
}

/// Starts a run as a task and returns its id.
fn start(client: &mut McpClient, arguments: &Value) -> String {
    let reply = ask(client, "tools/call", json!({ "name": "meerkat_run", "arguments": arguments }));
    assert_eq!(reply["result"]["resultType"], "task", "{reply}");
    reply["result"]["taskId"].as_str().expect("a task id").to_owned()
}

fn get(client: &mut McpClient, task: &str) -> Value {
    let reply = ask(client, "tasks/get", json!({ "taskId": task }));
    assert!(reply["result"].is_object(), "{task}: {reply}");
    reply["result"].clone()
}

fn until(client: &mut McpClient, task: &str, status: &str) -> Value {
    eventually(&format!("{task} is {status}"), || get(client, task)["status"] == status);
    get(client, task)
}

fn session_of(task: &str) -> &str {
    task.split_once('.').expect("a task names its session").0
}

/// Asserts that a result matches the output schema of `meerkat_run`.
fn assert_matches_schema(client: &mut McpClient, payload: &Value) {
    let listed = ask(client, "tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("a list of tools");
    let tool = tools.iter().find(|tool| tool["name"] == "meerkat_run").expect("the tool");
    let validator = jsonschema::draft202012::new(&tool["outputSchema"]).expect("a schema");
    assert!(validator.is_valid(payload), "{payload}");
}

#[test]
fn finished_task_has_no_status_message() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let task = start(&mut client, &json!({ "prompt": "say hello" }));
    let done = until(&mut client, &task, "completed");
    assert_eq!(text_of(&done["result"]["structuredContent"]), "hello");
    assert_eq!(done.get("statusMessage"), None, "{done}");
}

#[test]
fn task_outcome_survives_a_restart() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let tool = json!({ "name": "look", "description": "Looks.", "input_schema": { "type": "object" } });
    let done = start(&mut client, &json!({ "prompt": "say hello" }));
    let waits = start(&mut client, &json!({ "prompt": "call look {\"at\": 1}", "tools": [tool] }));
    let failed = start(&mut client, &json!({ "prompt": "fail auth" }));
    let stopped = start(&mut client, &json!({ "prompt": LONG }));
    for task in [&done, &waits, &failed] {
        until(&mut client, task, "completed");
    }
    let before = get(&mut client, &waits)["result"]["structuredContent"].clone();
    assert_eq!(get(&mut client, &stopped)["status"], "working");
    ask(&mut client, "tasks/cancel", json!({ "taskId": stopped }));
    until(&mut client, &stopped, "cancelled");
    assert!(client.close().success());

    let mut client = env.silent_server();
    let after = get(&mut client, &done);
    let payload = &after["result"]["structuredContent"];
    assert_eq!((&after["status"], text_of(payload)), (&json!("completed"), "hello"));
    assert_eq!(id_of(payload), session_of(&done));
    assert_eq!((payload.get("turns"), payload["warnings"].as_array().map(Vec::len)), (None, Some(1)));
    assert_matches_schema(&mut client, payload);

    let after = get(&mut client, &waits);
    let payload = &after["result"]["structuredContent"];
    assert_eq!((&after["status"], &payload["status"]), (&json!("completed"), &json!("pending_tool_call")));
    assert_eq!(payload["pending_tool_calls"][0]["tool_name"], "look");
    assert_eq!(*payload, before);
    assert_matches_schema(&mut client, payload);

    let after = get(&mut client, &failed);
    assert_eq!((&after["status"], &after["result"]["isError"]), (&json!("completed"), &json!(true)));
    let text = after["result"]["content"][0]["text"].as_str().expect("a text");
    let error: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&error["code"], &error["data"]["error_class"]), (&json!("AGENT_ERROR"), &json!("auth")));
    assert_eq!(error["data"]["session_id"], session_of(&failed));

    assert_eq!(get(&mut client, &stopped)["status"], "cancelled");
}

#[test]
fn task_of_killed_server_fails_and_session_resumes() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let task = start(&mut client, &json!({ "prompt": LONG }));
    client.kill();
    let mut client = env.silent_server();
    let after = get(&mut client, &task);
    assert_eq!(after["status"], "failed", "{after}");
    let data = json!({ "session_id": session_of(&task), "resumable": true });
    assert_eq!(after["error"]["data"], data);
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session_of(&task), "prompt": "say on" }));
    assert_eq!(text_of(&resumed), "on");
    let superseded = ask(&mut client, "tasks/get", json!({ "taskId": task }));
    assert_eq!(superseded["error"]["code"], -32602, "a later run replaced it: {superseded}");
}

#[test]
fn invalid_task_ids_are_rejected() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let task = start(&mut client, &json!({ "prompt": "say hello" }));
    until(&mut client, &task, "completed");
    assert!(client.close().success());
    let mut client = env.silent_server();
    let (session, run) = task.split_once('.').expect("a task names its session");
    let names = [
        session.to_owned(),
        format!("{session}."),
        format!("{session}.x"),
        format!("{session}.{UNKNOWN_SESSION}"),
        format!("{UNKNOWN_SESSION}.{run}"),
        format!("{session}.{}", run.to_uppercase()),
        format!("{session}.{run}.{run}"),
        String::new(),
    ];
    for name in names {
        for method in ["tasks/get", "tasks/cancel"] {
            let reply = ask(&mut client, method, json!({ "taskId": name }));
            assert_eq!(reply["error"]["code"], -32602, "{method} {name}: {reply}");
        }
    }
}

#[test]
fn task_of_another_server_can_be_cancelled() {
    let env = TestEnv::new();
    let (mut runs, mut other) = (env.silent_server(), env.silent_server());
    let task = start(&mut runs, &json!({ "prompt": LONG }));
    assert_eq!(get(&mut other, &task)["status"], "working");
    let stopped = ask(&mut other, "tasks/cancel", json!({ "taskId": task }));
    assert!(stopped["result"].is_object(), "{stopped}");
    until(&mut other, &task, "cancelled");
    until_idle(&mut runs, session_of(&task));
}

#[test]
fn task_run_is_committed_when_input_closes() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let task = start(&mut client, &json!({ "prompt": LONG }));
    client.close_input();
    assert!(client.wait().success());
    let mut client = env.silent_server();
    assert_eq!(get(&mut client, &task)["status"], "cancelled", "the outcome is stored");
    assert_eq!(
        read_messages(&mut client, session_of(&task)),
        expected_messages(&[("user", LONG), ("assistant", "")])
    );
}

#[test]
fn end_of_task_notifies_session_watchers() {
    let env = TestEnv::new();
    let mut client = env.server();
    let task = start(&mut client, &json!({ "prompt": "wait 300" }));
    let uri = format!("meerkat://session/{}/history?offset=1", session_of(&task));
    assert_eq!(client.request("resources/subscribe", json!({ "uri": uri }))["result"], json!({}));
    until(&mut client, &task, "completed");
    eventually("the end of the task is notified", || {
        client.request("ping", json!({}));
        let updated = |notice: &&Value| notice["method"] == "notifications/resources/updated";
        client.notifications().iter().filter(updated).any(|notice| notice["params"]["uri"] == uri)
    });
}
