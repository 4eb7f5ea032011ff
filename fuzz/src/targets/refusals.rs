//! HTTP errors in place of a response. An input is a status in the first line and a body after it.

use std::time::Duration;

use meerkat_providers::fuzzing::Format;

use super::texts;
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "refusals", style: Style::Text, corpus, run };

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        r#"401
{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"r"}"#,
        r#"400
{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8","code":"context_length_exceeded"}}"#,
        r#"429
{"error":{"code":"rate_limit_exceeded","type":"requests","message":"Rate limit reached"}}"#,
        r#"429
[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota","details":[{"quotaId":"PerDay"},{"retryDelay":"3.5s"}]}}]"#,
        r#"422
{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
        r#"500
{"error":"model runner has unexpectedly stopped"}"#,
        r#"503
{"object":"error","message":"loading model","status_code":503}"#,
        "502\n<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>",
        "529\n",
    ])
}

fn run(input: &[u8], _: &mut Random) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let (status, body) = text.split_once('\n').unwrap_or(("400", &text));
    let status = status.trim().parse().unwrap_or(400);
    let mut outcome = String::new();
    for format in Format::ALL {
        let error = format.refusal(status, body);
        if error.provider != format.provider() || error.status != Some(status) {
            return Err(format!("{format:?}: wrong provider or status: {error:?}"));
        }
        if error.message.trim().is_empty() || error.message.chars().count() > 700 {
            return Err(format!("{format:?}: empty or too long message: {error:?}"));
        }
        if error.retry_after.is_some_and(|wait| wait > Duration::from_secs(86_400)) {
            return Err(format!("{format:?}: retry delay of more than a day: {error:?}"));
        }
        outcome.push_str(&format!("{:?}{} ", error.kind, if error.retry_after.is_some() { "+" } else { "" }));
    }
    Ok(outcome)
}
