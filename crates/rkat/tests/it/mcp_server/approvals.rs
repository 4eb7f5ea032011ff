//! Calls that need the user's approval, through every kind of client.

use meerkat::{
    Clock as _, ConfigChange, Realm, RealmOptions, RealmOrigin, Runtime, RuntimeOptions, SystemClock,
};
use meerkat_testkit::web::{modern, payload};
use meerkat_testkit::{McpClient, eventually};
use serde_json::{Value, json};

use super::support::{TestEnv, hello, id_of};
use super::web::Web;

/// Arguments of a run with a single tool call, under a policy that requires approval for all calls.
fn run_arguments() -> Value {
    json!({ "prompt": "call datetime {}", "enable_builtins": true, "approval_policy": "always" })
}

/// Starts a server with a client that can show its user a form.
fn form_client(env: &TestEnv) -> McpClient {
    let mut client = env.silent_server();
    let mut params = hello("2025-11-25");
    params["capabilities"] = json!({ "elicitation": {} });
    client.request("initialize", params);
    client.notify("notifications/initialized", json!({}));
    client
}

/// Waits for a question from the server.
fn question(client: &mut McpClient) -> Value {
    loop {
        let message = client.receive();
        if message["method"] == "elicitation/create" {
            return message;
        }
    }
}

fn answer(client: &mut McpClient, question: &Value, answer: &Value) {
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
}

/// Waits for the reply to a call, skipping requests from the server.
fn reply(client: &mut McpClient, id: u64) -> Value {
    loop {
        let message = client.receive();
        if message["id"] == id && message.get("method").is_none() {
            return message["result"]["structuredContent"].clone();
        }
    }
}

/// Changes the config as the owner of the realm.
fn configure(env: &TestEnv, patch: Value) {
    let realm = Realm::open(RealmOptions {
        state_root: env.state(),
        realm: "test".parse().expect("a name"),
        origin: RealmOrigin::Explicit,
        workspace: None,
        backend_hint: None,
        instance: None,
        surface: "test".to_owned(),
        now: SystemClock.now(),
        owner: uuid::Uuid::now_v7(),
    });
    let runtime = Runtime::new(realm.expect("a realm"), RuntimeOptions::default());
    let Value::Object(patch) = patch else { panic!("{patch}") };
    let work = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    work.block_on(runtime.config().change(ConfigChange::Patch(patch), None)).expect("the config is changed");
}

/// Returns the call's result as the agent sees it.
fn call_result(client: &mut McpClient, session: &str) -> String {
    let history = client.expect_tool("meerkat_history", json!({ "session_id": session }));
    let messages = history["messages"].as_array().expect("messages");
    let results = messages.iter().find(|message| message["role"] == "tool_results").expect("results");
    results["results"][0]["content"].to_string()
}

#[test]
fn form_client_asks_user_and_run_resumes() {
    let env = TestEnv::new();
    let mut client = form_client(&env);
    let cases = [
        (json!({ "action": "accept", "content": { "approve": true } }), 1, "iso8601"),
        (json!({ "action": "accept", "content": { "approve": false, "reason": "not now" } }), 0, "not now"),
        (json!({ "action": "accept", "content": {} }), 0, "did not approve"),
        (json!({ "action": "decline" }), 0, "did not approve"),
        (json!({ "action": "cancel" }), 0, "did not approve"),
    ];
    for (reaction, ran, words) in cases {
        let call = client.begin_tool("meerkat_run", run_arguments());
        let elicitation = question(&mut client);
        let message = elicitation["params"]["message"].as_str().expect("a message");
        assert!(message.contains("`datetime`"), "{message}");
        assert_eq!(elicitation["params"]["requestedSchema"]["required"], json!(["approve"]));
        answer(&mut client, &elicitation, &reaction);
        let done = reply(&mut client, call);
        assert_eq!((&done["tool_calls"], &done["turns"]), (&json!(ran), &json!(2)), "{reaction}: {done}");
        assert!(call_result(&mut client, &id_of(&done)).contains(words), "{reaction}");
    }
}

#[test]
fn pending_approval_can_be_answered_after_restart() {
    let env = TestEnv::new();
    let mut client = env.server();
    let waiting = client.expect_tool("meerkat_run", run_arguments());
    assert_eq!((&waiting["status"], waiting.get("turns")), (&json!("pending_approval"), None));
    let call = &waiting["pending_approvals"][0];
    assert_eq!(call["tool_name"], "datetime");
    client.kill();

    let mut client = env.server();
    let session = id_of(&waiting);
    let empty = client.tool("meerkat_resume", json!({ "session_id": session })).payload;
    assert_eq!(empty["code"], "INVALID_PARAMS");
    assert_eq!(empty["message"], "`prompt` is empty and there are no `tool_results` or `approvals`");
    let approvals = json!([{ "tool_use_id": call["tool_use_id"], "approve": true }]);
    let done = client.expect_tool("meerkat_resume", json!({ "session_id": session, "approvals": approvals }));
    assert_eq!((&done["tool_calls"], &done["turns"]), (&json!(1), &json!(2)), "{done}");
}

