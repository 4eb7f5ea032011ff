//! Ownership, and what happens to it when a worker disconnects or reconnects.

use serde_json::{Value, json};

use super::{Effect, TestCore, call, function, id, offer, trigger, untrigger};

#[test]
fn newest_registration_receives_calls_until_removed() {
    let mut table = TestCore::new();
    let (old, new, caller) = (table.worker(), table.worker(), table.worker());
    table.send(old, function("f"));
    table.send(new, function("f"));
    // Sent again, as older SDKs do: it changes nothing.
    table.send(old, function("f"));
    assert_eq!(table.send(caller, call(50, "f", Value::Null)), [(new, call(50, "f", Value::Null))]);
    table.disconnect(new);
    assert_eq!(table.send(caller, call(51, "f", Value::Null)), [(old, call(51, "f", Value::Null))]);
    table.send(old, json!({ "type": "unregisterfunction", "id": "f" }));
    let sent = table.send(caller, call(52, "f", Value::Null));
    assert_eq!(sent[0].1["error"]["code"], "function_not_found");
}

#[test]
fn workers_cannot_remove_entries_of_others() {
    let mut table = TestCore::new();
    let (owner, provider, stranger) = (table.worker(), table.worker(), table.worker());
    table.send(owner, function("f"));
    table.send(provider, offer("t"));
    assert_eq!(table.send(owner, trigger("x", "t", "f")), [(provider, trigger("x", "t", "f"))]);
    for message in [
        json!({ "type": "unregisterfunction", "id": "f" }),
        untrigger("x", "t"),
        json!({ "type": "unregistertriggertype", "id": "t" }),
        json!({ "type": "triggerregistrationresult", "id": "x", "trigger_type": "t", "function_id": "f",
            "error": { "code": "trigger_registration_failed", "message": "forged" } }),
    ] {
        assert_eq!(table.send(stranger, message.clone()), [], "{message}");
    }
    let taken = table.send(stranger, trigger("x", "t", "evil"));
    assert_eq!(taken[0].1["error"]["message"], "the trigger id belongs to another worker");
    assert_eq!(table.disconnect(stranger), []);
    assert_eq!(table.send(provider, call(9, "f", Value::Null)), [(owner, call(9, "f", Value::Null))]);
    assert_eq!(table.core.triggers.list(&table.core.workers).len(), 1);
}

#[test]
fn hub_functions_cannot_be_taken_over() {
    let mut table = TestCore::new();
    let worker = table.worker();
    let rejected = json!({ "type": "registrationrejected", "code": "FUNCTION_NAMESPACE_CONFLICT",
        "namespace": "default", "function_id": "state::set", "owner_worker_id": id(1) });
    assert_eq!(table.send(worker, function("state::set")), [(worker, rejected)]);
    assert_eq!(table.send(worker, offer("engine::workers-available")), []);
    table.send(worker, call(9, "state::set", json!({})));
    assert!(
        table
            .others
            .iter()
            .any(|effect| matches!(effect, Effect::Run(run) if run.function_id == "state::set"))
    );
}

#[test]
fn trigger_is_placed_with_every_new_provider() {
    let mut table = TestCore::new();
    let (subscriber, first) = (table.worker(), table.worker());
    assert_eq!(table.send(subscriber, trigger("x", "t", "f")), []);
    assert_eq!(table.send(first, offer("t")), [(first, trigger("x", "t", "f"))]);
    assert_eq!(table.send(first, offer("t")), []);
    assert_eq!(table.disconnect(first), []);
    let second = table.worker();
    assert_eq!(table.send(second, offer("t")), [(second, trigger("x", "t", "f"))]);
    let third = table.worker();
    let moved = [(second, untrigger("x", "t")), (third, trigger("x", "t", "f"))];
    assert_eq!(table.send(third, offer("t")), moved);
    assert_eq!(table.disconnect(third), [(second, trigger("x", "t", "f"))]);
    let withdrawn = json!({ "type": "unregistertriggertype", "id": "t" });
    assert_eq!(table.send(second, withdrawn), [(second, untrigger("x", "t"))]);
    assert_eq!(table.send(second, offer("t")), [(second, trigger("x", "t", "f"))]);
    assert_eq!(table.disconnect(subscriber), [(second, untrigger("x", "t"))]);
}

#[test]
fn repeated_trigger_is_not_placed_again() {
    let mut table = TestCore::new();
    let (provider, subscriber) = (table.worker(), table.worker());
    table.send(provider, offer("t"));
    assert_eq!(table.send(subscriber, trigger("x", "t", "f")), [(provider, trigger("x", "t", "f"))]);
    assert_eq!(table.send(subscriber, trigger("x", "t", "f")), []);
    // The same from a new connection, before the old one is known to be dead.
    let back = table.worker();
    assert_eq!(table.send(back, trigger("x", "t", "f")), []);
    assert_eq!(table.disconnect(subscriber), []);
    let mut changed = trigger("x", "t", "f");
    changed["config"] = json!({ "only": 1 });
    assert_eq!(table.send(back, changed.clone()), [(provider, changed)]);
    assert_eq!(table.disconnect(back), [(provider, untrigger("x", "t"))]);
}

#[test]
fn reconnected_worker_is_not_called_twice() {
    let mut table = TestCore::new();
    let (provider, old) = (table.worker(), table.worker());
    table.send(provider, offer("t"));
    table.send(old, function("f"));
    assert_eq!(table.send(old, trigger("x", "t", "f")), [(provider, trigger("x", "t", "f"))]);
    let new = table.worker();
    // The function has moved: the old connection's subscriptions no longer count.
    assert_eq!(table.send(new, function("f")), [(provider, untrigger("x", "t"))]);
    assert_eq!(table.send(new, trigger("y", "t", "f")), [(provider, trigger("y", "t", "f"))]);
    assert_eq!(table.disconnect(old), []);
    assert_eq!(table.disconnect(new), [(provider, untrigger("y", "t"))]);
}

