//! Errors that servers report, in the formats of various servers.

use meerkat_core::ModelErrorKind;
use serde_json::Value;

use crate::wire::{Failure, kind_of_status};

/// Wordings of errors about a conversation that exceeds the context window.
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

/// Quota errors; waiting does not help, so they do not count as rate limits.
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

/// Classifies a failure; the status is unknown if it occurred within a stream.
pub(super) fn refusal(status: Option<u16>, body: &Value) -> Failure {
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
    let message = message(error);
    let status = status.or_else(|| code(error));
    let label = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let text = format!("{} {} {message}", label("type"), label("code")).to_lowercase();
    Failure::new(kind(status, &text), message)
}

/// Parses an error received within the stream.
pub(super) fn in_stream(chunk: &Value) -> Failure {
    refusal(None, chunk).or("unspecified error")
}

fn kind(status: Option<u16>, text: &str) -> ModelErrorKind {
    let by_wording: [(&[&str], ModelErrorKind); 6] = [
        (&QUOTA, ModelErrorKind::BadRequest),
        (&OVERFLOW, ModelErrorKind::ContextOverflow),
        (&FILTERED, ModelErrorKind::ContentFilter),
        (&AUTH, ModelErrorKind::Auth),
        (&LIMITED, ModelErrorKind::RateLimited),
        (&OVERLOADED, ModelErrorKind::Overloaded),
    ];
    let contains_any = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let by_status = status.map(kind_of_status);
    let is_closed = matches!(by_status, Some(ModelErrorKind::Auth | ModelErrorKind::RateLimited));
    let fits = |(words, kind): &&(&[&str], ModelErrorKind)| {
        contains_any(words) && !(is_closed && *kind == ModelErrorKind::ContextOverflow)
    };
    let named = by_wording.iter().find(fits).map(|(_, kind)| *kind).or(by_status);
    let is_refused = || contains_any(&REFUSED);
    named.unwrap_or_else(|| if is_refused() { ModelErrorKind::BadRequest } else { ModelErrorKind::Server })
}

/// Returns the human-readable message: a string, or one of the places where server frameworks put it.
fn message(error: &Value) -> String {
    let readable = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Array(details) => {
            let texts: Vec<_> = details.iter().filter_map(|detail| detail.get("msg")?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        }
        _ => None,
    };
    readable(error)
        .or_else(|| ["message", "detail"].iter().find_map(|key| readable(error.get(key)?)))
        .unwrap_or_default()
}

/// Returns the status that an error within a stream carries as its code.
fn code(error: &Value) -> Option<u16> {
    let code = error.get("code").or_else(|| error.get("status_code"))?;
    let code = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}
