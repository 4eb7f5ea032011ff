//! Errors that Anthropic reports, before the response or within its stream.

use meerkat_core::ModelErrorKind;
use serde_json::Value;

use crate::wire::{Failure, kind_of_status};

/// Wordings of errors about a conversation that is too long.
const TOO_LONG: [&str; 8] = [
    "prompt is too long",
    "input is too long",
    "context window",
    "context limit",
    "context length",
    "too many tokens",
    "exceeds the maximum size",
    "request_too_large",
];

/// Wordings of errors about disallowed content.
const FILTERED: [&str; 4] = ["content filtering policy", "content policy", "usage policy", "usage policies"];

/// Parses an error received instead of a response.
pub(super) fn refusal(status: u16, body: &Value) -> Failure {
    let error = body.get("error").unwrap_or(body);
    let message = message(error).or_else(|| message(body)).unwrap_or_default();
    let kind = kind(error.get("type").and_then(Value::as_str).unwrap_or_default(), &message);
    Failure::new(kind.unwrap_or_else(|| kind_of_status(status)), message)
}

/// Parses an error received within the stream.
pub(super) fn in_stream(error: &Value) -> Failure {
    let message = message(error).unwrap_or_else(|| "the provider reported an error".to_owned());
    let kind = kind(error.get("type").and_then(Value::as_str).unwrap_or_default(), &message);
    Failure::new(kind.unwrap_or(ModelErrorKind::Server), message)
}

fn message(error: &Value) -> Option<String> {
    let text = error.get("message").or_else(|| error.get("detail")).unwrap_or(error);
    text.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

/// Classifies an error by its type and, if the type covers several cases, by its wording.
fn kind(name: &str, message: &str) -> Option<ModelErrorKind> {
    Some(match name {
        "invalid_request_error" => kind_by_wording(message).unwrap_or(ModelErrorKind::BadRequest),
        "request_too_large" => ModelErrorKind::ContextOverflow,
        "authentication_error" | "permission_error" => ModelErrorKind::Auth,
        "billing_error" | "not_found_error" => ModelErrorKind::BadRequest,
        "rate_limit_error" => ModelErrorKind::RateLimited,
        "overloaded_error" => ModelErrorKind::Overloaded,
        "timeout_error" => ModelErrorKind::NetworkTimeout,
        "api_error" => ModelErrorKind::Server,
        _ => return kind_by_wording(message),
    })
}

fn kind_by_wording(message: &str) -> Option<ModelErrorKind> {
    let message = message.to_lowercase();
    let contains_any = |wordings: &[&str]| wordings.iter().any(|wording| message.contains(wording));
    if contains_any(&TOO_LONG) {
        Some(ModelErrorKind::ContextOverflow)
    } else if contains_any(&FILTERED) {
        Some(ModelErrorKind::ContentFilter)
    } else {
        None
    }
}
