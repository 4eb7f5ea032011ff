//! Classification of errors.

use meerkat_core::ModelErrorKind;

use super::*;

#[test]
fn errors_are_classified_by_their_content() {
    let bad = "invalid_request_error";
    let cases = [
        (400, bad, "messages: at least one message is required", ModelErrorKind::BadRequest),
        (400, bad, "prompt is too long: 210000 tokens > 200000 maximum", ModelErrorKind::ContextOverflow),
        (
            400,
            bad,
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ModelErrorKind::ContextOverflow,
        ),
        (400, bad, "The request exceeds the model's context window", ModelErrorKind::ContextOverflow),
        (400, bad, "Your credit balance is too low to access the Anthropic API", ModelErrorKind::BadRequest),
        (400, bad, "You have reached your specified API usage limits", ModelErrorKind::BadRequest),
        (400, bad, "Output blocked by content filtering policy", ModelErrorKind::ContentFilter),
        (401, "authentication_error", "invalid x-api-key", ModelErrorKind::Auth),
        (402, "billing_error", "pay first", ModelErrorKind::BadRequest),
        (403, "permission_error", "not yours", ModelErrorKind::Auth),
        (404, "not_found_error", "model: claude-0", ModelErrorKind::BadRequest),
        (413, "request_too_large", "Request exceeds the maximum size", ModelErrorKind::ContextOverflow),
        (429, "rate_limit_error", "too many tokens per minute", ModelErrorKind::RateLimited),
        (500, "api_error", "Internal server error", ModelErrorKind::Server),
        (504, "timeout_error", "too slow", ModelErrorKind::NetworkTimeout),
        (529, "overloaded_error", "Overloaded", ModelErrorKind::Overloaded),
        (418, "new_error", "prompt is too long", ModelErrorKind::ContextOverflow),
        (418, "new_error", "tea", ModelErrorKind::BadRequest),
        (503, "new_error", "tea", ModelErrorKind::Overloaded),
    ];
    for (status, kind, message, expected) in cases {
        let body =
            json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "r" });
        let refusal = wire().refusal(status, &body);
        assert_eq!((refusal.kind, refusal.message.as_str()), (expected, message), "{status} {kind}");
    }
}

#[test]
fn errors_of_proxies_are_parsed() {
    let cases = [
        (502, json!(null), ModelErrorKind::Server, ""),
        (401, json!({ "error": "no key" }), ModelErrorKind::Auth, "no key"),
        (429, json!({ "message": "slow" }), ModelErrorKind::RateLimited, "slow"),
        (400, json!({ "detail": "odd" }), ModelErrorKind::BadRequest, "odd"),
        (500, json!({ "error": { "code": 5 } }), ModelErrorKind::Server, ""),
        (500, json!([1]), ModelErrorKind::Server, ""),
    ];
    for (status, body, kind, message) in cases {
        let refusal = wire().refusal(status, &body);
        assert_eq!((refusal.kind, refusal.message.as_str()), (kind, message), "{body}");
    }
}
