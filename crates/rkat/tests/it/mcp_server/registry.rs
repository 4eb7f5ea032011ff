//! Registered skills and prompts over MCP: a hub and a worker in this process, and a client of a server in another
//! process.

use std::fs;
use std::time::Duration;

use meerkat::hub::{Access, Client, ClientOptions, Invocation, LocalFunction, bind};
use meerkat::{
    Clock as _, ConfigChange, HostedHub, Realm, RealmOptions, RealmOrigin, Runtime, RuntimeOptions,
    SystemClock,
};
use meerkat_testkit::{McpClient, eventually};
use serde_json::{Value, json};
use tokio::runtime::Runtime as Tokio;

use super::support::TestEnv;

const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Hub of the realm `test`, and a worker connected to it.
struct HubFixture {
    tokio: Tokio,
    runtime: Runtime,
    worker: Option<Client>,
    _guards: (HostedHub, Box<dyn std::any::Any>),
}

impl HubFixture {
    fn new(env: &TestEnv) -> Self {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let options = RealmOptions {
            state_root: env.state(),
            realm: "test".parse().unwrap(),
            origin: RealmOrigin::Explicit,
            workspace: None,
            backend_hint: None,
            instance: None,
            surface: "it".to_owned(),
            now: SystemClock.now(),
            owner: uuid::Uuid::now_v7(),
        };
        let runtime = Runtime::new(Realm::open(options).unwrap(), RuntimeOptions::default());
        let (worker, hosted, beacon) = tokio.block_on(async {
            let hosted = runtime.host_hub(|_| {}).await.unwrap();
            let listener = bind("127.0.0.1:0", &Access::default()).unwrap();
            let url = format!("ws://{}", listener.local_addr().unwrap());
            let beacon = hosted.announce(url.clone(), None).unwrap();
            let hub = hosted.hub().clone();
            tokio::spawn(async move { hub.serve(listener, Access::default(), std::future::pending()).await });
            let options = ClientOptions { url, token: None, name: "demo".to_owned() };
            (Client::connect(options).await.unwrap(), hosted, beacon)
        });
        worker.register_function(LocalFunction::new("demo::guide", async |_| Ok(json!("# Guide"))));
        worker.register_function(LocalFunction::new("demo::greet", async |call: Invocation| {
            match call.data["name"].as_str() {
                Some(name) => Ok(json!({ "content": format!("Greet {name}.") })),
                None => Ok(json!({ "messages": [{ "role": "robot" }] })),
            }
        }));
        Self { tokio, runtime, worker: Some(worker), _guards: (hosted, Box::new(beacon)) }
    }

    fn call(&self, function: &str, data: &Value) -> Value {
        let worker = self.worker.as_ref().unwrap();
        self.tokio.block_on(worker.call(function, data, CALL_TIMEOUT)).unwrap()
    }

    /// Patches the key `registry` of the config, in this process.
    fn configure(&self, registry: &Value) {
        let Value::Object(patch) = json!({ "registry": registry }) else { unreachable!() };
        self.tokio.block_on(self.runtime.config().change(ConfigChange::Patch(patch), None)).unwrap();
    }
}

fn prompt(name: &str) -> Value {
    json!({
        "name": name, "description": "Greet a person.", "function_id": "demo::greet",
        "arguments": [{ "name": "name", "description": "Who", "required": true }],
    })
}

/// Waits for a notification after the first `seen` ones.
fn wait_for_notification(client: &mut McpClient, seen: usize, method: &str, uri: Option<&str>) {
    let matches =
        |notice: &Value| notice["method"] == method && uri.is_none_or(|uri| notice["params"]["uri"] == uri);
    eventually(method, || {
        client.request("ping", json!({}));
        client.notifications()[seen..].iter().any(matches)
    });
}

fn names(client: &mut McpClient) -> Vec<String> {
    let listed = client.request("prompts/list", json!({}))["result"]["prompts"].clone();
    listed.as_array().unwrap().iter().map(|prompt| prompt["name"].as_str().unwrap().to_owned()).collect()
}

fn uris(client: &mut McpClient) -> Vec<String> {
    let listed = client.request("resources/list", json!({}))["result"]["resources"].clone();
    let uris = listed.as_array().unwrap().iter().map(|resource| resource["uri"].as_str().unwrap().to_owned());
    uris.filter(|uri| uri.starts_with("iii://")).collect()
}

fn read(client: &mut McpClient, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri }))
}

