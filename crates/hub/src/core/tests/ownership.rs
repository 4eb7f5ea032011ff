//! Ownership, and what happens to it when a worker disconnects or reconnects.

use serde_json::{Value, json};

use super::{Effect, Table, call, function, id, offer, trigger, untrigger};

#[test]
fn newest_registration_receives_calls_until_removed() {
    let mut table = Table::new();
    let (old, new, caller) = (table.worker(), table.worker(), table.worker());
    table.says(old, function("f"));
    table.says(new, function("f"));
    // Sent again, as older SDKs do: it changes nothing.
    table.says(old, function("f"));
    assert_eq!(table.says(caller, call(50, "f", Value::Null)), [(new, call(50, "f", Value::Null))]);
    table.leaves(new);
    assert_eq!(table.says(caller, call(51, "f", Value::Null)), [(old, call(51, "f", Value::Null))]);
    table.says(old, json!({ "type": "unregisterfunction", "id": "f" }));
    let sent = table.says(caller, call(52, "f", Value::Null));
    assert_eq!(sent[0].1["error"]["code"], "function_not_found");
}

#[test]
fn workers_cannot_remove_entries_of_others() {
    let mut table = Table::new();
    let (owner, provider, stranger) = (table.worker(), table.worker(), table.worker());
    table.says(owner, function("f"));
    table.says(provider, offer("t"));
    assert_eq!(table.says(owner, trigger("x", "t", "f")), [(provider, trigger("x", "t", "f"))]);
    for message in [
        json!({ "type": "unregisterfunction", "id": "f" }),
        untrigger("x", "t"),
        json!({ "type": "unregistertriggertype", "id": "t" }),
        json!({ "type": "triggerregistrationresult", "id": "x", "trigger_type": "t", "function_id": "f",
            "error": { "code": "trigger_registration_failed", "message": "forged" } }),
    ] {
        assert_eq!(table.says(stranger, message.clone()), [], "{message}");
    }
    let taken = table.says(stranger, trigger("x", "t", "evil"));
    assert_eq!(taken[0].1["error"]["message"], "the trigger id belongs to another worker");
    assert_eq!(table.leaves(stranger), []);
    assert_eq!(table.says(provider, call(9, "f", Value::Null)), [(owner, call(9, "f", Value::Null))]);
    assert_eq!(table.core.triggers.len(), 1);
}

#[test]
fn hub_functions_cannot_be_taken_over() {
    let mut table = Table::new();
    let worker = table.worker();
    let rejected = json!({ "type": "registrationrejected", "code": "FUNCTION_NAMESPACE_CONFLICT",
        "namespace": "default", "function_id": "state::set", "owner_worker_id": id(1) });
    assert_eq!(table.says(worker, function("state::set")), [(worker, rejected)]);
    assert_eq!(table.says(worker, offer("engine::workers-available")), []);
    table.says(worker, call(9, "state::set", json!({})));
    assert!(
        table
            .others
            .iter()
            .any(|effect| matches!(effect, Effect::Run(run) if run.function_id == "state::set"))
    );
}

#[test]
fn trigger_is_placed_with_every_new_provider() {
    let mut table = Table::new();
    let (subscriber, first) = (table.worker(), table.worker());
    assert_eq!(table.says(subscriber, trigger("x", "t", "f")), []);
    assert_eq!(table.says(first, offer("t")), [(first, trigger("x", "t", "f"))]);
    assert_eq!(table.says(first, offer("t")), []);
    assert_eq!(table.leaves(first), []);
    let second = table.worker();
    assert_eq!(table.says(second, offer("t")), [(second, trigger("x", "t", "f"))]);
    let third = table.worker();
    let moved = [(second, untrigger("x", "t")), (third, trigger("x", "t", "f"))];
    assert_eq!(table.says(third, offer("t")), moved);
    assert_eq!(table.leaves(third), [(second, trigger("x", "t", "f"))]);
    let withdrawn = json!({ "type": "unregistertriggertype", "id": "t" });
    assert_eq!(table.says(second, withdrawn), [(second, untrigger("x", "t"))]);
    assert_eq!(table.says(second, offer("t")), [(second, trigger("x", "t", "f"))]);
    assert_eq!(table.leaves(subscriber), [(second, untrigger("x", "t"))]);
}

