//! Classification of errors.

use std::time::Duration;

use meerkat_core::ModelErrorKind as Kind;
use serde_json::{Value, json};

use super::wire;
use crate::wire::Wire;

fn error(code: u16, status: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message, "status": status } })
}

#[test]
fn errors_are_classified_by_their_content() {
    let overflow = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).";
    let bad_key = "API key not valid. Please pass a valid API key.";
    let cases = [
        (400, "INVALID_ARGUMENT", "Unknown name \"x\"", Kind::BadRequest),
        (400, "INVALID_ARGUMENT", overflow, Kind::ContextOverflow),
        (
            400,
            "INVALID_ARGUMENT",
            "Request payload size exceeds the limit: 20971520 bytes.",
            Kind::ContextOverflow,
        ),
        (400, "INVALID_ARGUMENT", bad_key, Kind::Auth),
        (400, "INVALID_ARGUMENT", "The request was blocked due to safety.", Kind::ContentFilter),
        (400, "FAILED_PRECONDITION", "User location is not supported.", Kind::BadRequest),
        (401, "UNAUTHENTICATED", "no credentials", Kind::Auth),
        (403, "PERMISSION_DENIED", "Your API key was reported as leaked.", Kind::Auth),
        (404, "NOT_FOUND", "models/x is not found for API version v1beta", Kind::BadRequest),
        (413, "", "Payload too large", Kind::ContextOverflow),
        (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", Kind::RateLimited),
        (429, "RESOURCE_EXHAUSTED", "quota exceeded for x, limit: 0", Kind::BadRequest),
        (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", Kind::BadRequest),
        (499, "CANCELLED", "The operation was cancelled.", Kind::Server),
        (500, "INTERNAL", "An internal error has occurred.", Kind::Server),
        (500, "INTERNAL", "Your input context is too long.", Kind::ContextOverflow),
        (503, "UNAVAILABLE", "The model is overloaded.", Kind::Overloaded),
        (504, "DEADLINE_EXCEEDED", "too slow", Kind::NetworkTimeout),
        (502, "", "bad gateway", Kind::Server),
    ];
    for (code, status, message, kind) in cases {
        let refusal = wire().refusal(code, &error(code, status, message));
        assert_eq!(refusal.kind, kind, "{code} {status} {message}");
        assert!(refusal.message.ends_with(message) && refusal.message.starts_with(status));
        let from_list = wire().refusal(code, &json!([error(code, status, message)]));
        assert_eq!(from_list, refusal, "a list of one error is equivalent");
    }
}

#[test]
fn error_without_json_is_classified_by_status() {
    for (code, kind) in
        [(403, Kind::Auth), (429, Kind::RateLimited), (503, Kind::Overloaded), (418, Kind::BadRequest)]
    {
        for body in [Value::Null, json!("x"), json!({ "error": "x" }), json!([])] {
            let refusal = wire().refusal(code, &body);
            assert_eq!((refusal.kind, refusal.message.as_str()), (kind, ""), "{code} {body}");
        }
    }
}

#[test]
fn retry_delay_is_read_from_the_body() {
    let body = |delay: &str| {
        let mut body = error(429, "RESOURCE_EXHAUSTED", "quota");
        body["error"]["details"] = json!([
            { "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [] },
            { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay },
        ]);
        body
    };
    assert_eq!(wire().retry_after(&body("34.5s")), Some(Duration::from_millis(34_500)));
    assert_eq!(wire().retry_after(&json!([body("2s")])), Some(Duration::from_secs(2)));
    for bad in ["", "s", "-1s", "NaNs", "1e99s", "3m"] {
        assert_eq!(wire().retry_after(&body(bad)), None, "{bad}");
    }
    assert_eq!(wire().retry_after(&Value::Null), None);
}

#[test]
fn daily_quota_is_not_retried() {
    let mut body = error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.");
    let quota = |id: &str| json!([{ "violations": [{ "quotaId": id }] }]);
    body["error"]["details"] = quota("GenerateRequestsPerMinutePerProjectPerModel");
    assert_eq!(wire().refusal(429, &body).kind, Kind::RateLimited);
    body["error"]["details"] = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    assert_eq!(wire().refusal(429, &body).kind, Kind::BadRequest);
}
