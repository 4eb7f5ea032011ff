//! The JSON of events, in the wire format.

use std::collections::BTreeSet;

use meerkat_core::{
    AgentEvent, AssistantImage, BlobRef, BudgetType, Content, ContentBlock, ErrorClass, ErrorReport,
    EventEnvelope, EventSource, HookPoint, HookReason, JobStatus, Provider, Retry, RetryFailure, RetryKind,
    RetryPlan, SchemaWarning, SessionId, StopReason, TerminalCause, Timestamp, ToolConfigChange,
    ToolConfigOperation, Usage,
};
use serde_json::{Value, json};

use crate::pin;

const ID: &str = "01936f8a-7b2c-7000-8000-000000000001";
const BLOB: &str = "sha256:abababababababababababababababababababababababababababababababab";

fn session() -> SessionId {
    ID.parse().unwrap()
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn block() -> ContentBlock {
    ContentBlock::Text { text: text("fine") }
}

const fn usage() -> Usage {
    Usage { input_tokens: 7, output_tokens: 3, cache_creation_tokens: None, cache_read_tokens: None }
}

fn runs() -> Vec<(AgentEvent, Value)> {
    vec![
        (
            AgentEvent::RunStarted { session_id: session(), prompt: Content::text("hi") },
            json!({"type": "run_started", "session_id": ID, "prompt": "hi"}),
        ),
        (
            AgentEvent::RunStarted { session_id: session(), prompt: vec![block(), block()].into() },
            json!({
                "type": "run_started", "session_id": ID,
                "prompt": [{"type": "text", "text": "fine"}, {"type": "text", "text": "fine"}],
            }),
        ),
        (
            AgentEvent::RunCompleted {
                session_id: session(),
                result: text("done"),
                structured_output: None,
                extraction_required: true,
                usage: usage(),
                terminal_cause_kind: None,
            },
            json!({
                "type": "run_completed", "session_id": ID, "result": "done", "extraction_required": true,
                "usage": {"input_tokens": 7, "output_tokens": 3},
            }),
        ),
        (
            AgentEvent::RunCompleted {
                session_id: session(),
                result: text("done"),
                structured_output: Some(json!({"a": 1})),
                extraction_required: false,
                usage: usage(),
                terminal_cause_kind: Some(TerminalCause::BudgetExhausted),
            },
            json!({
                "type": "run_completed", "session_id": ID, "result": "done", "structured_output": {"a": 1},
                "extraction_required": false, "usage": {"input_tokens": 7, "output_tokens": 3},
                "terminal_cause_kind": "budget_exhausted",
            }),
        ),
        (
            AgentEvent::RunFailed {
                session_id: session(),
                error_class: ErrorClass::Llm,
                error: text("no"),
                terminal_cause_kind: None,
                error_report: None,
            },
            json!({"type": "run_failed", "session_id": ID, "error_class": "llm", "error": "no"}),
        ),
        (
            AgentEvent::RunFailed {
                session_id: session(),
                error_class: ErrorClass::Llm,
                error: text("no"),
                terminal_cause_kind: Some(TerminalCause::RetryExhausted),
                error_report: Some(ErrorReport {
                    class: ErrorClass::Llm,
                    reason: Some(text("overloaded")),
                    message: text("no"),
                }),
            },
            json!({
                "type": "run_failed", "session_id": ID, "error_class": "llm", "error": "no",
                "terminal_cause_kind": "retry_exhausted",
                "error_report": {"class": "llm", "reason": "overloaded", "message": "no"},
            }),
        ),
    ]
}

fn extraction() -> Vec<(AgentEvent, Value)> {
    vec![
        (
            AgentEvent::ExtractionSucceeded {
                session_id: session(),
                structured_output: json!({"a": 1}),
                schema_warnings: None,
            },
            json!({"type": "extraction_succeeded", "session_id": ID, "structured_output": {"a": 1}}),
        ),
        (
            AgentEvent::ExtractionSucceeded {
                session_id: session(),
                structured_output: json!([]),
                schema_warnings: Some(vec![SchemaWarning {
                    provider: Provider::OpenAi,
                    path: text("/not"),
                    message: text("omitted"),
                }]),
            },
            json!({
                "type": "extraction_succeeded", "session_id": ID, "structured_output": [],
                "schema_warnings": [{"provider": "openai", "path": "/not", "message": "omitted"}],
            }),
        ),
        (
            AgentEvent::ExtractionFailed {
                session_id: session(),
                last_output: text("{}"),
                attempts: 3,
                reason: text("odd"),
            },
            json!({
                "type": "extraction_failed", "session_id": ID, "last_output": "{}", "attempts": 3, "reason": "odd",
            }),
        ),
    ]
}

fn hooks() -> Vec<(AgentEvent, Value)> {
    let denied = |payload| AgentEvent::HookDenied {
        hook_id: text("h"),
        point: HookPoint::PreToolExecution,
        reason_code: HookReason::PolicyViolation,
        message: text("no"),
        payload,
    };
    vec![
        (
            AgentEvent::HookStarted { hook_id: text("h"), point: HookPoint::RunStarted },
            json!({"type": "hook_started", "hook_id": "h", "point": "run_started"}),
        ),
        (
            AgentEvent::HookCompleted { hook_id: text("h"), point: HookPoint::PreLlmRequest, duration_ms: 5 },
            json!({"type": "hook_completed", "hook_id": "h", "point": "pre_llm_request", "duration_ms": 5}),
        ),
        (
            AgentEvent::HookFailed { hook_id: text("h"), point: HookPoint::TurnBoundary, error: text("no") },
            json!({"type": "hook_failed", "hook_id": "h", "point": "turn_boundary", "error": "no"}),
        ),
        (
            denied(None),
            json!({
                "type": "hook_denied", "hook_id": "h", "point": "pre_tool_execution",
                "reason_code": "policy_violation", "message": "no",
            }),
        ),
        (
            denied(Some(json!([1]))),
            json!({
                "type": "hook_denied", "hook_id": "h", "point": "pre_tool_execution",
                "reason_code": "policy_violation", "message": "no", "payload": [1],
            }),
        ),
    ]
}

fn steps() -> Vec<(AgentEvent, Value)> {
    vec![
        (AgentEvent::TurnStarted { turn_number: 2 }, json!({"type": "turn_started", "turn_number": 2})),
        (AgentEvent::ReasoningDelta { delta: text("h") }, json!({"type": "reasoning_delta", "delta": "h"})),
        (
            AgentEvent::ReasoningComplete { content: text("hm") },
            json!({"type": "reasoning_complete", "content": "hm"}),
        ),
        (AgentEvent::TextDelta { delta: text("o") }, json!({"type": "text_delta", "delta": "o"})),
        (AgentEvent::TextComplete { content: text("ok") }, json!({"type": "text_complete", "content": "ok"})),
        (
            AgentEvent::ServerToolContent { id: None, name: text("web_search"), content: json!({"hits": 1}) },
            json!({"type": "server_tool_content", "name": "web_search", "content": {"hits": 1}}),
        ),
        (
            AgentEvent::ServerToolContent {
                id: Some(text("s1")),
                name: text("web_search"),
                content: json!([]),
            },
            json!({"type": "server_tool_content", "id": "s1", "name": "web_search", "content": []}),
        ),
        (
            AgentEvent::AssistantImageAppended {
                image: AssistantImage {
                    image_id: text("i1"),
                    blob_ref: BlobRef { blob_id: BLOB.parse().unwrap(), media_type: text("image/png") },
                    media_type: text("image/png"),
                    width: 4,
                    height: 3,
                    revised_prompt: None,
                    meta: None,
                },
            },
            json!({
                "type": "assistant_image_appended",
                "image": {
                    "image_id": "i1", "blob_ref": {"blob_id": BLOB, "media_type": "image/png"},
                    "media_type": "image/png", "width": 4, "height": 3, "revised_prompt": null, "meta": null,
                },
            }),
        ),
        (
            AgentEvent::TurnCompleted { stop_reason: StopReason::ToolUse, usage: usage() },
            json!({
                "type": "turn_completed", "stop_reason": "tool_use",
                "usage": {"input_tokens": 7, "output_tokens": 3},
            }),
        ),
    ]
}

fn tools() -> Vec<(AgentEvent, Value)> {
    let received = |content, is_error| AgentEvent::ToolResultReceived {
        id: text("c1"),
        name: text("a"),
        content,
        is_error,
    };
    let completed = |content| AgentEvent::ToolExecutionCompleted {
        id: text("c1"),
        name: text("a"),
        result: text("fine"),
        content,
        is_error: false,
        duration_ms: 12,
    };
    vec![
        (
            AgentEvent::ToolCallRequested { id: text("c1"), name: text("a"), args: json!({"x": 1}) },
            json!({"type": "tool_call_requested", "id": "c1", "name": "a", "args": {"x": 1}}),
        ),
        (
            received(vec![], true),
            json!({"type": "tool_result_received", "id": "c1", "name": "a", "is_error": true}),
        ),
        (
            received(vec![block()], false),
            json!({
                "type": "tool_result_received", "id": "c1", "name": "a",
                "content": [{"type": "text", "text": "fine"}], "is_error": false,
            }),
        ),
        (
            AgentEvent::ToolExecutionStarted { id: text("c1"), name: text("a") },
            json!({"type": "tool_execution_started", "id": "c1", "name": "a"}),
        ),
        (
            completed(vec![]),
            json!({
                "type": "tool_execution_completed", "id": "c1", "name": "a", "result": "fine", "is_error": false,
                "duration_ms": 12,
            }),
        ),
        (
            completed(vec![block()]),
            json!({
                "type": "tool_execution_completed", "id": "c1", "name": "a", "result": "fine",
                "content": [{"type": "text", "text": "fine"}], "is_error": false, "duration_ms": 12,
            }),
        ),
        (
            AgentEvent::ToolExecutionTimedOut { id: text("c1"), name: text("a"), timeout_ms: 600_000 },
            json!({"type": "tool_execution_timed_out", "id": "c1", "name": "a", "timeout_ms": 600_000}),
        ),
    ]
}

fn limits() -> Vec<(AgentEvent, Value)> {
    let retrying = |retry| AgentEvent::Retrying {
        attempt: 1,
        max_attempts: 4,
        error: text("busy"),
        delay_ms: 500,
        retry,
    };
    vec![
        (
            AgentEvent::CompactionStarted { input_tokens: 9, estimated_history_tokens: 8, message_count: 7 },
            json!({
                "type": "compaction_started", "input_tokens": 9, "estimated_history_tokens": 8, "message_count": 7,
            }),
        ),
        (
            AgentEvent::CompactionCompleted { summary_tokens: 1, messages_before: 9, messages_after: 4 },
            json!({"type": "compaction_completed", "summary_tokens": 1, "messages_before": 9, "messages_after": 4}),
        ),
        (
            AgentEvent::CompactionFailed { error: text("no") },
            json!({"type": "compaction_failed", "error": "no"}),
        ),
        (
            AgentEvent::BudgetWarning {
                budget_type: BudgetType::ToolCalls,
                used: 7,
                limit: 8,
                percent: 87.5,
            },
            json!({"type": "budget_warning", "budget_type": "tool_calls", "used": 7, "limit": 8, "percent": 87.5}),
        ),
        (
            retrying(None),
            json!({"type": "retrying", "attempt": 1, "max_attempts": 4, "error": "busy", "delay_ms": 500}),
        ),
        (
            retrying(Some(Retry {
                failure: RetryFailure {
                    provider: Provider::OpenAi,
                    kind: RetryKind::RateLimited,
                    retry_after_ms: Some(1000),
                    duration_ms: Some(20),
                    message: text("busy"),
                },
                plan: RetryPlan {
                    attempt: 1,
                    max_retries: 4,
                    computed_delay_ms: 500,
                    selected_delay_ms: 1000,
                    retry_after_hint_ms: Some(1000),
                    rate_limit_floor_applied: false,
                    budget_capped: false,
                },
            })),
            json!({
                "type": "retrying", "attempt": 1, "max_attempts": 4, "error": "busy", "delay_ms": 500,
                "retry": {
                    "failure": {
                        "provider": "openai", "kind": "rate_limited", "retry_after_ms": 1000,
                        "duration_ms": 20, "message": "busy",
                    },
                    "plan": {
                        "attempt": 1, "max_retries": 4, "computed_delay_ms": 500, "selected_delay_ms": 1000,
                        "retry_after_hint_ms": 1000, "rate_limit_floor_applied": false, "budget_capped": false,
                    },
                },
            }),
        ),
        (
            AgentEvent::StreamTruncated { reason: text("slow") },
            json!({"type": "stream_truncated", "reason": "slow"}),
        ),
    ]
}

fn skills() -> Vec<(AgentEvent, Value)> {
    let key = json!({"source_uuid": ID, "skill_name": "pdf"});
    let failed = |skill_key| AgentEvent::SkillResolutionFailed {
        skill_key,
        reason: json!({"reason_type": "not_found"}),
        reference: text("pdf"),
        error: text("no such skill"),
    };
    vec![
        (
            AgentEvent::SkillsResolved { skills: vec![key.clone()], injection_bytes: 10 },
            json!({
                "type": "skills_resolved", "skills": [{"source_uuid": ID, "skill_name": "pdf"}],
                "injection_bytes": 10,
            }),
        ),
        (
            failed(None),
            json!({
                "type": "skill_resolution_failed", "reason": {"reason_type": "not_found"}, "reference": "pdf",
                "error": "no such skill",
            }),
        ),
        (
            failed(Some(key)),
            json!({
                "type": "skill_resolution_failed", "skill_key": {"source_uuid": ID, "skill_name": "pdf"},
                "reason": {"reason_type": "not_found"}, "reference": "pdf", "error": "no such skill",
            }),
        ),
    ]
}

fn interactions() -> Vec<(AgentEvent, Value)> {
    let complete = |structured_output| AgentEvent::InteractionComplete {
        interaction_id: text("q1"),
        result: text("done"),
        structured_output,
    };
    vec![
        (complete(None), json!({"type": "interaction_complete", "interaction_id": "q1", "result": "done"})),
        (
            complete(Some(json!(1))),
            json!({
                "type": "interaction_complete", "interaction_id": "q1", "result": "done", "structured_output": 1,
            }),
        ),
        (
            AgentEvent::InteractionCallbackPending {
                interaction_id: text("q1"),
                tool_name: text("a"),
                args: json!({}),
            },
            json!({"type": "interaction_callback_pending", "interaction_id": "q1", "tool_name": "a", "args": {}}),
        ),
        (
            AgentEvent::ToolApprovalRequested {
                id: text("c1"),
                name: text("a"),
                args: json!({}),
                expires_at: Timestamp::UNIX_EPOCH,
            },
            json!({
                "type": "tool_approval_requested", "id": "c1", "name": "a", "args": {},
                "expires_at": "1970-01-01T00:00:00Z",
            }),
        ),
        (
            AgentEvent::InteractionFailed { interaction_id: text("q1"), error: text("no") },
            json!({"type": "interaction_failed", "interaction_id": "q1", "error": "no"}),
        ),
    ]
}

fn changes() -> Vec<(AgentEvent, Value)> {
    let change = ToolConfigChange {
        operation: ToolConfigOperation::Add,
        target: text("github"),
        status: text("pending"),
        status_info: None,
        persisted: false,
        applied_at_turn: None,
        domain: None,
        deferred_catalog_delta: None,
    };
    let full = ToolConfigChange {
        status_info: Some(json!({"kind": "external_tool_delta", "phase": "applied"})),
        applied_at_turn: Some(4),
        domain: Some(text("tool_scope")),
        deferred_catalog_delta: Some(json!({})),
        ..change.clone()
    };
    let job = |status| AgentEvent::BackgroundJobCompleted {
        job_id: text("j1"),
        display_name: text("make"),
        status,
        terminal_status: JobStatus::Completed,
        detail: text("exit 0"),
    };
    vec![
        (
            AgentEvent::ToolConfigChanged { payload: change },
            json!({
                "type": "tool_config_changed",
                "payload": {"operation": "add", "target": "github", "status": "pending", "persisted": false},
            }),
        ),
        (
            AgentEvent::ToolConfigChanged { payload: full },
            json!({
                "type": "tool_config_changed",
                "payload": {
                    "operation": "add", "target": "github", "status": "pending",
                    "status_info": {"kind": "external_tool_delta", "phase": "applied"}, "persisted": false,
                    "applied_at_turn": 4, "domain": "tool_scope", "deferred_catalog_delta": {},
                },
            }),
        ),
        (
            job(None),
            json!({
                "type": "background_job_completed", "job_id": "j1", "display_name": "make",
                "terminal_status": "completed", "detail": "exit 0",
            }),
        ),
        (
            job(Some(text("ok"))),
            json!({
                "type": "background_job_completed", "job_id": "j1", "display_name": "make", "status": "ok",
                "terminal_status": "completed", "detail": "exit 0",
            }),
        ),
    ]
}

#[test]
fn events_match_the_wire_format() {
    let groups =
        [runs(), extraction(), hooks(), steps(), tools(), limits(), skills(), interactions(), changes()];
    let mut types = BTreeSet::new();
    for (event, json) in groups.iter().flatten() {
        pin(event, json);
        types.insert(json["type"].as_str().unwrap());
    }
    assert_eq!(types.len(), 36, "{types:?}");
    let unknown = serde_json::from_value::<AgentEvent>(json!({"type": "?"})).unwrap_err();
    // The error lists every known type, after the unknown one.
    assert_eq!(unknown.to_string().matches('`').count(), 2 * (36 + 1), "{unknown}");
}

#[test]
fn envelopes_match_the_wire_format() {
    let sources = [
        (EventSource::Session { session_id: session() }, json!({"type": "session", "session_id": ID})),
        (EventSource::Runtime { runtime_id: text("r") }, json!({"type": "runtime", "runtime_id": "r"})),
        (
            EventSource::Interaction { interaction_id: text("q") },
            json!({"type": "interaction", "interaction_id": "q"}),
        ),
        (EventSource::Callback, json!({"type": "callback"})),
        (EventSource::External { source_id: text("x") }, json!({"type": "external", "source_id": "x"})),
    ];
    for (source, json) in sources {
        let mut envelope = EventEnvelope {
            event_id: ID.parse().unwrap(),
            source,
            source_id: text("session:x"),
            seq: 3,
            mob_id: None,
            timestamp_ms: 1_767_225_600_000,
            payload: AgentEvent::TurnStarted { turn_number: 1 },
        };
        let mut expected = json!({
            "event_id": ID, "source": json, "source_id": "session:x", "seq": 3, "timestamp_ms": 1_767_225_600_000_i64,
            "payload": {"type": "turn_started", "turn_number": 1},
        });
        pin(&envelope, &expected);
        envelope.mob_id = Some(text("m"));
        expected["mob_id"] = json!("m");
        pin(&envelope, &expected);
    }
}

#[test]
fn enums_match_the_wire_format() {
    let error_classes = "llm store tool mcp session_not_found budget max_tokens content_filtered max_turns cancelled \
        invalid_state operation_not_found depth_limit concurrency_limit config internal build auth callback_pending \
        structured_output invalid_output_schema hook terminal no_pending_boundary";
    let causes = "unknown hook_denied hook_failure llm_failure tool_failure structured_output_validation_failed \
        budget_exhausted time_budget_exceeded retry_exhausted turn_limit_reached runtime_apply_failure fatal_failure";
    let points = "run_started run_completed run_failed pre_llm_request post_llm_response pre_tool_execution \
        post_tool_execution turn_boundary";
    let reasons = "policy_violation safety_violation schema_violation timeout runtime_error";
    check_names::<ErrorClass>(error_classes);
    check_names::<TerminalCause>(causes);
    check_names::<HookPoint>(points);
    check_names::<HookReason>(reasons);
    check_names::<ToolConfigOperation>("add remove reload");
    check_names::<JobStatus>("completed failed aborted cancelled retired terminated");
    check_names::<BudgetType>("tokens time tool_calls cost");
    check_names::<Provider>("anthropic openai gemini self_hosted other");
    check_names::<StopReason>("end_turn tool_use max_tokens stop_sequence content_filter cancelled");
}

/// Checks that an enum has exactly these names: an error for an unknown name lists the known ones.
fn check_names<T: serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug>(expected: &str) {
    let mut count = 0;
    for name in expected.split_whitespace() {
        let value: T = serde_json::from_value(json!(name)).unwrap();
        assert_eq!(serde_json::to_value(value).unwrap(), json!(name));
        count += 1;
    }
    let error = serde_json::from_value::<T>(json!("?")).unwrap_err().to_string();
    // The unknown name is the first quoted one.
    assert_eq!(error.matches('`').count(), 2 * (count + 1), "{error}");
}