#[test]
fn provider_rejection_is_reported_to_trigger_owner() {
    let mut table = TestCore::new();
    let (provider, subscriber) = (table.worker(), table.worker());
    table.send(provider, offer("t"));
    table.send(subscriber, trigger("x", "t", "f"));
    let refused = json!({ "type": "triggerregistrationresult", "id": "x", "trigger_type": "t",
        "function_id": "f", "error": { "code": "trigger_registration_failed", "message": "nope" } });
    assert_eq!(table.send(provider, refused.clone()), [(subscriber, refused)]);
    assert_eq!(table.core.triggers.list(&table.core.workers), [Value::Null; 0]);
    table.send(subscriber, trigger("y", "t", "f"));
    let accepted =
        json!({ "type": "triggerregistrationresult", "id": "y", "trigger_type": "t", "function_id": "f" });
    assert_eq!(table.send(provider, accepted), []);
}

#[test]
fn reattach_secret_ends_the_old_connection() {
    let mut table = TestCore::new();
    let (old, caller) = (table.worker(), table.worker());
    table.send(old, function("f"));
    let new = table.worker();
    let reattach =
        |token: Value| json!({ "type": "reattach", "previous_worker_id": id(2), "reattach_token": token });
    for wrong in [json!(id(2)), Value::Null] {
        table.send(new, reattach(wrong));
        assert_eq!(table.send(caller, call(50, "f", Value::Null)).first().map(|sent| sent.0), Some(old));
        table.send(old, super::result(50, "f", Value::Null));
    }
    table.others.clear();
    table.send(new, reattach(json!(id(3))));
    assert!(table.others.contains(&Effect::Drop(old)));
    let sent = table.send(caller, call(51, "f", Value::Null));
    assert_eq!(sent[0].1["error"]["code"], "function_not_found");
}

#[test]
fn listings_suit_every_sdk_version() {
    let mut table = TestCore::new();
    let (old, new) = (table.worker(), table.worker());
    for (worker, version) in [(old, "0.11.3"), (new, "0.22.1")] {
        let about = json!({ "runtime": "node", "version": version, "name": version, "os": "x", "pid": 7 });
        table.send(
            worker,
            json!({ "type": "invokefunction", "function_id": "engine::workers::register",
            "data": about, "action": { "type": "void" } }),
        );
    }
    table.send(
        old,
        json!({ "type": "registerfunction", "id": "f", "description": "d",
        "request_format": { "type": "object" }, "metadata": { "k": 1 } }),
    );
    table.send(old, trigger("x", "t", "f"));
    let mut ask = |worker, function: &str, input: Value| -> Value {
        table.send(worker, call(9, function, input)).remove(0).1["result"].take()
    };
    let instances = ask(old, "engine::triggers::list", json!({}));
    assert_eq!(instances["triggers"][0]["function_id"], "f");
    let types = ask(new, "engine::triggers::list", json!({}));
    let ids: Vec<&Value> = types["triggers"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["engine::functions-available", "engine::workers-available"]);
    let listed = ask(new, "engine::functions::list", json!({ "prefix": "f" }));
    let row = json!({ "function_id": "f", "worker_name": "0.11.3", "description": "d",
        "request_format": { "type": "object" }, "response_format": null, "metadata": { "k": 1 },
        "namespace": "default" });
    assert_eq!(listed, json!({ "functions": [row] }));
    let info = ask(new, "engine::functions::info", json!({ "function_id": "f" }));
    let expected = json!({ "function_id": "f", "namespace": "default", "worker_name": "0.11.3",
        "registered_triggers": [{ "id": "x", "trigger_type": "t", "config": {} }], "description": "d",
        "request_schema": { "type": "object" }, "metadata": { "k": 1 } });
    assert_eq!(info, expected);
    let several = ask(new, "engine::functions::info", json!({ "function_ids": ["f", "g"] }));
    assert_eq!(several["functions"][1], json!({ "function_id": "g", "error": "not_found" }));
    let workers = ask(old, "engine::workers::list", json!({ "worker_id": id(2) }));
    let worker = json!({ "id": id(2), "name": "0.11.3", "runtime": "node", "version": "0.11.3", "os": "x",
        "pid": 7, "isolation": null, "description": null, "namespace": "default", "ip_address": null,
        "status": "available", "connected_at_ms": 0, "function_count": 1, "functions": ["f"],
        "active_invocations": 0, "latest_metrics": null });
    assert_eq!(workers["workers"], json!([worker]));
    let registered = ask(new, "engine::register_trigger", json!({ "trigger_type": "t", "function_id": "f" }));
    let removed = ask(old, "engine::unregister_trigger", json!({ "id": registered["id"] }));
    assert_eq!(removed, json!({ "removed": true }));
}

#[test]
fn trigger_moved_to_foreign_function_is_removed() {
    let mut table = TestCore::new();
    let (subscriber, provider, newer) = (table.worker(), table.worker(), table.worker());
    table.send(subscriber, function("g"));
    table.send(newer, function("g"));
    table.send(provider, offer("t"));
    let sent = table.send(subscriber, trigger("x", "t", "f"));
    assert_eq!(sent, [(provider, trigger("x", "t", "f"))]);
    let sent = table.send(subscriber, trigger("x", "t", "g"));
    assert_eq!(sent, [(provider, untrigger("x", "t"))]);
}
