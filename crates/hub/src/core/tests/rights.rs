//! Limits on what the hub does on behalf of a connection under access rules.

use serde_json::{Value, json};

use super::{Effect, Grant, Peer, TestCore, call, function, offer, result, trigger};
use crate::core::{Expose, Rbac};

fn grant(allowed: &[&str], owner: Option<&str>) -> Grant {
    Grant {
        allowed: allowed.iter().map(|pattern| (*pattern).to_owned()).collect(),
        forbidden: Vec::new(),
        trigger_types: None,
        may_register_functions: true,
        may_register_types: true,
        registrations: Vec::new(),
        prefix: None,
        owner: owner.map(str::to_owned),
        context: Value::Null,
        rules: Rbac::default(),
    }
}

fn owners(table: &TestCore, id: &str) -> Vec<Peer> {
    table.core.functions.owners(id).collect()
}

/// Creates a guest that may also register these functions of others.
fn grant_with_registrations(allowed: &[&str], registrations: &[&str], owner: Option<&str>) -> Grant {
    let registrations = registrations.iter().map(|pattern| (*pattern).to_owned()).collect();
    Grant { registrations, ..grant(allowed, owner) }
}

#[test]
fn guests_register_own_and_assigned_functions() {
    let mut table = TestCore::new();
    let listener = Rbac { middleware_function_id: Some("gate".to_owned()), ..Rbac::default() };
    let rules = grant_with_registrations(&["a::*", "engine::*"], &["a::given", "engine::*", "no::*"], None);
    let rules = Grant { forbidden: vec!["no::*".to_owned()], rules: listener, ..rules };
    let guest = table.worker_with(Some(rules));
    table.worker_with(Some(Grant { prefix: Some("p::".to_owned()), ..grant(&[], None) }));
    for (id, allowed) in [
        ("a::f", false),
        ("a::given", true),
        ("b::f", true),
        ("gate", false),
        ("no::f", false),
        ("p::f", false),
        ("engine::queue::enqueue", false),
    ] {
        let replies = table.send(guest, function(id));
        assert_eq!(replies.is_empty(), allowed, "{id}: {replies:?}");
        assert_eq!(owners(&table, id).len(), usize::from(allowed), "{id}");
    }
    // A guest's metadata for its own function exposes nothing.
    let marked = json!({ "type": "registerfunction", "id": "b::g", "metadata": { "open": true } });
    let open = serde_json::Map::from_iter([("open".to_owned(), json!(true))]);
    let expose_functions = vec![Expose::Metadata { metadata: open }];
    let rules = Rbac { expose_functions, ..Rbac::default() };
    let other = table.worker_with(Some(Grant { rules, ..grant(&[], None) }));
    table.send(other, marked);
    assert_eq!(owners(&table, "b::g"), []);
}

#[test]
fn guest_cannot_take_ids_of_a_disconnected_worker() {
    let mut table = TestCore::new();
    let (owner, caller) = (table.worker(), table.worker());
    let callable = table.worker_with(Some(grant(&["a::*"], None)));
    let stranger = table.worker_with(Some(grant(&[], Some("tenant"))));
    table.send(owner, function("a::f"));
    for is_down in [false, true] {
        if is_down {
            table.disconnect(owner);
        }
        for guest in [callable, stranger] {
            let replies = table.send(guest, function("a::f"));
            assert_eq!(replies[0].1["type"], "registrationrejected", "{is_down}");
        }
    }
    // Nor an id that others wait for: a trigger, an observer, or a queued call.
    table.send(caller, trigger("x", "t", "later::triggered"));
    table.send(
        caller,
        json!({ "type": "observe", "id": "o", "source": { "function_id": "f" },
        "target": { "function_id": "later::observed" } }),
    );
    let mut queued = call(9, "later::queued", json!({}));
    queued["action"] = json!({ "type": "enqueue", "queue": "q" });
    table.send(caller, queued);
    for id in ["later::triggered", "later::observed", "later::queued"] {
        table.send(stranger, function(id));
        assert_eq!(owners(&table, id), [], "{id}");
    }
}

