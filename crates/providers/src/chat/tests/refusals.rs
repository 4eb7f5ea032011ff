use meerkat_core::{ModelErrorKind, Provider};
use serde_json::{Value, json};

use super::wire;
use crate::wire::{Failure, Wire as _};

fn refusal(status: u16, body: &Value) -> (ModelErrorKind, String) {
    let Failure { kind, message, .. } = wire(Provider::SelfHosted).refusal(status, body);
    (kind, message)
}

#[test]
fn errors_are_classified_by_text_then_status() {
    let openai = |kind: &str, code: Value| json!({ "error": { "message": "m", "type": kind, "code": code } });
    let cases = [
        (
            400,
            openai("invalid_request_error", json!("context_length_exceeded")),
            ModelErrorKind::ContextOverflow,
        ),
        (500, openai("exceed_context_size_error", json!(500)), ModelErrorKind::ContextOverflow),
        (
            400,
            openai("invalid_request_error", json!("content_policy_violation")),
            ModelErrorKind::ContentFilter,
        ),
        (400, openai("invalid_request_error", json!("content_filter")), ModelErrorKind::ContentFilter),
        (429, openai("insufficient_quota", json!("insufficient_quota")), ModelErrorKind::BadRequest),
        (429, openai("requests", json!("rate_limit_exceeded")), ModelErrorKind::RateLimited),
        (429, Value::Null, ModelErrorKind::RateLimited),
        (401, openai("authentication_error", json!(401)), ModelErrorKind::Auth),
        (400, openai("invalid_request_error", json!("invalid_api_key")), ModelErrorKind::Auth),
        (403, Value::Null, ModelErrorKind::Auth),
        (503, openai("unavailable_error", json!(503)), ModelErrorKind::Overloaded),
        (500, openai("server_error", json!("server_overloaded")), ModelErrorKind::Overloaded),
        (404, openai("not_found_error", Value::Null), ModelErrorKind::BadRequest),
        (400, openai("invalid_request_error", Value::Null), ModelErrorKind::BadRequest),
        (422, Value::Null, ModelErrorKind::BadRequest),
        (402, Value::Null, ModelErrorKind::BadRequest),
        (413, Value::Null, ModelErrorKind::ContextOverflow),
        (500, openai("api_error", Value::Null), ModelErrorKind::Server),
        (502, Value::Null, ModelErrorKind::Server),
        (504, Value::Null, ModelErrorKind::NetworkTimeout),
    ];
    for (status, body, kind) in cases {
        assert_eq!(refusal(status, &body).0, kind, "{status} {body}");
    }
}

#[test]
fn context_overflow_is_detected_in_all_wordings() {
    let wordings = [
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion).",
        "You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024 tokens, resulting in a maximum input length of 1014 tokens.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "the input length exceeds the context length",
        "prompt too long; exceeded max context length by 4 tokens",
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens",
        "Context size has been exceeded.",
        "Requested tokens (516) exceed context window of 512",
        "Requested token count exceeds the model's maximum context length of 4096 tokens.",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
        "max_tokens must be at least 1, got -186.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ];
    for wording in wordings {
        let expected = (ModelErrorKind::ContextOverflow, wording.to_owned());
        assert_eq!(refusal(400, &json!({ "error": { "message": wording } })), expected);
    }
    let limited = json!({ "error": { "message": "maximum context length per minute" } });
    assert_eq!(refusal(429, &limited).0, ModelErrorKind::RateLimited);
}

#[test]
fn message_is_found_in_every_field() {
    let bodies = [
        json!({ "error": { "message": "no" } }),
        json!({ "error": "no" }),
        json!({ "object": "error", "message": "no" }),
        json!({ "detail": "no" }),
        json!({ "detail": [{ "loc": ["body"], "msg": "no" }] }),
        json!([{ "error": { "message": "no" } }]),
        json!({ "error": null, "message": " no " }),
    ];
    for body in bodies {
        assert_eq!(refusal(400, &body), (ModelErrorKind::BadRequest, "no".to_owned()), "{body}");
    }
    for body in [Value::Null, json!({}), json!({ "error": { "message": 1 } }), json!([]), json!(1)] {
        assert_eq!(refusal(400, &body).1, "", "{body}");
    }
}
