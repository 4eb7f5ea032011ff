//! Classification of the errors that the provider reports.
//!
//! A code takes precedence over a type, and both over the wording of the message, which differs between OpenAI and
//! compatible servers.

use meerkat_core::ModelErrorKind;
use serde_json::Value;

use crate::wire::{Failure, kind_of_status};

const OVERFLOW: [&str; 12] = [
    "context length",
    "context window",
    "context size",
    "maximum context",
    "context limit",
    "max_model_len",
    "too many tokens",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input tokens exceed",
    "reduce the length",
];
const QUOTA: [&str; 3] = ["exceeded your current quota", "billing hard limit", "insufficient_quota"];
const FILTERED: [&str; 4] = ["usage policy", "usage policies", "content management policy", "content policy"];
const OVERLOADED: [&str; 4] = ["overloaded", "at capacity", "slow down", "loading model"];

/// Parses an error received instead of a response.
pub(crate) fn refusal(status: u16, body: &Value) -> Failure {
    let report = ErrorReport::read(body);
    Failure::new(report.kind_or(kind_of_status(status)), report.message)
}

/// Parses an error received within a stream.
pub(crate) fn in_stream(value: &Value) -> Failure {
    let report = ErrorReport::read(value);
    let base = report.status.map_or(ModelErrorKind::Server, kind_of_status);
    Failure::new(report.kind_or(base), report.message).or("the request failed")
}

/// Content of an error object.
#[derive(Default)]
struct ErrorReport {
    code: String,
    kind: String,
    message: String,
    /// HTTP status, which self-hosted servers report as the code.
    status: Option<u16>,
}

impl ErrorReport {
    /// Parses `{"error": {…}}`, `{"error": "…"}`, `{"detail": …}`, or the error object itself.
    fn read(value: &Value) -> Self {
        let inner = match value.get("error") {
            Some(error) if !error.is_null() => error,
            _ => value,
        };
        if let Value::String(message) = inner {
            return Self { message: message.clone(), ..Self::default() };
        }
        let text = |key: &str| inner.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let status = inner.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let detail = match inner.get("detail") {
            Some(Value::String(detail)) => detail.clone(),
            Some(detail @ (Value::Array(_) | Value::Object(_))) => detail.to_string(),
            _ => String::new(),
        };
        let messages = [text("message"), detail, text("code")];
        let message = messages.into_iter().find(|message| !message.is_empty()).unwrap_or_default();
        Self { code: text("code"), kind: text("type"), message, status }
    }

    fn kind_or(&self, base: ModelErrorKind) -> ModelErrorKind {
        let by_name = by_name(&self.code).or_else(|| by_name(&self.kind));
        let message = self.message.to_lowercase();
        let contains_any = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let named = by_name.unwrap_or(base);
        if base == ModelErrorKind::Auth || named == ModelErrorKind::Auth {
            return ModelErrorKind::Auth;
        }
        // If the name is generic or missing, the message decides.
        let vague = by_name.is_none() || matches!(named, ModelErrorKind::BadRequest | ModelErrorKind::Server);
        match named {
            ModelErrorKind::RateLimited if contains_any(&QUOTA) => ModelErrorKind::BadRequest,
            ModelErrorKind::RateLimited => named,
            _ if !vague => named,
            _ if contains_any(&QUOTA) => ModelErrorKind::BadRequest,
            _ if contains_any(&OVERFLOW) => ModelErrorKind::ContextOverflow,
            ModelErrorKind::BadRequest if contains_any(&FILTERED) => ModelErrorKind::ContentFilter,
            ModelErrorKind::Server if contains_any(&OVERLOADED) => ModelErrorKind::Overloaded,
            // The status is more specific than a generic type.
            ModelErrorKind::BadRequest if base == ModelErrorKind::Overloaded => base,
            _ => named,
        }
    }
}

/// Classifies by a code or a type.
fn by_name(name: &str) -> Option<ModelErrorKind> {
    Some(match name {
        "context_length_exceeded" | "exceed_context_size_error" | "request_too_large" => {
            ModelErrorKind::ContextOverflow
        }
        "invalid_api_key" | "authentication_error" | "permission_error" | "account_deactivated" => {
            ModelErrorKind::Auth
        }
        "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" => ModelErrorKind::RateLimited,
        "overloaded_error"
        | "server_overloaded"
        | "server_is_overloaded"
        | "engine_overloaded"
        | "slow_down"
        | "unavailable_error" => ModelErrorKind::Overloaded,
        "content_filter"
        | "moderation_blocked"
        | "content_policy_violation"
        | "image_content_policy_violation"
        | "bio_policy"
        | "cyber_policy_violation"
        | "misalignment_policy_violation"
        | "invalid_prompt" => ModelErrorKind::ContentFilter,
        "server_error" | "internal_error" | "internal_server_error" | "InternalServerError" => {
            ModelErrorKind::Server
        }
        "vector_store_timeout" => ModelErrorKind::NetworkTimeout,
        "insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" => {
            ModelErrorKind::BadRequest
        }
        "invalid_request_error" | "BadRequestError" | "model_not_found" | "data_residency_mismatch" => {
            ModelErrorKind::BadRequest
        }
        name if name.contains("image") => ModelErrorKind::BadRequest,
        _ => return None,
    })
}
