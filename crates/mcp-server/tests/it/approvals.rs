//! Calls that need the user's approval, through every kind of client.

use meerkat::{Clock as _, ConfigChange, Origin, Realm, RealmOptions, Runtime, RuntimeOptions, SystemClock};
use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use crate::support::{Place, eventually, hello, id_of};
use crate::web::{Web, modern, payload};

/// A run whose only call is of a tool, under a policy that asks for all.
fn wished() -> Value {
    json!({ "prompt": "call datetime {}", "enable_builtins": true, "approval_policy": "always" })
}

/// A server whose client can show its user a form.
fn asking(place: &Place) -> McpClient {
    let mut client = place.silent_server();
    let mut params = hello("2025-11-25");
    params["capabilities"] = json!({ "elicitation": {} });
    client.request("initialize", params);
    client.notify("notifications/initialized", json!({}));
    client
}

/// Waits until the server asks something.
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

/// Waits for the reply to a call, past what the server asks.
fn reply(client: &mut McpClient, id: u64) -> Value {
    loop {
        let message = client.receive();
        if message["id"] == id && message.get("method").is_none() {
            return message["result"]["structuredContent"].clone();
        }
    }
}

/// Changes the config, as the owner of the realm does.
fn configure(place: &Place, patch: Value) {
    let realm = Realm::open(RealmOptions {
        state_root: place.state(),
        realm: "test".parse().expect("a name"),
        origin: Origin::Explicit,
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
    work.block_on(runtime.config().change(ConfigChange::Patch(patch), None)).expect("it is changed");
}

/// What the agent was told of its call.
fn told(client: &mut McpClient, session: &str) -> String {
    let history = client.expect_tool("meerkat_history", json!({ "session_id": session }));
    let messages = history["messages"].as_array().expect("messages");
    let results = messages.iter().find(|message| message["role"] == "tool_results").expect("results");
    results["results"][0]["content"].to_string()
}

#[test]
fn a_client_with_forms_asks_its_user_and_the_run_goes_on() {
    let place = Place::new();
    let mut client = asking(&place);
    let cases = [
        (json!({ "action": "accept", "content": { "approve": true } }), 1, "iso8601"),
        (json!({ "action": "accept", "content": { "approve": false, "reason": "not now" } }), 0, "not now"),
        (json!({ "action": "accept", "content": {} }), 0, "did not approve"),
        (json!({ "action": "decline" }), 0, "did not approve"),
        (json!({ "action": "cancel" }), 0, "did not approve"),
    ];
    for (said, ran, words) in cases {
        let call = client.begin_tool("meerkat_run", wished());
        let asked = question(&mut client);
        let message = asked["params"]["message"].as_str().expect("a message");
        assert!(message.contains("`datetime`"), "{message}");
        assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["approve"]));
        answer(&mut client, &asked, &said);
        let done = reply(&mut client, call);
        assert_eq!((&done["tool_calls"], &done["turns"]), (&json!(ran), &json!(2)), "{said}: {done}");
        assert!(told(&mut client, &id_of(&done)).contains(words), "{said}");
    }
}

#[test]
fn a_client_that_cannot_ask_gets_the_question_and_answers_after_a_restart() {
    let place = Place::new();
    let mut client = place.server();
    let waiting = client.expect_tool("meerkat_run", wished());
    assert_eq!((&waiting["status"], waiting.get("turns")), (&json!("pending_approval"), None));
    let call = &waiting["pending_approvals"][0];
    assert_eq!(call["tool_name"], "datetime");
    client.kill();

    let mut client = place.server();
    let session = id_of(&waiting);
    let empty = client.tool("meerkat_resume", json!({ "session_id": session })).payload;
    assert_eq!(empty["code"], "INVALID_PARAMS");
    assert_eq!(empty["message"], "`prompt` is empty and there are no `tool_results` or `approvals`");
    let approvals = json!([{ "tool_use_id": call["tool_use_id"], "approve": true }]);
    let done = client.expect_tool("meerkat_resume", json!({ "session_id": session, "approvals": approvals }));
    assert_eq!((&done["tool_calls"], &done["turns"]), (&json!(1), &json!(2)), "{done}");
}

#[test]
fn a_client_that_refuses_the_question_gets_it_as_the_reply() {
    let place = Place::new();
    let mut client = asking(&place);
    let call = client.begin_tool("meerkat_run", wished());
    let asked = question(&mut client);
    let error = json!({ "code": -32601, "message": "no" });
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }));
    assert_eq!(reply(&mut client, call)["status"], "pending_approval");
}

#[test]
fn a_user_who_never_answers_has_denied() {
    let place = Place::new();
    configure(&place, json!({ "approvals": { "timeout": "200ms" } }));
    let mut client = asking(&place);
    let call = client.begin_tool("meerkat_run", wished());
    question(&mut client);
    let done = reply(&mut client, call);
    assert_eq!((&done["tool_calls"], &done["turns"]), (&json!(0), &json!(2)), "{done}");
    assert!(told(&mut client, &id_of(&done)).contains("nobody answered in time"));
}

#[test]
fn a_modern_client_is_asked_in_rounds() {
    let place = Place::new();
    let mut client = place.silent_server();
    let mut ask = |extra: &Value| {
        let mut params = json!({ "name": "meerkat_run", "arguments": wished() });
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
    assert_eq!(again["result"]["isError"], true, "what is decided is decided: {again}");
    let forged = ask(&json!({ "inputResponses": yes, "requestState": "forged" }));
    assert!(forged["error"].is_object(), "{forged}");
}

#[test]
fn a_task_waits_for_what_its_client_asks_the_user() {
    let place = Place::new();
    let mut client = place.silent_server();
    let mut ask = |method: &str, params: Value| {
        let capabilities =
            json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let reply = client.request(method, modern(method, params, capabilities)["params"].clone());
        assert!(reply["result"].is_object(), "{method}: {reply}");
        reply["result"].clone()
    };
    let started = ask("tools/call", json!({ "name": "meerkat_run", "arguments": wished() }));
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
    let place = Place::new();
    configure(&place, json!({ "tools": { "builtins_enabled": true } }));
    let web = Web::start_with(&place, &["--no-token"]);
    let run = json!({ "name": "meerkat_run", "arguments": wished() });
    let waiting = payload(&web.modern("tools/call", run, json!({ "elicitation": {} })));
    assert_eq!(waiting["status"], "pending_approval", "{waiting}");
    let approve = json!({ "tool_use_id": waiting["pending_approvals"][0]["tool_use_id"], "approve": true });
    let resume = json!({ "session_id": id_of(&waiting), "prompt": "", "approvals": [approve] });
    let resume = json!({ "name": "meerkat_resume", "arguments": resume });
    let refused = web.modern("tools/call", resume, json!({}))["result"].to_string();
    assert!(refused.contains("approving a tool call needs a token"), "{refused}");
}
