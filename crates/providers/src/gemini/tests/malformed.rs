//! Streams that break off, violate the format, or are not event streams.

use std::time::Duration;

use meerkat_core::ModelErrorKind as Kind;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::stream::everything;
use super::{read, sse};

fn kind(stream: &str) -> Option<Kind> {
    read(&[stream.as_bytes()]).0.err().map(|error| error.kind)
}

#[test]
fn stream_without_end_is_cut() {
    let chunks = everything();
    for count in 0..chunks.len() {
        assert_eq!(kind(&sse(&chunks[..count])), Some(Kind::StreamCut), "{count} chunks");
    }
    let full = sse(&chunks);
    let last = full.len() - sse(&chunks[chunks.len() - 1..]).len();
    for cut in last..full.len() - 2 {
        assert_eq!(kind(&full[..cut]), Some(Kind::StreamCut), "{cut} bytes");
    }
}

#[test]
fn invalid_chunk_is_an_error() {
    let candidate = |candidate: Value| json!({ "candidates": [candidate] });
    let part = |part: Value| candidate(json!({ "content": { "parts": [part] } }));
    let call = |call: Value| part(json!({ "functionCall": call }));
    let cases = [
        (json!(1), "a chunk is not an object"),
        (json!([[]]), "a chunk is not an object"),
        (json!({ "candidates": {} }), "`candidates` is not a list"),
        (candidate(json!("x")), "a candidate is not an object"),
        (candidate(json!({ "index": "0" })), "`index` is not a count"),
        (candidate(json!({ "content": [] })), "`content` is not an object"),
        (candidate(json!({ "content": { "parts": {} } })), "`parts` is not a list"),
        (candidate(json!({ "finishReason": 1 })), "`finishReason` is not a string"),
        (candidate(json!({ "groundingMetadata": [] })), "`groundingMetadata` is not an object"),
        (part(json!([])), "a part is not an object"),
        (part(json!({ "text": 1 })), "`text` is not a string"),
        (part(json!({ "text": "x", "thought": "yes" })), "`thought` is not true or false"),
        (part(json!({ "text": "x", "thoughtSignature": {} })), "`thoughtSignature` is not a string"),
        (call(json!([])), "`functionCall` is not an object"),
        (call(json!({})), "a call has no name"),
        (call(json!({ "name": "" })), "a call has no name"),
        (call(json!({ "name": 1 })), "`name` is not a string"),
        (call(json!({ "name": "f", "args": [1] })), "`args` of a call is not an object"),
        (call(json!({ "name": "f", "id": 1 })), "`id` is not a string"),
        (
            call(json!({ "name": "f", "partialArgs": [{}] })),
            "the arguments of a call are streamed, which was not requested",
        ),
        (json!({ "usageMetadata": 1 }), "`usageMetadata` is not an object"),
        (json!({ "usageMetadata": { "promptTokenCount": -1 } }), "`promptTokenCount` is not a count"),
        (json!({ "promptFeedback": "x" }), "`promptFeedback` is not an object"),
        (json!({ "responseId": 1 }), "`responseId` is not a string"),
    ];
    for (chunk, message) in cases {
        let error = read(&[sse(std::slice::from_ref(&chunk)).as_bytes()]).0.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (Kind::Malformed, message), "{chunk}");
    }
    assert_eq!(kind("data: {\"candidates\": [\n\n"), Some(Kind::Malformed));
    assert_eq!(kind("data: <html>\n\n"), Some(Kind::Malformed));
}

#[test]
fn unknown_and_null_fields_are_ignored() {
    let nothing = json!({
        "news": 1, "candidates": null, "usageMetadata": { "promptTokenCount": null, "x": [] },
        "promptFeedback": null, "error": null, "responseId": null,
    });
    let end = json!({ "candidates": [{ "content": null, "finishReason": "STOP", "finishMessage": null }] });
    let stream = format!(
        ": ping\n\nevent: news\n{}data:\n\ndata: {{}}\n\n{}data: [DONE]\n\n",
        sse(&[nothing]),
        sse(&[end])
    );
    assert_eq!(read(&[stream.as_bytes()]).0.unwrap().blocks, []);
}

#[test]
fn stream_error_is_returned_by_the_call() {
    let retry = json!([{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s" }]);
    let limited = json!({ "error": {
        "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", "details": retry,
    } });
    let mut chunks = everything();
    chunks.truncate(2);
    chunks.push(limited);
    let error = read(&[sse(&chunks).as_bytes()]).0.unwrap_err();
    assert_eq!(error.kind, Kind::RateLimited);
    assert_eq!(error.status, Some(429));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(error.message, "RESOURCE_EXHAUSTED: slow down");
    let cases = [
        (json!({ "code": 503, "status": "UNAVAILABLE", "message": "busy" }), Kind::Overloaded),
        (json!({ "code": 400, "status": "INVALID_ARGUMENT", "message": "bad" }), Kind::BadRequest),
        (json!({ "code": 400, "message": "token count exceeds the limit" }), Kind::ContextOverflow),
        (json!({ "code": 99_999_999, "message": "odd" }), Kind::Server),
        (json!("what"), Kind::Server),
    ];
    for (error, expected) in cases {
        assert_eq!(kind(&sse(&[json!({ "error": error })])), Some(expected), "{error}");
    }
}

#[test]
fn blank_error_gets_a_message() {
    let blank = json!({ "error": { "status": " ", "message": "\n" } });
    let error = read(&[sse(&[blank]).as_bytes()]).0.unwrap_err();
    assert_eq!(error.message, "unspecified error");
}

#[test]
fn long_line_is_parsed_and_endless_one_rejected() {
    let long = "x".repeat(7 << 20);
    let chunk = json!({ "candidates": [{
        "content": { "parts": [{ "text": long }] }, "finishReason": "STOP",
    }] });
    assert_eq!(read(&[sse(&[chunk]).as_bytes()]).0.unwrap().blocks, [super::text(&long, None)]);
    let endless = "x".repeat(10 << 20);
    assert_eq!(kind(&format!("data: {endless}")), Some(Kind::Malformed));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..400), cut in 0_usize..400) {
        let (head, tail) = bytes.split_at(cut.min(bytes.len()));
        let _ = read(&[b"data: ", head, tail, b"\n\n"]);
    }

    #[test]
    fn mutated_stream_never_panics(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sse(&everything()).into_bytes();
        for (position, byte) in changes {
            let position = position.index(bytes.len());
            bytes[position] = byte;
        }
        let _ = read(&[&bytes]);
    }

    #[test]
    fn mutated_value_never_panics(position in any::<prop::sample::Index>(), pick in 0_usize..6) {
        let values = [json!(null), json!(-1), json!("x"), json!([]), json!({}), json!(true)];
        let mut chunks = Value::Array(everything());
        let count = leaves(&mut chunks).len();
        *leaves(&mut chunks).swap_remove(position.index(count)) = values[pick].clone();
        let Value::Array(chunks) = chunks else { return Ok(()) };
        let _ = read(&[sse(&chunks).as_bytes()]);
    }
}

/// Returns all values without children.
fn leaves(value: &mut Value) -> Vec<&mut Value> {
    let is_leaf = match &*value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    };
    match value {
        leaf if is_leaf => vec![leaf],
        Value::Array(items) => items.iter_mut().flat_map(leaves).collect(),
        Value::Object(fields) => fields.values_mut().flat_map(leaves).collect(),
        leaf => vec![leaf],
    }
}
