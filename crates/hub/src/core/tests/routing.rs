//! Call routing and call outcomes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::error::CallError;

use super::{Effect, Grant, Limits, TestCore, call, failure, function, id, result};
use crate::core::{Expose, Rbac};

#[test]
fn call_and_answer_match_the_recording() {
    let mut table = TestCore::new();
    let (owner, caller) = (table.worker(), table.worker());
    table.send(owner, function("probe::echo"));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = json!({ "type": "invokefunction", "invocation_id": id(99), "function_id": "probe::echo",
        "data": { "x": 1 }, "traceparent": trace, "baggage": "k=v", "metadata": { "m": 1 } });
    let forwarded = json!({ "type": "invokefunction", "invocation_id": id(99), "function_id": "probe::echo",
        "data": { "x": 1, "_caller_worker_id": id(4) }, "traceparent": trace,
        "baggage": "iii.function.id=probe::echo,k=v", "metadata": { "m": 1 } });
    assert_eq!(table.send(caller, request), [(owner, forwarded)]);
    let answered = json!({ "type": "invocationresult", "invocation_id": id(99), "function_id": "probe::echo",
        "traceparent": trace, "baggage": "k=v", "result": { "x": 1 } });
    assert_eq!(table.send(owner, result(99, "probe::echo", json!({ "x": 1 }))), [(caller, answered)]);
}

#[test]
fn non_object_payloads_are_forwarded_unchanged() {
    let mut table = TestCore::new();
    let (owner, caller) = (table.worker(), table.worker());
    table.send(owner, function("f"));
    for (number, data) in [(50, json!([1, 2])), (51, json!("x")), (52, Value::Null), (53, json!(1.5))] {
        assert_eq!(table.send(caller, call(number, "f", data.clone())), [(owner, call(number, "f", data))]);
    }
    let without = json!({ "type": "invokefunction", "invocation_id": id(54), "function_id": "f" });
    assert_eq!(table.send(caller, without), [(owner, call(54, "f", Value::Null))]);
}

#[test]
fn void_calls_get_a_fresh_id() {
    let mut table = TestCore::new();
    let (owner, caller) = (table.worker(), table.worker());
    table.send(owner, function("f"));
    let mut request = call(99, "f", json!([]));
    request["action"] = json!({ "type": "void" });
    let sent = table.send(caller, request);
    let fresh = id(6);
    assert_eq!(sent[0].1["invocation_id"], fresh);
    assert_eq!(table.send(owner, result(6, "f", json!(1))), []);
    let unnamed = json!({ "type": "invokefunction", "function_id": "none::such", "data": {} });
    assert_eq!(table.send(caller, unnamed), []);
}

#[test]
fn unknown_function_is_an_error() {
    let mut table = TestCore::new();
    let caller = table.worker();
    let error =
        failure(9, "no::such", "function_not_found", "Function no::such not found in namespace default.");
    assert_eq!(table.send(caller, call(9, "no::such", json!({}))), [(caller, error)]);
}

#[test]
fn url_function_is_listed_but_not_called() {
    let mut table = TestCore::new();
    let worker = table.worker();
    let registered = json!({ "type": "registerfunction", "id": "web::f",
        "invocation": { "url": "http://169.254.169.254/", "method": "GET" } });
    table.send(worker, registered);
    let sent = table.send(worker, call(9, "web::f", json!({})));
    assert_eq!(sent[0].1["error"]["code"], "function_not_invokable");
    let listed = table.send(worker, call(10, "engine::functions::list", json!({ "prefix": "web::" })));
    assert_eq!(listed[0].1["result"]["functions"][0]["function_id"], "web::f");
}

#[test]
fn error_is_forwarded_verbatim() {
    let mut table = TestCore::new();
    let (owner, caller) = (table.worker(), table.worker());
    table.send(owner, function("f"));
    table.send(caller, call(9, "f", json!({})));
    let error = json!({ "type": "invocationresult", "invocation_id": id(9), "function_id": "f",
        "error": { "code": "invocation_failed", "message": "kapow", "stacktrace": "at", "more": 1 } });
    assert_eq!(table.send(owner, error.clone()), [(caller, error)]);
}

#[test]
fn disconnect_of_callee_stops_the_call() {
    let mut table = TestCore::new();
    let (owner, caller) = (table.worker(), table.worker());
    table.send(owner, function("f"));
    table.send(caller, call(9, "f", json!({})));
    let stopped = failure(9, "f", "invocation_stopped", "Invocation stopped");
    assert_eq!(table.disconnect(owner), [(caller, stopped)]);
}