#[test]
fn repeated_trigger_is_not_placed_again() {
    let mut table = Table::new();
    let (provider, subscriber) = (table.worker(), table.worker());
    table.says(provider, offer("t"));
    assert_eq!(table.says(subscriber, trigger("x", "t", "f")), [(provider, trigger("x", "t", "f"))]);
    assert_eq!(table.says(subscriber, trigger("x", "t", "f")), []);
    // The same from a new connection, before the old one is known to be dead.
    let back = table.worker();
    assert_eq!(table.says(back, trigger("x", "t", "f")), []);
    assert_eq!(table.leaves(subscriber), []);
    let mut changed = trigger("x", "t", "f");
    changed["config"] = json!({ "only": 1 });
    assert_eq!(table.says(back, changed.clone()), [(provider, changed)]);
    assert_eq!(table.leaves(back), [(provider, untrigger("x", "t"))]);
}

#[test]
fn reconnected_worker_is_not_called_twice() {
    let mut table = Table::new();
    let (provider, old) = (table.worker(), table.worker());
    table.says(provider, offer("t"));
    table.says(old, function("f"));
    assert_eq!(table.says(old, trigger("x", "t", "f")), [(provider, trigger("x", "t", "f"))]);
    let new = table.worker();
    // The function has moved: the old connection's subscriptions no longer count.
    assert_eq!(table.says(new, function("f")), [(provider, untrigger("x", "t"))]);
    assert_eq!(table.says(new, trigger("y", "t", "f")), [(provider, trigger("y", "t", "f"))]);
    assert_eq!(table.leaves(old), []);
    assert_eq!(table.leaves(new), [(provider, untrigger("y", "t"))]);
}

#[test]
fn provider_rejection_is_reported_to_trigger_owner() {
    let mut table = Table::new();
    let (provider, subscriber) = (table.worker(), table.worker());
    table.says(provider, offer("t"));
    table.says(subscriber, trigger("x", "t", "f"));
    let refused = json!({ "type": "triggerregistrationresult", "id": "x", "trigger_type": "t",
        "function_id": "f", "error": { "code": "trigger_registration_failed", "message": "nope" } });
    assert_eq!(table.says(provider, refused.clone()), [(subscriber, refused)]);
    assert!(table.core.triggers.is_empty());
    table.says(subscriber, trigger("y", "t", "f"));
    let accepted =
        json!({ "type": "triggerregistrationresult", "id": "y", "trigger_type": "t", "function_id": "f" });
    assert_eq!(table.says(provider, accepted), []);
}

#[test]
fn reattach_secret_ends_the_old_connection() {
    let mut table = Table::new();
    let (old, caller) = (table.worker(), table.worker());
    table.says(old, function("f"));
    let new = table.worker();
    let reattach =
        |token: Value| json!({ "type": "reattach", "previous_worker_id": id(2), "reattach_token": token });
    for wrong in [json!(id(2)), Value::Null] {
        table.says(new, reattach(wrong));
        assert_eq!(table.says(caller, call(50, "f", Value::Null)).first().map(|sent| sent.0), Some(old));
        table.says(old, super::result(50, "f", Value::Null));
    }
    table.others.clear();
    table.says(new, reattach(json!(id(3))));
    assert!(table.others.contains(&Effect::Drop(old)));
    let sent = table.says(caller, call(51, "f", Value::Null));
    assert_eq!(sent[0].1["error"]["code"], "function_not_found");
}

#[test]
fn listings_suit_every_sdk_version() {
    let mut table = Table::new();
    let (old, new) = (table.worker(), table.worker());
    for (worker, version) in [(old, "0.11.3"), (new, "0.22.1")] {
        let about = json!({ "runtime": "node", "version": version, "name": version, "os": "x", "pid": 7 });
        table.says(
            worker,
            json!({ "type": "invokefunction", "function_id": "engine::workers::register",
            "data": about, "action": { "type": "void" } }),
        );
    }
    table.says(
        old,
        json!({ "type": "registerfunction", "id": "f", "description": "d",
        "request_format": { "type": "object" }, "metadata": { "k": 1 } }),
    );
    table.says(old, trigger("x", "t", "f"));
    let mut ask = |worker, function: &str, input: Value| -> Value {
        table.says(worker, call(9, function, input)).remove(0).1["result"].take()
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
    let mut table = Table::new();
    let (subscriber, provider, newer) = (table.worker(), table.worker(), table.worker());
    table.says(subscriber, function("g"));
    table.says(newer, function("g"));
    table.says(provider, offer("t"));
    let sent = table.says(subscriber, trigger("x", "t", "f"));
    assert_eq!(sent, [(provider, trigger("x", "t", "f"))]);
    let sent = table.says(subscriber, trigger("x", "t", "g"));
    assert_eq!(sent, [(provider, untrigger("x", "t"))]);
}