#[test]
fn worker_prompts_and_skills_reach_clients() {
    let env = TestEnv::new();
    let mut client = env.server();
    assert_eq!(uris(&mut client), [""; 0]);
    // Only now does another process create the realm.
    let fixture = HubFixture::new(&env);
    let seen = client.notifications().len();
    fixture.call("prompts::register", &prompt("greet"));
    fixture.call("skills::register", &json!({ "id": "demo", "skill": "# Demo\n\nA demo.\n" }));
    wait_for_notification(&mut client, seen, "notifications/prompts/list_changed", None);
    wait_for_notification(&mut client, seen, "notifications/resources/list_changed", None);

    assert!(names(&mut client).contains(&"greet".to_owned()));
    let get = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    assert_eq!(
        client.request("prompts/get", get)["result"],
        json!({
            "description": "Greet a person.",
            "messages": [{ "role": "user", "content": { "type": "text", "text": "Greet Ada." } }],
        })
    );
    assert_eq!(uris(&mut client), ["iii://skills", "iii://demo"]);
    let text =
        |answer: Value| answer["result"]["contents"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text(read(&mut client, "iii://skills")).ends_with("- [`demo`](iii://demo) — Demo — A demo.\n"));
    assert_eq!(
        read(&mut client, "iii://demo")["result"]["contents"],
        json!([{ "uri": "iii://demo", "mimeType": "text/markdown", "text": "# Demo\n\nA demo.\n" }])
    );
    assert_eq!(text(read(&mut client, "iii://demo/demo::guide")), "# Guide");
    let loaded = client.request("tools/call", json!({ "name": "skill", "arguments": { "name": "demo" } }));
    assert!(loaded["result"]["content"][0]["text"].as_str().unwrap().contains("A demo."), "{loaded}");

    client.request("resources/subscribe", json!({ "uri": "iii://demo" }));
    let seen = client.notifications().len();
    fixture.call("skills::register", &json!({ "id": "demo", "skill": "# Demo\n\nOther.\n" }));
    wait_for_notification(&mut client, seen, "notifications/resources/updated", Some("iii://demo"));
    let seen = client.notifications().len();
    fixture.call("prompts::unregister", &json!({ "name": "greet" }));
    wait_for_notification(&mut client, seen, "notifications/prompts/list_changed", None);
    assert!(!names(&mut client).contains(&"greet".to_owned()));
}