#[test]
fn only_the_callee_answers_and_only_once() {
    let mut table = TestCore::new();
    let (owner, caller, stranger) = (table.worker(), table.worker(), table.worker());
    table.send(owner, function("f"));
    table.send(caller, call(9, "f", json!({})));
    assert_eq!(table.send(stranger, result(9, "f", json!("forged"))), []);
    assert_eq!(table.send(caller, result(9, "f", json!("forged"))), []);
    assert_eq!(table.send(owner, result(9, "f", json!(1))), [(caller, result(9, "f", json!(1)))]);
    assert_eq!(table.send(owner, result(9, "f", json!(2))), []);
}

#[test]
fn two_callers_may_use_the_same_id() {
    let mut table = TestCore::new();
    let (owner, one, other) = (table.worker(), table.worker(), table.worker());
    table.send(owner, function("f"));
    table.send(one, call(9, "f", json!(1)));
    let second = table.send(other, call(9, "f", json!(2)));
    let minted = second[0].1["invocation_id"].clone();
    assert_ne!(minted, id(9));
    let answer =
        json!({ "type": "invocationresult", "invocation_id": minted, "function_id": "f", "result": 2 });
    assert_eq!(table.send(owner, answer), [(other, result(9, "f", json!(2)))]);
    assert_eq!(table.send(owner, result(9, "f", json!(1))), [(one, result(9, "f", json!(1)))]);
}

#[test]
fn unanswered_call_times_out() {
    let mut table = TestCore::with(Limits { call_time: Duration::from_secs(5), ..Limits::default() });
    let (owner, caller) = (table.worker(), table.worker());
    table.send(owner, function("f"));
    table.send(caller, call(9, "f", json!({})));
    assert_eq!(table.advance(Duration::from_secs(4)), []);
    let late = failure(9, "f", "TIMEOUT", "invocation timed out after 5000ms");
    assert_eq!(table.advance(Duration::from_secs(1)), [(caller, late)]);
    assert_eq!(table.send(owner, result(9, "f", json!(1))), []);
}

#[test]
fn circular_calls_reach_a_limit() {
    let mut table = TestCore::with(Limits { calls: 3, ..Limits::default() });
    let worker = table.worker();
    table.send(worker, function("f"));
    for number in 10..13 {
        assert_eq!(table.send(worker, call(number, "f", Value::Null)).len(), 1);
    }
    let refused = table.send(worker, call(13, "f", Value::Null));
    assert_eq!(refused[0].1["error"]["code"], "invocation_error");
    table.send(worker, result(12, "f", Value::Null));
    assert_eq!(table.send(worker, call(14, "f", Value::Null)), [(worker, call(14, "f", Value::Null))]);
}

#[test]
fn enqueued_call_is_acknowledged_when_stored() {
    let mut table = TestCore::new();
    let caller = table.worker();
    let mut request = call(9, "f", json!({ "n": 1 }));
    request["action"] = json!({ "type": "enqueue", "queue": "q" });
    assert_eq!(table.send(caller, request.clone()), []);
    let [Effect::Enqueue(queued)] = &table.others[..] else { panic!("{:?}", table.others) };
    assert_eq!((queued.queue.as_str(), queued.function_id.as_str()), ("q", "f"));
    let receipt = json!({ "messageReceiptId": queued.id }).to_string();
    table.core.finish(queued.id, Ok(Some(receipt)));
    assert_eq!(table.take_messages(), [(caller, result(9, "f", json!({ "messageReceiptId": id(4) })))]);

    // The caller cannot impersonate another worker.
    request["data"] = json!({ "_caller_worker_id": "another" });
    table.others.clear();
    table.send(caller, request);
    let [Effect::Enqueue(queued)] = &table.others[..] else { panic!("{:?}", table.others) };
    assert_eq!(queued.data, json!({ "_caller_worker_id": id(2) }));
    table.core.finish(uuid::Uuid::from_u128(5), Err(CallError::new("enqueue_error", "full")));
    assert_eq!(table.take_messages(), [(caller, failure(9, "f", "enqueue_error", "full"))]);
}

