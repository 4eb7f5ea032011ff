//! What hooks mean, without calling any.

use serde_json::{Value, json};

use super::{
    Denial, DenialKind, HookEntry, HookFault, HookInvocation, HookMode, HookReturn, HookSet, HookSetError,
    Judgement, judge,
};
use crate::{HookPoint, HookReason, SessionId, ToolCall};

fn entry(rest: &Value) -> HookEntry {
    let mut document = json!({"id": "h", "runtime": {"type": "command", "command": "true"}});
    for (key, value) in rest.as_object().unwrap() {
        document[key] = value.clone();
    }
    serde_json::from_value(document).unwrap()
}

fn answer(value: Value) -> Result<HookReturn, HookFault> {
    serde_json::from_value(value).map_err(|error| HookFault::broken(error.to_string()))
}

fn denied() -> Value {
    json!({"decision": {"decision": "deny", "hook_id": "x", "reason_code": "policy_violation", "message": "no"}})
}

#[test]
fn hooks_are_called_by_priority_and_then_in_the_order_of_the_config() {
    let hook = |id: &str, priority: i32| entry(&json!({"id": id, "priority": priority}));
    let base = [hook("c", 100), hook("out", 1), hook("a", 5), hook("d", 100)];
    let added = vec![hook("b", 50), entry(&json!({"id": "off", "enabled": false}))];
    let set = HookSet::new(&base, added, &["out".to_owned()]).unwrap();
    let ids = |mode| set.at(HookPoint::TurnBoundary, mode).map(|e| e.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(HookMode::Foreground), ["a", "b", "c", "d"]);
    assert_eq!(ids(HookMode::Background), [""; 0]);
    assert!(set.points().has(HookPoint::TurnBoundary) && !set.points().has(HookPoint::RunFailed));
}

#[test]
fn hooks_that_make_no_sense_are_refused() {
    let refused =
        |base: &[HookEntry], disabled: &[String]| HookSet::new(base, Vec::new(), disabled).unwrap_err();
    assert_eq!(refused(&[entry(&json!({"id": " "}))], &[]), HookSetError::NoId);
    assert_eq!(refused(&[], &["gone".to_owned()]), HookSetError::Unknown("gone".to_owned()));
    let late = entry(&json!({"mode": "background", "capability": "guardrail", "point": "pre_llm_request"}));
    let expected = HookSetError::TooLate { id: "h".to_owned(), point: "pre_llm_request".to_owned() };
    assert_eq!(refused(&[late], &[]), expected);
    let after = entry(&json!({"mode": "background", "capability": "guardrail", "point": "run_failed"}));
    assert!(HookSet::new(&[after], Vec::new(), &[]).is_ok(), "after the fact it can only watch");
}

#[test]
fn an_answer_means_what_the_capability_and_the_policy_let_it_mean() {
    let guard = || entry(&json!({"capability": "guardrail"}));
    let denial = |kind, reason_code, message: &str| {
        let message = message.to_owned();
        let (hook_id, point) = ("h".to_owned(), HookPoint::TurnBoundary);
        Judgement::Denied(Denial { hook_id, point, kind, reason_code, message, payload: None })
    };
    let only = "it refused, which only a hook with `capability = \"guardrail\"` can";
    let broken = || Err(HookFault::broken("exit status 1"));
    let slow = || Err(HookFault { reason: HookReason::Timeout, message: "too slow".to_owned() });
    let patches = json!({"patches": [1]});
    let cases = [
        (guard(), answer(json!({})), Judgement::Allowed),
        (guard(), answer(json!({"decision": {"decision": "allow"}, "patches": []})), Judgement::Allowed),
        (guard(), answer(denied()), denial(DenialKind::Refused, HookReason::PolicyViolation, "no")),
        (guard(), broken(), denial(DenialKind::Failed, HookReason::RuntimeError, "exit status 1")),
        (guard(), slow(), denial(DenialKind::Failed, HookReason::Timeout, "too slow")),
        (
            entry(&json!({"capability": "guardrail", "failure_policy": "fail_open"})),
            broken(),
            Judgement::Tolerated("exit status 1".to_owned()),
        ),
        (entry(&json!({})), broken(), Judgement::Tolerated("exit status 1".to_owned())),
        (entry(&json!({})), answer(denied()), Judgement::Tolerated(only.to_owned())),
        (
            entry(&json!({"failure_policy": "fail_closed"})),
            broken(),
            denial(DenialKind::Failed, HookReason::RuntimeError, "exit status 1"),
        ),
        (
            guard(),
            answer(patches),
            denial(
                DenialKind::Failed,
                HookReason::RuntimeError,
                "it answered with `patches`; a hook can refuse and not change",
            ),
        ),
    ];
    for (entry, answer, expected) in cases {
        assert_eq!(judge(&entry, answer.clone()), expected, "{entry:?} {answer:?}");
    }
}

#[test]
fn an_invocation_has_what_belongs_to_its_point_and_nothing_else() {
    let session = SessionId::from_uuid(uuid::Uuid::from_u128(1));
    let call = ToolCall { id: "c".to_owned(), name: "look".to_owned(), args: json!({"at": "it"}) };
    let told = serde_json::to_value(HookInvocation::of_call(session, &call)).unwrap();
    assert_eq!(
        told,
        json!({
            "point": "pre_tool_execution",
            "session_id": session,
            "tool_call": {"tool_use_id": "c", "name": "look", "args": {"at": "it"}},
        })
    );
}

#[test]
fn what_a_hook_is_given_in_secret_is_shown_to_nobody() {
    let runtime = json!({"type": "http", "url": "http://x", "headers": {"authorization": "Bearer canary"}});
    let hook = entry(&json!({"runtime": runtime}));
    let shown = serde_json::to_value(&hook).unwrap();
    assert_eq!(shown["runtime"]["headers"], json!({"authorization": "***"}));
    assert!(!format!("{hook:?}").contains("canary"));
}
