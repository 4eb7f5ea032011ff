//! Classification of errors.

use meerkat_core::ModelErrorKind as Kind;

use super::*;

fn openai(kind: &str, code: impl Into<Value>, message: &str) -> Value {
    json!({"error": {"type": kind, "code": code.into(), "param": null, "message": message}})
}

#[test]
fn errors_are_classified_by_their_content() {
    let invalid = "invalid_request_error";
    let overflow = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens";
    let cases = [
        (401, openai(invalid, json!("invalid_api_key"), "Incorrect API key provided"), Kind::Auth),
        (
            403,
            openai("x", json!("unsupported_country_region_territory"), "Country not supported"),
            Kind::Auth,
        ),
        (404, openai(invalid, json!("model_not_found"), "The model `x` does not exist"), Kind::BadRequest),
        (
            400,
            openai(invalid, json!("context_length_exceeded"), "Your input exceeds the context window"),
            Kind::ContextOverflow,
        ),
        (400, openai(invalid, json!(null), overflow), Kind::ContextOverflow),
        (400, openai("BadRequestError", json!(400), overflow), Kind::ContextOverflow),
        (
            400,
            openai("exceed_context_size_error", json!(400), "the request exceeds the available context size"),
            Kind::ContextOverflow,
        ),
        (
            500,
            openai("server_error", json!(500), "the request exceeds the available context size"),
            Kind::ContextOverflow,
        ),
        (413, json!(null), Kind::ContextOverflow),
        (
            400,
            openai(invalid, json!("unsupported_parameter"), "Unsupported parameter: 'seed'"),
            Kind::BadRequest,
        ),
        (400, openai(invalid, json!("invalid_prompt"), "Your prompt was flagged"), Kind::ContentFilter),
        (400, openai(invalid, json!("content_policy_violation"), "no"), Kind::ContentFilter),
        (400, openai(invalid, json!(null), "This violates our usage policy"), Kind::ContentFilter),
        (400, openai(invalid, json!("invalid_image_format"), "bad"), Kind::BadRequest),
        (429, openai("requests", json!("rate_limit_exceeded"), "Rate limit reached"), Kind::RateLimited),
        (
            429,
            openai("tokens", json!("rate_limit_exceeded"), "Request too large for gpt-5.5 on tokens per min"),
            Kind::RateLimited,
        ),
        (
            429,
            openai("insufficient_quota", json!("insufficient_quota"), "You exceeded your current quota"),
            Kind::BadRequest,
        ),
        (429, openai("x", json!(null), "You exceeded your current quota"), Kind::BadRequest),
        (500, openai("server_error", json!(null), "The server had an error"), Kind::Server),
        (500, openai("server_error", json!(null), "The model is overloaded"), Kind::Overloaded),
        (503, openai("unavailable_error", json!(503), "Loading model"), Kind::Overloaded),
        (503, openai("server_error", json!("slow_down"), "Slow down"), Kind::Overloaded),
        (502, json!(null), Kind::Server),
        (504, json!("gateway"), Kind::NetworkTimeout),
        (422, json!({"detail": [{"msg": "field required"}]}), Kind::BadRequest),
        (
            400,
            json!({"object": "error", "type": "BadRequestError", "code": 400, "message": overflow}),
            Kind::ContextOverflow,
        ),
    ];
    let wire = wire(Provider::OpenAi);
    for (status, body, expected) in cases {
        assert_eq!(wire.refusal(status, &body).kind, expected, "{status} {body}");
    }
}

#[test]
fn error_message_is_the_providers() {
    let cases = [
        (openai("t", json!("c"), "words"), "words"),
        (json!({"error": "words"}), "words"),
        (json!({"detail": "words"}), "words"),
        (json!({"detail": [1]}), "[1]"),
        (json!({"message": "words"}), "words"),
        (json!({"error": {"code": "only_a_code"}}), "only_a_code"),
        (json!(null), ""),
        (json!([1]), ""),
    ];
    for (body, expected) in cases {
        assert_eq!(wire(Provider::OpenAi).refusal(400, &body).message, expected, "{body}");
    }
}

#[test]
fn stream_errors_are_classified() {
    let failed = |code: &str, message: &str| json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": message}}});
    let cases = [
        (failed("server_error", "oops"), Kind::Server, "oops"),
        (failed("rate_limit_exceeded", "slower"), Kind::RateLimited, "slower"),
        (failed("bio_policy", "no"), Kind::ContentFilter, "no"),
        (failed("image_too_large", "big"), Kind::BadRequest, "big"),
        (failed("context_length_exceeded", "long"), Kind::ContextOverflow, "long"),
        (json!({"type": "response.failed", "response": {"error": null}}), Kind::Server, "the request failed"),
        (
            json!({"type": "response.completed", "response": {"status": "failed", "error": {"code": "server_error", "message": "oops"}}}),
            Kind::Server,
            "oops",
        ),
        (
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "slower", "param": null}),
            Kind::RateLimited,
            "slower",
        ),
        (
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "full"}}),
            Kind::Overloaded,
            "full",
        ),
        (
            json!({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "pay"}}),
            Kind::BadRequest,
            "pay",
        ),
        (
            json!({"error": {"code": 400, "message": "odd", "type": "BadRequestError"}}),
            Kind::BadRequest,
            "odd",
        ),
        (json!({"error": {"code": 503, "message": "full"}}), Kind::Overloaded, "full"),
    ];
    for (event, kind, message) in cases {
        let failure =
            read(Provider::SelfHosted, [stream(std::slice::from_ref(&event)).as_bytes()]).answer.unwrap_err();
        assert_eq!(failure, crate::wire::error(Provider::SelfHosted, kind, message), "{event}");
    }
}
