//! Functions that are called after other functions.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Effect, Peer};
use super::{TestCore, call, failure, function, id, result};

const OBSERVER: &str = "o";

fn observe(source: Value, more: Value) -> Value {
    let mut message = json!({ "type": "observe", "id": OBSERVER, "source": source,
        "target": { "function_id": "after" } });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message
}

fn observe_result(state: &str) -> Value {
    json!({ "type": "observeresult", "id": OBSERVER, "state": state })
}

fn state_changed(state: &str, fires: u64) -> Value {
    json!({ "type": "observerstatechanged", "id": OBSERVER, "state": state, "fires": fires })
}

/// Creates a worker with `f`, one with `after` that observes, and one that calls.
fn observed_table(source: Value, more: Value) -> (TestCore, [Peer; 3]) {
    let mut table = TestCore::new();
    let workers = [table.worker(), table.worker(), table.worker()];
    table.send(workers[0], function("f"));
    table.send(workers[1], function("after"));
    assert_eq!(table.send(workers[1], observe(source, more)), [(workers[1], observe_result("active"))]);
    (table, workers)
}

/// Calls `f` and answers the call; returns the resulting messages to the observing worker.
fn complete_call(
    table: &mut TestCore,
    [host, observing, caller]: [Peer; 3],
    number: u128,
    answer: Value,
) -> Vec<Value> {
    table.send(caller, call(number, "f", json!({ "n": number as u64 })));
    let sent = table.send(host, answer);
    sent.into_iter().filter(|(peer, _)| *peer == observing).map(|(_, message)| message).collect()
}

#[test]
fn target_is_called_after_each_call() {
    let (mut table, workers) =
        observed_table(json!({ "function_id": "f" }), json!({ "metadata": { "m": 1 } }));
    let mut target_calls = complete_call(&mut table, workers, 100, result(100, "f", json!("done")));
    assert_eq!(target_calls.len(), 1);
    let activation = target_calls[0]["activation"]["activation_id"].clone();
    let caller = table.core.workers.get(workers[2]).unwrap().id.to_string();
    let expected = json!({
        "observer_id": OBSERVER, "activation_id": activation, "function_id": "f", "namespace": "default",
        "invocation_id": id(100), "status": "success", "input": { "n": 100 }, "output": "done",
        "caller": { "worker_id": caller, "worker_name": caller }, "started_at_ms": 0, "duration_ms": 0.0,
    });
    assert_eq!(target_calls[0]["data"].take(), expected);
    assert_eq!(
        (&target_calls[0]["function_id"], &target_calls[0]["metadata"]),
        (&json!("after"), &json!({ "m": 1 }))
    );
    assert_eq!(target_calls[0]["observe_depth"], 1);
    // A failure is reported only to observers that want it.
    let failed = failure(101, "f", "invocation_failed", "no");
    assert_eq!(complete_call(&mut table, workers, 101, failed), Vec::<Value>::new());
}

#[test]
fn observer_selects_calls_and_captured_data() {
    let source = json!({ "function_id": "f", "on": "error", "capture": ["error"],
        "filters": { "input.n": { "$gte": 101 } } });
    let (mut table, workers) = observed_table(source, json!({}));
    for (number, expected) in [(100, None), (101, Some(json!({ "code": "bad", "message": "no" })))] {
        let messages = complete_call(&mut table, workers, number, failure(number, "f", "bad", "no"));
        assert_eq!(messages.first().map(|message| message["data"]["error"].clone()), expected);
        assert!(messages.iter().all(|message| message["data"].get("input").is_none()));
    }
    let (mut table, workers) =
        observed_table(json!({ "function_id": "f", "deliver": "input" }), json!({ "max_fires": 2 }));
    let once = complete_call(&mut table, workers, 100, result(100, "f", json!(1)));
    assert_eq!(once[0]["data"], json!({ "n": 100 }));
    let twice = complete_call(&mut table, workers, 101, result(101, "f", json!(1)));
    assert_eq!((&twice[1]["state"], &twice[1]["reason"]["code"]), (&json!("disposed"), &json!("MAX_FIRES")));
    assert_eq!(complete_call(&mut table, workers, 102, result(102, "f", json!(1))), Vec::<Value>::new());
}

