//! Notifications: every change is reported once to each subscription.

use meerkat_registry::{PROMPTS_ON_CHANGE, SKILLS_ON_CHANGE};
use serde_json::json;

use crate::support::registry;

#[tokio::test]
async fn change_notifies_each_subscription_once() {
    let (registry, bus) = registry();
    registry.subscribe(SKILLS_ON_CHANGE, "1", "a::on");
    registry.subscribe(SKILLS_ON_CHANGE, "2", "a::on");
    registry.subscribe(PROMPTS_ON_CHANGE, "3", "b::on");
    // The same trigger again, as after a reconnect.
    registry.subscribe(SKILLS_ON_CHANGE, "2", "a::on");
    let changes = registry.changes();

    registry.call("skills::register", json!({ "id": "demo", "skill": "x" })).await.unwrap();
    let change = json!({ "op": "register", "id": "demo" });
    let expected = vec![("a::on".to_owned(), change.clone()), ("a::on".to_owned(), change)];
    assert_eq!(std::mem::take(&mut *bus.sent.lock().unwrap()), expected);

    registry.unsubscribe("1");
    registry.unsubscribe("none");
    registry.call("skills::unregister", json!({ "id": "demo" })).await.unwrap();
    let expected = vec![("a::on".to_owned(), json!({ "op": "unregister", "id": "demo" }))];
    assert_eq!(std::mem::take(&mut *bus.sent.lock().unwrap()), expected);

    let prompt = json!({ "name": "p", "description": "d", "function_id": "f" });
    registry.call("prompts::register", prompt).await.unwrap();
    registry.call("prompts::unregister", json!({ "name": "p" })).await.unwrap();
    let event = |op: &str| ("b::on".to_owned(), json!({ "op": op, "name": "p" }));
    assert_eq!(std::mem::take(&mut *bus.sent.lock().unwrap()), vec![event("register"), event("unregister")]);
    assert_eq!(*changes.borrow(), 4);
}

#[tokio::test]
async fn calls_without_a_change_do_not_notify() {
    let (registry, bus) = registry();
    registry.subscribe(SKILLS_ON_CHANGE, "1", "a::on");
    registry.subscribe(PROMPTS_ON_CHANGE, "2", "a::on");
    registry.call("skills::unregister", json!({ "id": "demo" })).await.unwrap();
    registry.call("prompts::unregister", json!({ "name": "demo" })).await.unwrap();
    registry.call("skills::register", json!({ "id": "Bad", "skill": "x" })).await.unwrap_err();
    *bus.broken.lock().unwrap() = Some("no");
    registry.call("skills::register", json!({ "id": "demo", "skill": "x" })).await.unwrap_err();
    assert_eq!(*bus.sent.lock().unwrap(), []);
    assert_eq!(*registry.changes().borrow(), 0);
}
