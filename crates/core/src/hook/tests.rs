//! Tests of hook sets and verdicts that call no hooks.

use serde_json::{Value, json};

use super::{
    Denial, DenialKind, HookEntry, HookFailure, HookInvocation, HookMode, HookOutput, HookSet, HookSetError,
    HookVerdict, evaluate_hook,
};
use crate::{HookPoint, HookReason, SessionId, ToolCall};

fn entry(overrides: &Value) -> HookEntry {
    let mut document = json!({"id": "h", "runtime": {"type": "command", "command": "true"}});
    for (key, value) in overrides.as_object().unwrap() {
        document[key] = value.clone();
    }
    serde_json::from_value(document).unwrap()
}

fn output(value: Value) -> Result<HookOutput, HookFailure> {
    serde_json::from_value(value).map_err(|error| HookFailure::runtime_error(error.to_string()))
}

fn denied() -> Value {
    json!({"decision": {"decision": "deny", "hook_id": "x", "reason_code": "policy_violation", "message": "no"}})
}

#[test]
fn hooks_are_ordered_by_priority_then_config() {
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
fn invalid_hooks_are_rejected() {
    let error =
        |base: &[HookEntry], disabled: &[String]| HookSet::new(base, Vec::new(), disabled).unwrap_err();
    assert_eq!(error(&[entry(&json!({"id": " "}))], &[]), HookSetError::NoId);
    assert_eq!(error(&[], &["gone".to_owned()]), HookSetError::Unknown("gone".to_owned()));
    let late = entry(&json!({"mode": "background", "capability": "guardrail", "point": "pre_llm_request"}));
    let expected = HookSetError::TooLate { id: "h".to_owned(), point: "pre_llm_request".to_owned() };
    assert_eq!(error(&[late], &[]), expected);
    let after = entry(&json!({"mode": "background", "capability": "guardrail", "point": "run_failed"}));
    assert!(HookSet::new(&[after], Vec::new(), &[]).is_ok(), "after the operation, it can only observe");
}

#[test]
fn verdict_depends_on_capability_and_policy() {
    let guard = || entry(&json!({"capability": "guardrail"}));
    let denial = |kind, reason_code, message: &str| {
        let message = message.to_owned();
        let (hook_id, point) = ("h".to_owned(), HookPoint::TurnBoundary);
        HookVerdict::Denied(Denial { hook_id, point, kind, reason_code, message, payload: None })
    };
    let not_a_guardrail = "it denied, but only hooks with `capability = \"guardrail\"` can deny";
    let broken = || Err(HookFailure::runtime_error("exit status 1"));
    let slow = || Err(HookFailure { reason: HookReason::Timeout, message: "too slow".to_owned() });
    let patches = json!({"patches": [1]});
    let cases = [
        (guard(), output(json!({})), HookVerdict::Allowed),
        (guard(), output(json!({"decision": {"decision": "allow"}, "patches": []})), HookVerdict::Allowed),
        (guard(), output(denied()), denial(DenialKind::Denied, HookReason::PolicyViolation, "no")),
        (guard(), broken(), denial(DenialKind::Failed, HookReason::RuntimeError, "exit status 1")),
        (guard(), slow(), denial(DenialKind::Failed, HookReason::Timeout, "too slow")),
        (
            entry(&json!({"capability": "guardrail", "failure_policy": "fail_open"})),
            broken(),
            HookVerdict::Tolerated("exit status 1".to_owned()),
        ),
        (entry(&json!({})), broken(), HookVerdict::Tolerated("exit status 1".to_owned())),
        (entry(&json!({})), output(denied()), HookVerdict::Tolerated(not_a_guardrail.to_owned())),
        (
            entry(&json!({"failure_policy": "fail_closed"})),
            broken(),
            denial(DenialKind::Failed, HookReason::RuntimeError, "exit status 1"),
        ),
        (
            guard(),
            output(patches),
            denial(
                DenialKind::Failed,
                HookReason::RuntimeError,
                "it returned `patches`; a hook can deny but not modify",
            ),
        ),
    ];
    for (entry, output, expected) in cases {
        assert_eq!(evaluate_hook(&entry, output.clone()), expected, "{entry:?} {output:?}");
    }
}

#[test]
fn invocation_has_only_fields_of_its_point() {
    let session = SessionId::from_uuid(uuid::Uuid::from_u128(1));
    let call = ToolCall { id: "c".to_owned(), name: "look".to_owned(), args: json!({"at": "it"}) };
    let invocation = serde_json::to_value(HookInvocation::for_call(session, &call)).unwrap();
    assert_eq!(
        invocation,
        json!({
            "point": "pre_tool_execution",
            "session_id": session,
            "tool_call": {"tool_use_id": "c", "name": "look", "args": {"at": "it"}},
        })
    );
}

#[test]
fn hook_secrets_are_masked() {
    let runtime = json!({"type": "http", "url": "http://x", "headers": {"authorization": "Bearer canary"}});
    let hook = entry(&json!({"runtime": runtime}));
    let serialized = serde_json::to_value(&hook).unwrap();
    assert_eq!(serialized["runtime"]["headers"], json!({"authorization": "***"}));
    assert!(!format!("{hook:?}").contains("canary"));
}
