//! Streams that are cut off, invalid, or hostile.

use meerkat_core::ModelErrorKind;
use proptest::prelude::{Strategy, any, prop};
use proptest::{prop_assert, proptest};

use super::replay::everything;
use super::*;

fn failure(stream: &str) -> ModelError {
    read(&[stream.as_bytes()]).0.unwrap_err()
}

#[test]
fn stream_cut_after_any_event_is_an_error() {
    let events = everything();
    for count in 0..events.len() {
        assert_eq!(failure(&sse(&events[..count])).kind, ModelErrorKind::StreamCut, "after {count} events");
    }
}

#[test]
fn stream_cut_inside_last_event_is_an_error() {
    let stream = sse(&everything());
    for cut in 1..40 {
        assert_eq!(
            failure(&stream[..stream.len() - cut]).kind,
            ModelErrorKind::StreamCut,
            "{cut} bytes short"
        );
    }
}

#[test]
fn invalid_streams_are_malformed() {
    let text = || start(0, json!({ "type": "text", "text": "" }));
    let piece = |index| delta(index, json!({ "type": "text_delta", "text": "x" }));
    let counted = |usage: Value| json!({ "type": "message_start", "message": { "usage": usage } });
    let cases = [
        (vec![text(), text()], "block 0 was started twice"),
        (vec![text(), stop(0), text()], "block 0 was started twice"),
        (vec![piece(0)], "block 0 is not open"),
        (vec![text(), stop(0), piece(0)], "block 0 is not open"),
        (vec![text(), piece(1)], "block 1 is not open"),
        (vec![stop(3)], "block 3 is not open"),
        (vec![text()], "block 0 was not closed"),
        (vec![counted(json!({}))], "`message_start` was sent twice"),
        (vec![start(0, json!({}))], "`type` is missing"),
        (vec![start(0, json!({ "type": "text", "text": 5 }))], "`text` is missing or not a string"),
        (vec![start(0, json!({ "type": "tool_use", "name": "t" }))], "`id` is missing"),
        (vec![start(0, json!({ "type": "tool_use", "id": "a", "name": [] }))], "`name` is missing"),
        (vec![start(0, json!({ "type": "redacted_thinking" }))], "`data` is missing"),
        (vec![start(0, json!("text"))], "invalid event"),
        (vec![json!({ "type": "content_block_start", "index": -1, "content_block": {} })], "invalid event"),
        (vec![json!({ "type": "content_block_stop" })], "invalid event"),
        (vec![text(), delta(0, json!({ "type": "text_delta" }))], "`text` is missing"),
        (vec![text(), delta(0, json!({ "text": "x" }))], "`type` is missing"),
        (vec![text(), delta(0, json!({ "type": "citations_delta", "citation": 1 }))], "has no `citation`"),
        (
            vec![text(), delta(0, json!({ "type": "input_json_delta", "partial_json": "{}" }))],
            "unexpected `input_json_delta` in a `text` block",
        ),
        (
            vec![start(0, json!({ "type": "container_upload" })), piece(0)],
            "unexpected `text_delta` in a `container_upload` block",
        ),
        (vec![json!({ "type": 7 })], "invalid event"),
        (vec![json!({ "no": "type" })], "invalid event"),
        (vec![json!(null)], "invalid event"),
    ];
    for (blocks, message) in cases {
        let failure = failure(&sse(&framed(blocks.clone(), "end_turn")));
        assert_eq!(failure.kind, ModelErrorKind::Malformed, "{blocks:?}");
        assert!(failure.message.contains(message), "{blocks:?}: {}", failure.message);
    }
    let bad_count = failure(&sse(&[counted(json!({ "input_tokens": "many" }))]));
    assert_eq!(bad_count.kind, ModelErrorKind::Malformed);
}

#[test]
fn invalid_start_or_end_is_malformed() {
    let events = framed(vec![], "end_turn");
    for missing in [0, 1] {
        let mut events = events.clone();
        events.remove(missing);
        assert_eq!(failure(&sse(&events)).kind, ModelErrorKind::Malformed, "without event {missing}");
    }
    for data in ["{", "hello", "[DONE]", "", "{\"type\":\"ping\"}}"] {
        assert_eq!(failure(&format!("data: {data}\n\n")).kind, ModelErrorKind::Malformed, "{data}");
    }
}

#[test]
fn stream_errors_are_classified() {
    let cases = [
        ("overloaded_error", "Overloaded", ModelErrorKind::Overloaded),
        ("rate_limit_error", "slow down", ModelErrorKind::RateLimited),
        ("api_error", "Internal server error", ModelErrorKind::Server),
        ("timeout_error", "too slow", ModelErrorKind::NetworkTimeout),
        (
            "invalid_request_error",
            "prompt is too long: 5 tokens > 4 maximum",
            ModelErrorKind::ContextOverflow,
        ),
        (
            "invalid_request_error",
            "Output blocked by content filtering policy",
            ModelErrorKind::ContentFilter,
        ),
        ("something_new", "oh", ModelErrorKind::Server),
    ];
    for (kind, message, expected) in cases {
        let event = json!({ "type": "error", "error": { "type": kind, "message": message } });
        let mut events = everything();
        events.insert(6, event.clone());
        let failed = failure(&sse(&events));
        assert_eq!((failed.kind, failed.message.as_str()), (expected, message));
        assert_eq!(failure(&sse(&[event])).kind, expected, "{kind}");
    }
    assert_eq!(failure(&sse(&[json!({ "type": "error", "error": null })])).kind, ModelErrorKind::Server);
}

#[test]
fn long_line_is_parsed() {
    let long = "x".repeat(7 << 20);
    let blocks = vec![start(0, json!({ "type": "text", "text": long })), stop(0)];
    let (answer, text, _) = read(&[sse(&framed(blocks, "end_turn")).as_bytes()]);
    assert_eq!((answer.unwrap().blocks, text.len()), (vec![say(&long)], long.len()));
}

#[test]
fn deeply_nested_data_is_malformed() {
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    assert_eq!(failure(&deep).kind, ModelErrorKind::Malformed);
}

/// Mutations of a valid stream: position, number of bytes removed, and replacement bytes.
fn mutations() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    prop::collection::vec((any::<usize>(), 0_usize..12, bytes), 1..5)
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(read(&[&bytes]).0.is_err());
    }

    #[test]
    fn mutated_stream_never_panics(mutations in mutations()) {
        let mut stream = sse(&everything()).into_bytes();
        for (at, removed, new) in mutations {
            let at = at % stream.len();
            let end = (at + removed).min(stream.len());
            stream.splice(at..end, new);
        }
        let _ = read(&[&stream]);
    }

    #[test]
    fn shuffled_events_never_panic(order in prop::collection::vec(0_usize..36, 0..60)) {
        let events = everything();
        let shuffled: Vec<_> = order.into_iter().filter_map(|at| events.get(at).cloned()).collect();
        let _ = read(&[sse(&shuffled).as_bytes()]);
    }
}
