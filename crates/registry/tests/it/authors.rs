//! Callers that may change only their own entries, and use only some functions.

use std::time::Duration;

use meerkat_registry::{Author, Error, Kind, Options, Registry, Scopes};
use serde_json::{Value, json};

use crate::support::{Answer, registry};

/// Calls a function for an author that may use functions of `demo::`.
async fn call_as(registry: &Registry, name: &str, function: &str, data: Value) -> Result<Value, Error> {
    let (may_replace, may_use) =
        (|owner: &str| owner == name, |function: &str| function.starts_with("demo::"));
    let author = Author { name, may_replace: &may_replace, may_use: &may_use };
    registry.call_as(Some(author), function, data).await
}

#[tokio::test]
async fn author_changes_only_its_own_entries() {
    let (registry, bus) = registry();
    let skill = |id: &str| json!({ "id": id, "skill": "# x" });
    registry.call("skills::register", skill("open")).await.unwrap();
    call_as(&registry, "ada", "skills::register", skill("own")).await.unwrap();
    call_as(&registry, "ada", "skills::register", skill("own")).await.unwrap();
    assert_eq!(bus.values.lock().unwrap()[&("skills".to_owned(), "own".to_owned())]["owner"], "ada");
    for (name, id) in [("bob", "own"), ("bob", "open"), ("ada", "open")] {
        for (function, data) in [("skills::register", skill(id)), ("skills::unregister", json!({ "id": id }))]
        {
            let error = call_as(&registry, name, function, data).await.unwrap_err();
            assert_eq!(error.to_string(), format!("skill '{id}' was registered by another worker"));
            assert_eq!(error.kind(), Kind::Refused);
        }
    }
    let removed = call_as(&registry, "ada", "skills::unregister", json!({ "id": "own" })).await.unwrap();
    assert_eq!(removed, json!({ "id": "own", "removed": true }));
    // A caller without limits changes everything.
    call_as(&registry, "ada", "skills::register", skill("own")).await.unwrap();
    registry.call("skills::register", skill("own")).await.unwrap();
    let error = call_as(&registry, "ada", "skills::register", skill("own")).await.unwrap_err();
    assert_eq!(error.to_string(), "skill 'own' was registered by another worker");
}

#[tokio::test]
async fn author_reaches_only_functions_it_may_use() {
    let (registry, bus) = registry();
    bus.answer("demo::guide", Answer::Value(json!("text")));
    bus.answer("admin::secrets", Answer::Value(json!("secret")));
    let prompt = |function: &str| json!({ "name": "p", "description": "d", "function_id": function });
    let error = call_as(&registry, "ada", "prompts::register", prompt("admin::secrets")).await.unwrap_err();
    assert_eq!(error.to_string(), "function 'admin::secrets' not allowed");
    call_as(&registry, "ada", "prompts::register", prompt("demo::guide")).await.unwrap();
    let read = |uri: &'static str| call_as(&registry, "ada", "skills::resources-read", json!({ "uri": uri }));
    assert_eq!(
        read("iii://x/admin::secrets").await.unwrap_err().to_string(),
        "function 'admin::secrets' not allowed"
    );
    assert_eq!(read("iii://x/demo::guide").await.unwrap()["contents"][0]["text"], "text");
}

#[tokio::test]
async fn author_gets_only_prompts_it_may_run() {
    let (registry, bus) = registry();
    bus.answer("demo::guide", Answer::Value(json!("text")));
    bus.answer("admin::secrets", Answer::Value(json!("secret")));
    for (name, function) in [("open", "demo::guide"), ("closed", "admin::secrets")] {
        let prompt = json!({ "name": name, "description": "d", "function_id": function });
        registry.call("prompts::register", prompt).await.unwrap();
    }
    let get = |name: &'static str| {
        call_as(&registry, "ada", "prompts::mcp-get", json!({ "name": name, "arguments": { "a": 1 } }))
    };
    let error = get("closed").await.unwrap_err();
    assert_eq!(
        (error.to_string(), error.kind()),
        ("function 'admin::secrets' not allowed".to_owned(), Kind::Refused)
    );
    assert_eq!(get("open").await.unwrap()["messages"][0]["content"]["text"], "text");
    // The handler of the prompt that the author may not run is never called.
    assert_eq!(*bus.calls.lock().unwrap(), [("demo::guide".to_owned(), json!({ "a": 1 }))]);
    // A caller without limits gets every prompt.
    let got = registry.call("prompts::mcp-get", json!({ "name": "closed" })).await.unwrap();
    assert_eq!(got["messages"][0]["content"]["text"], "secret");
}

#[tokio::test]
async fn changed_options_apply_to_the_next_call() {
    let (registry, bus) = registry();
    let skill = json!({ "id": "a", "skill": "# A" });
    registry.subscribe("skills::on-change", "x", "demo::changed");
    registry.call("skills::register", skill.clone()).await.unwrap();
    let scopes = Scopes { skills: "other".to_owned(), ..Scopes::default() };
    let changes = registry.changes();
    registry.set_options(Options { scopes, timeout: Duration::from_secs(1) });
    assert!(changes.has_changed().unwrap());
    assert_eq!(registry.call("skills::list", json!({})).await.unwrap(), json!({ "skills": [] }));
    registry.call("skills::register", skill).await.unwrap();
    let keys: Vec<_> = bus.values.lock().unwrap().keys().cloned().collect();
    assert_eq!(keys, [("other".to_owned(), "a".to_owned()), ("skills".to_owned(), "a".to_owned())]);
    // The subscriptions still exist.
    assert_eq!(bus.sent.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn pinned_registry_keeps_its_options() {
    let (registry, bus) = registry();
    let options = |skills: &str| {
        let scopes = Scopes { skills: skills.to_owned(), ..Scopes::default() };
        Options { scopes, timeout: Duration::from_secs(1) }
    };
    let (before, own) = (registry.pinned(), registry.with_options(options("own")));
    registry.set_options(options("later"));
    for registry in [&before, &own, &registry] {
        registry.call("skills::register", json!({ "id": "a", "skill": "# A" })).await.unwrap();
    }
    let scopes: Vec<_> = bus.values.lock().unwrap().keys().map(|(scope, _)| scope.clone()).collect();
    assert_eq!(scopes, ["later", "own", "skills"]);
}