#[test]
fn observer_needs_both_functions_and_its_worker() {
    let mut table = TestCore::new();
    let (host, observing) = (table.worker(), table.worker());
    let wish = observe(json!({ "function_id": "f" }), json!({}));
    assert_eq!(table.send(observing, wish.clone()), [(observing, observe_result("pending"))]);
    assert_eq!(table.send(observing, function("after")), []);
    assert_eq!(table.send(host, function("f")), [(observing, state_changed("active", 0))]);
    let mut gone = state_changed("suspended", 0);
    gone["reason"] = json!({ "code": "OWNER_UNAVAILABLE", "message": "the function is gone" });
    assert_eq!(table.disconnect(host), [(observing, gone)]);
    // Sent again, as after a reconnect.
    assert_eq!(table.send(observing, wish), [(observing, observe_result("pending"))]);
    let mut over = state_changed("disposed", 0);
    over["reason"] = json!({ "code": "UNOBSERVED", "message": "the worker no longer observes" });
    let unobserve = json!({ "type": "unobserve", "id": OBSERVER });
    assert_eq!(table.send(observing, unobserve.clone()), [(observing, over)]);
    assert_eq!(table.send(observing, unobserve), []);
}

#[test]
fn invalid_observers_are_rejected() {
    for (source, code) in [
        (json!({ "function_id": "after" }), "SELF_TARGET"),
        (json!({ "function_id": "engine::workers::list" }), "NOT_OBSERVABLE"),
        (json!({ "function_id": "f", "args": { "cron": "* * *" } }), "INVALID_ARGS"),
        (json!({ "function_id": "f", "filters": { "x": { "$eq": 1 } } }), "INVALID_FILTER_PATH"),
    ] {
        let mut table = TestCore::new();
        let worker = table.worker();
        let replies = table.send(worker, observe(source, json!({})));
        assert_eq!((&replies[0].1["state"], &replies[0].1["error"]["code"]), (&json!("error"), &json!(code)));
    }
    let (mut table, workers) = observed_table(json!({ "function_id": "f" }), json!({}));
    let replies = table.send(workers[0], observe(json!({ "function_id": "g" }), json!({})));
    assert_eq!(replies[0].1["error"]["code"], "OBSERVER_ID_CONFLICT");
}

#[test]
fn observer_circles_and_expired_observers_end() {
    let (mut table, [host, observing, caller]) =
        observed_table(json!({ "function_id": "f" }), json!({ "expires_in_ms": 1000, "max_in_flight": 1 }));
    let mut deep = call(100, "f", json!({}));
    deep["observe_depth"] = json!(16);
    table.send(caller, deep);
    let sent = table.send(host, result(100, "f", json!(1)));
    assert_eq!(sent, [(caller, result(100, "f", json!(1)))]);
    assert!(table.others.contains(&Effect::Note("the hub: observers of `f` call each other".to_owned())));
    // The first activation has no answer yet, so there is no second one.
    let workers = [host, observing, caller];
    let first = complete_call(&mut table, workers, 101, result(101, "f", json!(1)));
    assert_eq!(complete_call(&mut table, workers, 102, result(102, "f", json!(1))), Vec::<Value>::new());
    let answer = json!({ "type": "invocationresult", "invocation_id": first[0]["invocation_id"],
        "function_id": "after", "result": null });
    assert_eq!(table.send(observing, answer), []);
    assert_eq!(complete_call(&mut table, workers, 103, result(103, "f", json!(1))).len(), 1);
    let over = table.advance(Duration::from_secs(1));
    assert_eq!(over[0].1["reason"]["code"], "EXPIRED");
}