#[test]
fn rejected_question_is_returned_as_reply() {
    let env = TestEnv::new();
    let mut client = form_client(&env);
    let call = client.begin_tool("meerkat_run", run_arguments());
    let elicitation = question(&mut client);
    let error = json!({ "code": -32601, "message": "no" });
    client.send(&json!({ "jsonrpc": "2.0", "id": elicitation["id"], "error": error }));
    assert_eq!(reply(&mut client, call)["status"], "pending_approval");
}

#[test]
fn unanswered_question_is_a_denial() {
    let env = TestEnv::new();
    configure(&env, json!({ "approvals": { "timeout": "200ms" } }));
    let mut client = form_client(&env);
    let call = client.begin_tool("meerkat_run", run_arguments());
    question(&mut client);
    let done = reply(&mut client, call);
    assert_eq!((&done["tool_calls"], &done["turns"]), (&json!(0), &json!(2)), "{done}");
    assert!(call_result(&mut client, &id_of(&done)).contains("approval timed out"));
}

#[test]
fn modern_client_is_asked_in_rounds() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let mut ask = |extra: &Value| {
        let mut params = json!({ "name": "meerkat_run", "arguments": run_arguments() });
        for (key, value) in extra.as_object().expect("an object") {
            params[key] = value.clone();
        }
        let capabilities = json!({ "elicitation": {} });
        client.request("tools/call", modern("tools/call", params, capabilities)["params"].clone())
    };
    let first = ask(&json!({}));
    let round = &first["result"];
    assert_eq!(round["resultType"], "input_required", "{first}");
    assert_eq!(round["inputRequests"]["approval_0"]["method"], "elicitation/create");
    let yes = json!({ "approval_0": { "action": "accept", "content": { "approve": true } } });
    let state = &round["requestState"];
    let done = ask(&json!({ "inputResponses": yes, "requestState": state }));
    let payload = &done["result"]["structuredContent"];
    assert_eq!((&payload["tool_calls"], &payload["turns"]), (&json!(1), &json!(2)), "{done}");

    let again = ask(&json!({ "inputResponses": yes, "requestState": state }));
    assert_eq!(again["result"]["isError"], true, "a decision is final: {again}");
    let forged = ask(&json!({ "inputResponses": yes, "requestState": "forged" }));
    assert!(forged["error"].is_object(), "{forged}");
}

#[test]
fn task_waits_for_approval_from_client() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let mut ask = |method: &str, params: Value| {
        let capabilities =
            json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let reply = client.request(method, modern(method, params, capabilities)["params"].clone());
        assert!(reply["result"].is_object(), "{method}: {reply}");
        reply["result"].clone()
    };
    let started = ask("tools/call", json!({ "name": "meerkat_run", "arguments": run_arguments() }));
    let task = json!({ "taskId": started["taskId"] });
    let mut waiting = Value::Null;
    eventually("the task asks", || {
        waiting = ask("tasks/get", task.clone());
        waiting["status"] == "input_required"
    });
    let key = waiting["inputRequests"].as_object().expect("questions").keys().next().expect("one").clone();
    let yes = json!({ key: { "action": "accept", "content": { "approve": true } } });
    ask("tasks/update", json!({ "taskId": started["taskId"], "inputResponses": yes }));
    let mut done = Value::Null;
    eventually("the task is done", || {
        done = ask("tasks/get", task.clone());
        done["status"] == "completed"
    });
    assert_eq!(done["result"]["structuredContent"]["tool_calls"], 1, "{done}");
}

#[test]
fn client_without_a_token_is_not_asked() {
    let env = TestEnv::new();
    configure(&env, json!({ "tools": { "builtins_enabled": true } }));
    let web = Web::start_with(&env, &["--no-token"]);
    let run = json!({ "name": "meerkat_run", "arguments": run_arguments() });
    let waiting = payload(&web.modern("tools/call", run, json!({ "elicitation": {} })));
    assert_eq!(waiting["status"], "pending_approval", "{waiting}");
    let approve = json!({ "tool_use_id": waiting["pending_approvals"][0]["tool_use_id"], "approve": true });
    let resume = json!({ "session_id": id_of(&waiting), "prompt": "", "approvals": [approve] });
    let resume = json!({ "name": "meerkat_resume", "arguments": resume });
    let denied = web.modern("tools/call", resume, json!({}))["result"].to_string();
    assert!(denied.contains("approving a tool call needs a token"), "{denied}");
}