#[test]
fn unknown_names_return_protocol_error_codes() {
    let env = TestEnv::new();
    let mut fixture = HubFixture::new(&env);
    fixture.call("prompts::register", &prompt("greet"));
    let mut client = env.server();
    let mut code = |uri: &str| {
        let error = read(&mut client, uri)["error"].clone();
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(code("iii://none"), (-32002, "Skill not found: none".to_owned()));
    assert_eq!(code("iii:///x"), (-32002, "Empty skill id in URI: iii:///x".to_owned()));
    let reserved = "Function 'state::list' is in an internal namespace and cannot back a skill resource";
    assert_eq!(code("iii://x/state::list"), (-32002, reserved.to_owned()));
    assert_eq!(code("iii://x/no::such").0, -32002);
    let mut get = |name: &str| client.request("prompts/get", json!({ "name": name }))["error"].clone();
    assert_eq!(get("none")["code"], -32602);
    // Without a name, the handler returns an invalid message.
    assert_eq!(get("greet")["code"], -32603);
    drop(fixture.worker.take());
    eventually("the worker is gone", || get("greet")["message"].as_str().unwrap().contains("not found"));
    let gone = get("greet");
    assert_eq!((&gone["code"], &gone["data"]["code"]), (&json!(-32602), &json!("INVALID_PARAMS")));
}

/// Asserts that every view, or none, has a skill and a prompt.
fn assert_views(client: &mut McpClient, name: &str, is_present: bool) {
    let uri = format!("iii://{name}");
    let tool = client.request("tools/call", json!({ "name": "skill", "arguments": { "name": name } }));
    let get = client.request("prompts/get", json!({ "name": name, "arguments": { "name": "Ada" } }));
    let file = read(client, &format!("skill://{name}/SKILL.md"));
    let argument = json!({ "name": "skill_id", "value": name });
    let request =
        json!({ "ref": { "type": "ref/resource", "uri": "iii://{skill_id}" }, "argument": argument });
    let completed = client.request("completion/complete", request)["result"]["completion"]["values"].clone();
    let views = [
        ("resources/list", uris(client).contains(&uri)),
        ("prompts/list", names(client).contains(&name.to_owned())),
        ("prompts/get", get.get("result").is_some()),
        ("resources/read", read(client, &uri).get("result").is_some()),
        ("skill tool", tool["result"]["content"][0]["text"].as_str().unwrap().contains("# Fresh")),
        ("skill file", file.get("result").is_some()),
        ("completion", completed != json!([])),
    ];
    let expected = views.map(|(view, _)| (view, is_present));
    assert_eq!(views, expected, "{name}");
}

#[test]
fn registration_appears_in_every_view_at_once() {
    let env = TestEnv::new();
    let fixture = HubFixture::new(&env);
    let mut client = env.server();
    assert_eq!(uris(&mut client), [""; 0]);
    for number in 0..10 {
        let name = format!("fresh-{number}");
        fixture.call("skills::register", &json!({ "id": name, "skill": "# Fresh\n\nNew.\n" }));
        fixture.call("prompts::register", &prompt(&name));
        assert_views(&mut client, &name, true);
        fixture.call("skills::unregister", &json!({ "id": name }));
        fixture.call("prompts::unregister", &json!({ "name": name }));
        assert_views(&mut client, &name, false);
    }
}

#[test]
fn every_view_follows_external_config_change() {
    let env = TestEnv::new();
    let fixture = HubFixture::new(&env);
    let mut client = env.server();
    let register = |name: &str| {
        fixture.call("skills::register", &json!({ "id": name, "skill": "# Fresh\n\nNew.\n" }));
        fixture.call("prompts::register", &prompt(name));
    };
    register("first");
    assert_views(&mut client, "first", true);
    fixture.configure(&json!({ "scopes": { "skills": "x", "prompts": "y" } }));
    register("second");
    // The first request after the change sees the new scope that another process has written.
    assert!(read(&mut client, "iii://second").get("result").is_some());
    assert_views(&mut client, "second", true);
    assert_views(&mut client, "first", false);
    fixture.configure(&json!({ "enabled": false }));
    assert!(read(&mut client, "iii://second").get("error").is_some());
    assert_views(&mut client, "second", false);
    assert_eq!(uris(&mut client), [""; 0]);
    fixture.configure(&json!({ "enabled": true, "scopes": null }));
    assert_views(&mut client, "first", true);
    assert_views(&mut client, "second", false);
}

#[test]
fn external_config_change_notifies_clients() {
    let env = TestEnv::new();
    let fixture = HubFixture::new(&env);
    fixture.call("skills::register", &json!({ "id": "demo", "skill": "# Demo" }));
    fixture.call("prompts::register", &prompt("greet"));
    let mut client = env.server();
    assert_eq!(uris(&mut client), ["iii://skills", "iii://demo"]);
    for enabled in [false, true] {
        let seen = client.notifications().len();
        fixture.configure(&json!({ "enabled": enabled }));
        wait_for_notification(&mut client, seen, "notifications/prompts/list_changed", None);
        wait_for_notification(&mut client, seen, "notifications/resources/list_changed", None);
        // The notifications may be about an earlier change.
        eventually("the change is served", || uris(&mut client).is_empty() != enabled);
    }
}

#[test]
fn ids_are_completed_and_name_clash_is_logged() {
    let env = TestEnv::new();
    let dir = env.path("project/.agent/skills/deploy");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("SKILL.md"), "---\nname: deploy\ndescription: Ship it.\n---\nShip.\n").unwrap();
    let fixture = HubFixture::new(&env);
    for id in ["alpha", "alpine", "beta"] {
        fixture.call("skills::register", &json!({ "id": id, "skill": "x" }));
    }
    for name in ["deploy", "greet"] {
        fixture.call("prompts::register", &prompt(name));
    }
    let project = env.path("project");
    let arguments = ["--realm", "test", "--context-root", project.to_str().unwrap()];
    let mut client = McpClient::start(&mut env.command(&arguments));
    let listed = names(&mut client);
    // The built-in skills are in between.
    assert_eq!(
        (&*listed[0], &listed[listed.len() - 2..]),
        ("deploy", &["deploy-registry".to_owned(), "greet".to_owned()][..])
    );
    let got =
        client.request("prompts/get", json!({ "name": "deploy-registry", "arguments": { "name": "Ada" } }));
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "Greet Ada.");
    let line = "warning: the registered prompt `deploy` is served as `deploy-registry`, because a skill has the same name";
    eventually("the clash is logged", || env.log().contains(line));

    let mut complete = |uri: &str, name: &str, value: &str| {
        let argument = json!({ "name": name, "value": value });
        let request = json!({ "ref": { "type": "ref/resource", "uri": uri }, "argument": argument });
        client.request("completion/complete", request)["result"]["completion"]["values"].clone()
    };
    assert_eq!(complete("iii://{skill_id}", "skill_id", "alp"), json!(["alpha", "alpine"]));
    assert_eq!(complete("iii://{skill_id}/{function_id}", "skill_id", "b"), json!(["beta"]));
    assert_eq!(complete("iii://{skill_id}/{function_id}", "function_id", "demo::gu"), json!(["demo::guide"]));
    assert_eq!(complete("iii://{skill_id}/{function_id}", "function_id", "state"), json!([]));
    let request = json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "name", "value": "" } });
    assert_eq!(client.request("completion/complete", request)["result"]["completion"]["values"], json!([]));
}