#[test]
fn queue_provider_gets_the_call_before_the_receipt() {
    let mut table = TestCore::new();
    let (caller, provider) = (table.worker(), table.worker());
    table.send(provider, function("engine::queue::enqueue"));
    table.others.clear();
    let mut request = call(9, "f", json!({ "n": 1 }));
    request["action"] = json!({ "type": "enqueue", "queue": "q" });
    assert_eq!(table.send(caller, request), []);
    let [Effect::HandOver { id: handed, data }] = &table.others[..] else { panic!("{:?}", table.others) };
    let expected =
        json!({ "queue": "q", "function_id": "f", "data": { "n": 1 }, "messageReceiptId": handed });
    assert_eq!(serde_json::from_str::<Value>(data).unwrap(), expected);
    table.core.finish(*handed, Err(CallError::failed("no room")));
    assert_eq!(table.take_messages(), [(caller, failure(9, "f", "invocation_failed", "no room"))]);
}

#[test]
fn too_long_message_is_not_sent() {
    let mut table = TestCore::new();
    let (python, caller) = (table.worker(), table.worker());
    table.send(python, function("f"));
    let about = json!({ "runtime": "python", "version": "0.11.3" });
    table.send(
        python,
        json!({ "type": "invokefunction", "function_id": "engine::workers::register",
        "data": about, "action": { "type": "void" } }),
    );
    let sent = table.send(caller, call(9, "f", json!("x".repeat(1024 * 1024))));
    assert_eq!(
        (sent.len(), sent[0].0, &sent[0].1["error"]["code"]),
        (1, caller, &json!("payload_too_large"))
    );
}

#[test]
fn connection_is_limited_to_its_grant() {
    let open = serde_json::Map::from_iter([("open".to_owned(), json!(true))]);
    let grant = Grant {
        allowed: vec!["a::*".to_owned()],
        forbidden: vec!["a::secret".to_owned()],
        trigger_types: Some(vec!["t".to_owned()]),
        may_register_functions: true,
        may_register_types: false,
        registrations: Vec::new(),
        prefix: Some("guest::".to_owned()),
        owner: None,
        context: json!({ "who": "guest" }),
        rules: Rbac { expose_functions: vec![Expose::Metadata { metadata: open }], ..Rbac::default() },
    };
    let mut table = TestCore::new();
    let (owner, guest) = (table.worker(), table.worker_with(Some(grant)));
    for id in ["a::f", "a::secret", "b::f"] {
        table.send(owner, function(id));
    }
    table.send(owner, json!({ "type": "registerfunction", "id": "b::open", "metadata": { "open": true } }));
    for (called, allowed) in [("a::f", true), ("a::secret", false), ("b::f", false), ("b::open", true)] {
        let sent = table.send(guest, call(9, called, Value::Null));
        assert_eq!(sent[0].0, if allowed { owner } else { guest }, "{called}");
        assert_eq!(sent[0].1["error"]["code"] == "FORBIDDEN", !allowed, "{called}");
        table.send(owner, result(9, called, Value::Null));
    }
    // Its functions are visible under a prefixed name that it does not know.
    table.send(guest, function("mine"));
    assert_eq!(
        table.send(owner, call(9, "guest::mine", Value::Null)),
        [(guest, call(9, "mine", Value::Null))]
    );
    let listed = table.send(guest, call(10, "engine::functions::list", json!({})));
    assert_eq!(listed[0].1["error"]["code"], "FORBIDDEN");
    let refused = table.send(guest, super::trigger("x", "other", "guest::mine"));
    assert_eq!(refused[0].1["error"]["code"], "trigger_registration_failed");
    assert_eq!(table.send(guest, super::offer("mine")), []);
    assert_eq!(table.core.triggers.providers("mine"), []);
}

#[test]
fn middleware_receives_all_calls_of_its_listener() {
    let grant = Grant {
        allowed: vec!["*".to_owned()],
        forbidden: Vec::new(),
        trigger_types: None,
        may_register_functions: true,
        may_register_types: true,
        registrations: Vec::new(),
        prefix: None,
        owner: None,
        context: json!({ "who": "guest" }),
        rules: Rbac { middleware_function_id: Some("gate".to_owned()), ..Rbac::default() },
    };
    let mut table = TestCore::new();
    let (owner, guest) = (table.worker(), table.worker_with(Some(grant)));
    table.send(owner, function("gate"));
    let sent = table.send(guest, call(9, "f", json!([1])));
    let data = json!({ "function_id": "f", "payload": [1], "action": null, "context": { "who": "guest" },
        "_caller_worker_id": id(4) });
    assert_eq!(sent, [(owner, call(9, "gate", data))]);
    let mut queued = call(10, "f", json!([1]));
    queued["action"] = json!({ "type": "enqueue", "queue": "q" });
    let sent = table.send(guest, queued.clone());
    assert_eq!((sent[0].0, &sent[0].1["data"]["action"]), (owner, &queued["action"]));
}
