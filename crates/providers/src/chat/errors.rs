//! What a server says when it fails, whichever server it is.

use meerkat_core::ModelErrorKind;
use serde_json::Value;

use crate::wire::{Refusal, kind_of_status};

/// How servers say that a conversation is too long for the model.
const OVERFLOW: [&str; 22] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "maximum context length",
    "max context length",
    "'s context length",
    "exceeds the context length",
    "exceeds the available context size",
    "context size has been exceeded",
    "context size exceeded",
    "context length exceeded",
    "exceed context window",
    "exceeds the context window",
    "exceeds the model's context window",
    "when context the overflows",
    "longer than the maximum model length",
    "longer than the maximum context",
    "exceeds the maximum model length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "`max_new_tokens` must be <=",
    "max_tokens must be at least 1, got -",
];

const FILTERED: [&str; 7] = [
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "content management policy",
    "content policy",
    "usage policies",
    "safety system",
];

/// Waiting does not help against these, so they are no rate limits.
const QUOTA: [&str; 4] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "exceeded your current quota",
    "insufficient balance",
];

const AUTH: [&str; 5] =
    ["authentication_error", "invalid_api_key", "permission_error", "permission_denied", "invalid api key"];

const OVERLOADED: [&str; 7] = [
    "overloaded",
    "unavailable_error",
    "service_unavailable",
    "serviceunavailable",
    "maximum pending requests exceeded",
    "at capacity",
    "loading model",
];

const LIMITED: [&str; 3] = ["rate_limit", "ratelimit", "too many requests"];

const REFUSED: [&str; 5] =
    ["invalid_request", "badrequest", "bad_request", "not_found_error", "notfounderror"];

/// Sorts a failure; the status is unknown when it came in the middle of a stream.
pub(super) fn refusal(status: Option<u16>, body: &Value) -> Refusal {
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
    let message = message(error);
    let status = status.or_else(|| code(error));
    let label = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let said = format!("{} {} {message}", label("type"), label("code")).to_lowercase();
    Refusal { kind: kind(status, &said), message }
}

fn kind(status: Option<u16>, said: &str) -> ModelErrorKind {
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let by_status = status.map(kind_of_status);
    let is_open = !matches!(by_status, Some(ModelErrorKind::Auth | ModelErrorKind::RateLimited));
    if says(&QUOTA) {
        ModelErrorKind::BadRequest
    } else if is_open && says(&OVERFLOW) {
        ModelErrorKind::ContextOverflow
    } else if says(&FILTERED) {
        ModelErrorKind::ContentFilter
    } else if says(&AUTH) {
        ModelErrorKind::Auth
    } else if says(&LIMITED) {
        ModelErrorKind::RateLimited
    } else if says(&OVERLOADED) {
        ModelErrorKind::Overloaded
    } else if let Some(kind) = by_status {
        kind
    } else if says(&REFUSED) {
        ModelErrorKind::BadRequest
    } else {
        ModelErrorKind::Server
    }
}

/// Returns what is said for people: a text, or wherever the server's framework puts one.
fn message(error: &Value) -> String {
    let said = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Array(details) => {
            let texts: Vec<_> = details.iter().filter_map(|detail| detail.get("msg")?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        }
        _ => None,
    };
    said(error)
        .or_else(|| ["message", "detail"].iter().find_map(|key| said(error.get(key)?)))
        .unwrap_or_default()
}

/// Returns the status that an error inside a stream carries as its code.
fn code(error: &Value) -> Option<u16> {
    let code = error.get("code").or_else(|| error.get("status_code"))?;
    let code = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}