#[test]
fn claim_ends_when_the_real_owner_registers() {
    let mut table = TestCore::new();
    let guest = table.worker_with(Some(grant(&[], None)));
    table.send(guest, function("f"));
    assert_eq!(owners(&table, "f"), [guest]);
    let owner = table.worker();
    let replies = table.send(owner, function("f"));
    assert!(
        replies.iter().any(|(peer, message)| *peer == guest && message["type"] == "registrationrejected")
    );
    assert_eq!(owners(&table, "f"), [owner]);
    table.disconnect(owner);
    assert_eq!(owners(&table, "f"), []);
}

#[test]
fn claimed_function_stays_with_its_owner() {
    let mut table = TestCore::new();
    let [first, other, unnamed] =
        [Some("ada"), Some("bob"), None].map(|owner| table.worker_with(Some(grant(&[], owner))));
    table.send(first, function("f"));
    table.disconnect(first);
    for guest in [other, unnamed] {
        table.send(guest, function("f"));
        assert_eq!(owners(&table, "f"), []);
    }
    let back = table.worker_with(Some(grant(&[], Some("ada"))));
    table.send(back, function("f"));
    assert_eq!(owners(&table, "f"), [back]);
    // Without an owner, the claim belongs to the connection until it ends.
    table.send(unnamed, function("g"));
    table.send(other, function("g"));
    assert_eq!(owners(&table, "g"), [unnamed]);
    table.disconnect(unnamed);
    table.send(other, function("g"));
    assert_eq!(owners(&table, "g"), [other]);
}

#[test]
fn guest_does_not_answer_for_another_worker() {
    let mut table = TestCore::new();
    let (owner, caller) = (table.worker(), table.worker());
    let named = || Some(grant_with_registrations(&["a::*"], &["a::*"], Some("tenant")));
    let (stranger, guest) = (
        table.worker_with(Some(grant_with_registrations(&["a::*"], &["a::*"], None))),
        table.worker_with(named()),
    );
    for peer in [owner, stranger, guest] {
        table.send(peer, function("a::f"));
    }
    assert_eq!(owners(&table, "a::f"), [guest, stranger, owner]);
    let sent = table.send(caller, call(9, "a::f", Value::Null));
    assert_eq!(sent[0].0, owner);
    // An unrestricted connection takes over, and so does the same owner after a reconnect.
    table.send(caller, function("a::f"));
    assert_eq!(owners(&table, "a::f"), [guest, stranger, owner, caller]);
    for peer in [caller, owner, stranger] {
        table.disconnect(peer);
    }
    let back = table.worker_with(named());
    table.send(back, function("a::f"));
    assert_eq!(owners(&table, "a::f"), [guest, back]);
}

#[test]
fn triggers_call_only_what_their_owner_may() {
    let mut table = TestCore::new();
    let (owner, provider) = (table.worker(), table.worker());
    let guest = table.worker_with(Some(grant(&["a::*", "state::*"], None)));
    table.send(provider, offer("t"));
    for id in ["a::f", "b::f"] {
        table.send(owner, function(id));
    }
    let mut with_condition = trigger("c", "t", "a::f");
    with_condition["config"] = json!({ "condition_function_id": "b::f" });
    let cases = [
        (trigger("x", "t", "a::f"), None),
        (trigger("y", "t", "b::f"), Some("function 'b::f' not allowed")),
        (trigger("z", "t", "state::delete"), Some("function 'state::delete' not allowed")),
        (with_condition, Some("function 'b::f' not allowed")),
    ];
    for (message, refusal) in cases {
        let replies = table.send(guest, message.clone());
        assert_eq!(replies[0].0, if refusal.is_some() { guest } else { provider }, "{message}");
        assert_eq!(replies[0].1["error"]["message"].as_str(), refusal, "{message}");
    }
    for (id, accepted) in [("a::f", true), ("b::f", false)] {
        let input = json!({ "trigger_type": "t", "function_id": id });
        let guest = table.worker_with(Some(grant(&["a::*", "engine::*"], None)));
        let replies = table.send(guest, call(9, "engine::register_trigger", input));
        assert_eq!(replies.last().unwrap().1["error"]["code"] != "FORBIDDEN", accepted, "{id}");
    }
}

