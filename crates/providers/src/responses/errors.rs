//! What went wrong, by what the provider says of it.
//!
//! A code is trusted before a type, and both before the wording of the message, which differs between
//! OpenAI and the servers that speak like it.

use meerkat_core::{ModelErrorKind, Provider};
use serde_json::Value;

use crate::wire::{Refusal, error, kind_of_status};

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

/// Reads the error that came instead of an answer.
pub(crate) fn refusal(status: u16, body: &Value) -> Refusal {
    let said = Said::read(body);
    Refusal { kind: said.sort(kind_of_status(status)), message: said.message }
}

/// Reads an error that came in the middle of a stream.
pub(crate) fn in_stream(provider: Provider, value: &Value) -> meerkat_core::ModelError {
    let said = Said::read(value);
    let base = said.status.map_or(ModelErrorKind::Server, kind_of_status);
    let kind = said.sort(base);
    let message = if said.message.trim().is_empty() { "the answer failed".to_owned() } else { said.message };
    error(provider, kind, message)
}

/// What an error object says.
#[derive(Default)]
struct Said {
    code: String,
    kind: String,
    message: String,
    /// Servers of the user's own give the HTTP status as the code.
    status: Option<u16>,
}

impl Said {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, `{"detail": …}`, or the error object itself.
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
        let mut message = text("message");
        if message.is_empty() {
            message = match inner.get("detail") {
                Some(Value::String(detail)) => detail.clone(),
                Some(detail @ (Value::Array(_) | Value::Object(_))) => detail.to_string(),
                _ => message,
            };
        }
        if message.is_empty() {
            message = text("code");
        }
        Self { code: text("code"), kind: text("type"), message, status }
    }

    fn sort(&self, base: ModelErrorKind) -> ModelErrorKind {
        let by_name = by_name(&self.code).or_else(|| by_name(&self.kind));
        let message = self.message.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let named = by_name.unwrap_or(base);
        if base == ModelErrorKind::Auth || named == ModelErrorKind::Auth {
            return ModelErrorKind::Auth;
        }
        // A name that says little, or none, leaves it to the message.
        let vague = by_name.is_none() || matches!(named, ModelErrorKind::BadRequest | ModelErrorKind::Server);
        match named {
            ModelErrorKind::RateLimited if has(&QUOTA) => ModelErrorKind::BadRequest,
            ModelErrorKind::RateLimited => named,
            _ if !vague => named,
            _ if has(&QUOTA) => ModelErrorKind::BadRequest,
            _ if has(&OVERFLOW) => ModelErrorKind::ContextOverflow,
            ModelErrorKind::BadRequest if has(&FILTERED) => ModelErrorKind::ContentFilter,
            ModelErrorKind::Server if has(&OVERLOADED) => ModelErrorKind::Overloaded,
            // The status says more than a type that stands for anything.
            ModelErrorKind::BadRequest if base == ModelErrorKind::Overloaded => base,
            _ => named,
        }
    }
}

/// Sorts by a code or a type.
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
