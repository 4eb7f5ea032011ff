//! Errors that Gemini reports, before the response or within its stream.

use std::time::Duration;

use meerkat_core::ModelErrorKind;
use serde_json::Value;

use crate::wire::{Failure, kind_of_status};

/// Wordings of errors about a conversation that is too long.
const OVERFLOW: [&str; 10] = [
    "exceeds the maximum number of tokens",
    "input token count",
    "token count exceeds",
    "too many tokens",
    "context length",
    "context window",
    "context is too long",
    "input is too long",
    "prompt is too long",
    "request payload size exceeds",
];

/// Wordings of errors about an invalid key.
const AUTH: [&str; 5] =
    ["api key not valid", "api_key_invalid", "api key expired", "api_key_expired", "api key not found"];

/// Wordings of errors about filtered content.
const FILTER: [&str; 4] =
    ["prohibited_content", "prohibited content", "blocked due to safety", "violates our usage policies"];

/// Wordings of errors about a quota that a short wait does not restore.
const EXHAUSTED: [&str; 4] = ["perday", "limit: 0", "credits are depleted", "spending cap"];

/// Parses an error from the status of the response and its body.
pub(crate) fn refusal(status: u16, body: &Value) -> Failure {
    let error = error_of(body);
    let name = error.get("status").and_then(Value::as_str).unwrap_or_default().trim();
    let text = error.get("message").and_then(Value::as_str).unwrap_or_default().trim();
    let message = match (name, text) {
        ("", text) => text.to_owned(),
        (name, "") => name.to_owned(),
        (name, text) => format!("{name}: {text}"),
    };
    let details = error.get("details").map(Value::to_string).unwrap_or_default();
    Failure::new(kind(status, name, &format!("{text} {details}").to_lowercase()), message)
}

/// Returns the delay that the provider requests, if the body states one.
pub(crate) fn retry_after(body: &Value) -> Option<Duration> {
    let details = error_of(body).get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    (0.0..86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Parses an error received within the stream.
pub(crate) fn in_stream(body: &Value) -> Failure {
    let code = error_of(body).get("code").and_then(Value::as_u64);
    let status = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    let failure = refusal(status.unwrap_or(500), body).or("unspecified error");
    Failure { status, retry_after: retry_after(body), ..failure }
}

/// Returns the error object of a body; without `alt=sse` it is inside a list.
fn error_of(body: &Value) -> &Value {
    let body = body.get(0).unwrap_or(body);
    body.get("error").unwrap_or(&Value::Null)
}

fn kind(status: u16, name: &str, text: &str) -> ModelErrorKind {
    let contains_any = |wordings: &[&str]| wordings.iter().any(|wording| text.contains(wording));
    let by_name = match name {
        "RESOURCE_EXHAUSTED" => ModelErrorKind::RateLimited,
        "UNAVAILABLE" => ModelErrorKind::Overloaded,
        "DEADLINE_EXCEEDED" => ModelErrorKind::NetworkTimeout,
        "INTERNAL" | "UNKNOWN" | "ABORTED" | "CANCELLED" | "DATA_LOSS" => ModelErrorKind::Server,
        "UNAUTHENTICATED" | "PERMISSION_DENIED" => ModelErrorKind::Auth,
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" | "NOT_FOUND" | "UNIMPLEMENTED" => {
            ModelErrorKind::BadRequest
        }
        _ => kind_of_status(status),
    };
    match by_name {
        ModelErrorKind::RateLimited if contains_any(&EXHAUSTED) => ModelErrorKind::BadRequest,
        ModelErrorKind::BadRequest | ModelErrorKind::Server if contains_any(&OVERFLOW) => {
            ModelErrorKind::ContextOverflow
        }
        ModelErrorKind::BadRequest if status == 413 => ModelErrorKind::ContextOverflow,
        ModelErrorKind::BadRequest if contains_any(&AUTH) => ModelErrorKind::Auth,
        ModelErrorKind::BadRequest if contains_any(&FILTER) => ModelErrorKind::ContentFilter,
        kind => kind,
    }
}