#[test]
fn trigger_stops_when_its_function_changes_hands() {
    let mut table = TestCore::new();
    let provider = table.worker();
    let guest = table.worker_with(Some(Grant { prefix: Some("g::".to_owned()), ..grant(&[], None) }));
    table.send(provider, offer("t"));
    table.send(guest, function("mine"));
    // The guest names its function without the prefix, which it does not know.
    let placed = table.send(guest, trigger("x", "t", "mine"));
    assert_eq!((placed[0].0, &placed[0].1["function_id"]), (provider, &json!("g::mine")));
    table.send(guest, json!({ "type": "unregisterfunction", "id": "mine" }));
    let other = table.worker();
    let replies = table.send(other, function("g::mine"));
    assert_eq!((replies[0].0, &replies[0].1["type"]), (provider, &json!("unregistertrigger")));
}

#[test]
fn guest_cannot_take_over_entries_of_others() {
    let mut table = TestCore::new();
    let owner = table.worker();
    let guest = table.worker_with(Some(grant(&["*"], None)));
    table.send(owner, offer("t"));
    table.send(owner, function("f"));
    table.send(owner, trigger("x", "t", "f"));
    let replies = table.send(guest, trigger("x", "t", "f"));
    assert_eq!(replies[0].1["error"]["message"], "the trigger id belongs to another worker");
    table.send(guest, offer("t"));
    assert_eq!(table.core.triggers.providers("t"), [owner]);
    let observe = json!({ "type": "observe", "id": "o", "source": { "function_id": "f" },
        "target": { "function_id": "after" } });
    table.send(owner, observe.clone());
    assert_eq!(table.send(guest, observe)[0].1["error"]["code"], "OBSERVER_ID_CONFLICT");
}

#[test]
fn guests_without_owner_cannot_take_over() {
    let observe = json!({ "type": "observe", "id": "o", "source": { "function_id": "f" },
        "target": { "function_id": "after" } });
    for (owner, may_take_over) in [(None, false), (Some("tenant"), true)] {
        let mut table = TestCore::new();
        let provider = table.worker();
        table.send(provider, offer("t"));
        let [first, second] = [(), ()].map(|()| table.worker_with(Some(grant(&["*"], owner))));
        table.send(first, trigger("x", "t", "f"));
        table.send(first, observe.clone());
        let is_refused =
            |replies: &[(Peer, Value)]| replies.iter().any(|(_, message)| message["error"].is_object());
        for message in [trigger("x", "t", "f"), observe.clone()] {
            // A connection can register its own entries again.
            assert!(!is_refused(&table.send(first, message.clone())), "{message}");
            assert_eq!(is_refused(&table.send(second, message.clone())), !may_take_over, "{message}");
        }
        assert_eq!(table.core.triggers.get("x").unwrap().owner, if may_take_over { second } else { first });
    }
}

#[test]
fn observers_and_queues_respect_owner_rights() {
    let mut table = TestCore::new();
    let owner = table.worker();
    let guest = table.worker_with(Some(grant(&["a::*", "state::*"], None)));
    for id in ["a::f", "b::f"] {
        table.send(owner, function(id));
    }
    for (target, code) in
        [("b::f", json!("FORBIDDEN")), ("state::set", json!("FORBIDDEN")), ("a::g", Value::Null)]
    {
        let observe = json!({ "type": "observe", "id": target, "source": { "function_id": "a::f" },
            "target": { "function_id": target } });
        assert_eq!(table.send(guest, observe)[0].1["error"]["code"], code, "{target}");
    }
    for (id, queued) in [("a::f", true), ("b::f", false), ("state::set", false)] {
        table.others.clear();
        let mut message = call(9, id, json!({}));
        message["action"] = json!({ "type": "enqueue", "queue": "q" });
        let replies = table.send(guest, message);
        assert_eq!(replies.is_empty(), queued, "{id}: {replies:?}");
        assert_eq!(table.others.iter().any(|effect| matches!(effect, Effect::Enqueue(_))), queued, "{id}");
    }
    // A direct call of an allowed function still works.
    assert_eq!(table.send(guest, call(10, "a::f", Value::Null))[0].0, owner);
    table.send(owner, result(10, "a::f", Value::Null));
}
