use meerkat_core::ModelErrorKind;
use proptest::prelude::{any, prop_assert, proptest};
use serde_json::{Value, json};

use super::{complete_stream, delta, failure, replay, sse, stop};

fn good() -> String {
    complete_stream(
        &[
            delta(json!({ "role": "assistant", "reasoning_content": "hm" })),
            delta(json!({ "content": "<think>é</think>a <tool_call>" })),
            delta(
                json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{" } }] }),
            ),
            delta(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "}" } }] })),
        ],
        "tool_calls",
    )
}

#[test]
fn stream_without_finish_reason_is_cut() {
    let stream = good();
    let end = stream.find(&sse(&[stop("tool_calls")])).unwrap();
    let stopped = end + sse(&[stop("tool_calls")]).len();
    for cut in 0..=stream.len() {
        let outcome = replay(&[&stream.as_bytes()[..cut]]);
        if cut < stopped {
            let failure = outcome.unwrap_err();
            assert_eq!(failure.kind, ModelErrorKind::StreamCut, "cut at {cut}");
            assert_eq!(failure.message, "the stream ended before the response did", "cut at {cut}");
        } else {
            assert!(outcome.is_ok(), "cut at {cut}");
        }
    }
}

#[test]
fn format_violations_are_named() {
    let call = |call: Value| delta(json!({ "tool_calls": [call] }));
    let cases = [
        (json!([]), "a chunk is not an object"),
        (json!({ "choices": {} }), "`choices` is not a list"),
        (json!({ "choices": [1] }), "a choice is not an object"),
        (json!({ "choices": [{ "delta": "x" }] }), "`delta` is not an object"),
        (json!({ "choices": [{ "finish_reason": 1 }] }), "`finish_reason` is not a string"),
        (json!({ "usage": 1 }), "`usage` is not an object"),
        (json!({ "usage": { "prompt_tokens": "9" } }), "`prompt_tokens` is not a count"),
        (delta(json!({ "content": 1 })), "`content` is not a string"),
        (delta(json!({ "reasoning": {} })), "`reasoning` is not a string"),
        (delta(json!({ "refusal": true })), "`refusal` is not a string"),
        (delta(json!({ "tool_calls": {} })), "`tool_calls` is not a list"),
        (call(json!("x")), "a tool call that is not an object"),
        (call(json!({ "index": -1 })), "`index` of a tool call that is not a number"),
        (call(json!({ "index": 0, "id": 1 })), "`id` of a tool call that is not a string"),
        (call(json!({ "function": [] })), "`function` of a tool call that is not an object"),
        (call(json!({ "function": { "name": 1 } })), "`name` of a tool call that is not a string"),
        (
            call(json!({ "function": { "name": "f", "arguments": 1 } })),
            "inconsistent arguments of a tool call",
        ),
        (
            call(json!({ "index": 3, "function": { "arguments": "{}" } })),
            "a piece of a tool call that was not started",
        ),
        (call(json!({ "function": { "arguments": "{}" } })), "a piece of a tool call that was not started"),
        (call(json!({ "index": 0, "id": "a" })), "a tool call without a name"),
        (
            delta(json!({ "tool_calls": [
                { "index": 0, "id": "a", "function": { "name": "f", "arguments": "{" } },
                { "index": 0, "function": { "arguments": {} } },
            ] })),
            "inconsistent arguments of a tool call",
        ),
    ];
    for (chunk, what) in cases {
        let (kind, message) = failure(&complete_stream(std::slice::from_ref(&chunk), "stop"));
        assert_eq!(
            (kind, message),
            (ModelErrorKind::Malformed, format!("invalid response: {what}")),
            "{chunk}"
        );
    }
    let (kind, message) = failure("data: {\"choices\":\n\n");
    assert_eq!(
        (kind, message.as_str()),
        (ModelErrorKind::Malformed, "invalid response: a chunk is not JSON")
    );
}

#[test]
fn stream_errors_are_classified() {
    let text_chunk = delta(json!({ "content": "x" }));
    let cases = [
        (
            json!({ "error": { "message": "slow down", "code": 429 } }),
            ModelErrorKind::RateLimited,
            "slow down",
        ),
        (
            json!({ "error": { "message": "busy", "type": "overloaded_error" } }),
            ModelErrorKind::Overloaded,
            "busy",
        ),
        (
            json!({ "error": "Context size has been exceeded." }),
            ModelErrorKind::ContextOverflow,
            "Context size has been exceeded.",
        ),
        (
            json!({ "error": { "message": "bad", "type": "BadRequestError", "code": "400" } }),
            ModelErrorKind::BadRequest,
            "bad",
        ),
        (
            json!({ "error": { "message": "bad", "type": "invalid_request_error" } }),
            ModelErrorKind::BadRequest,
            "bad",
        ),
        (json!({ "object": "error", "message": "boom", "code": 500 }), ModelErrorKind::Server, "boom"),
        (json!({ "error": {} }), ModelErrorKind::Server, "unspecified error"),
    ];
    for (chunk, kind, message) in cases {
        assert_eq!(
            failure(&complete_stream(&[text_chunk.clone(), chunk], "stop")),
            (kind, message.to_owned())
        );
    }
    assert_eq!(
        failure("event: error\ndata: {\"message\":\"no room\"}\n\n"),
        (ModelErrorKind::Server, "no room".to_owned())
    );
    assert_eq!(failure(&complete_stream(&[text_chunk], "error")).0, ModelErrorKind::Server);
}

#[test]
fn long_line_is_parsed() {
    let long = "x".repeat(7 << 20);
    let stream = complete_stream(&[delta(json!({ "content": long }))], "stop");
    let (_, text, _) = replay(&[stream.as_bytes()]).unwrap();
    assert_eq!(text.len(), long.len());
    let cut = &stream.as_bytes()[..6 << 20];
    assert_eq!(replay(&[cut]).unwrap_err().kind, ModelErrorKind::StreamCut);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in any::<Vec<u8>>()) {
        prop_assert!(replay(&[&bytes]).is_err());
    }

    #[test]
    fn random_chunks_never_panic(content in "[<>{}\"/a-z:,` \n]{0,40}", args in "\\PC{0,20}", reason in "\\PC{0,5}") {
        let chunks = [
            delta(json!({ "content": content })),
            delta(json!({ "content": args, "tool_calls": [{ "id": reason, "function": { "name": "f", "arguments": args } }] })),
        ];
        prop_assert!(replay(&[complete_stream(&chunks, &reason).as_bytes()]).is_ok());
    }

    #[test]
    fn mutated_stream_never_panics(edits in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        let mut bytes = good().into_bytes();
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = replay(&[&bytes]);
    }
}
