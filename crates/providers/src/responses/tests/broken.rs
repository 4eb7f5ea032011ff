//! Decoding of invalid streams.

use meerkat_core::ModelErrorKind;
use proptest::prelude::*;

use super::decode::{completed, full};
use super::*;

fn kind(stream: &str) -> Option<ModelErrorKind> {
    read_whole(stream).answer.err().map(|failure| failure.kind)
}

#[test]
fn stream_without_end_is_cut() {
    let events = full();
    for length in 0..events.len() {
        assert_eq!(kind(&stream(&events[..length])), Some(ModelErrorKind::StreamCut), "{length} events");
    }
    assert_eq!(kind(&format!("{}data: [DONE]\n\n", stream(&events[..4]))), Some(ModelErrorKind::StreamCut));
}

#[test]
fn invalid_events_are_named() {
    let event = |kind: &str, rest: Value| {
        let mut event = json!({"type": format!("response.{kind}")});
        event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        event
    };
    let added = |at: u64, item: Value| event("output_item.added", json!({"output_index": at, "item": item}));
    let message = added(0, json!({"type": "message", "id": "m"}));
    let call = added(1, json!({"type": "function_call", "id": "f", "call_id": "c", "name": "n"}));
    let nameless = added(2, json!({"type": "function_call", "id": "g", "call_id": "d"}));
    let twin = added(2, json!({"type": "function_call", "id": "g", "call_id": "c", "name": "n"}));
    let text = |rest: Value| event("output_text.delta", rest);
    let cases = [
        (vec![json!([1])], "an event is not an object"),
        (vec![json!({"type": 7})], "`type` is not a string"),
        (vec![message.clone(), message.clone()], "`response.output_item.added`: an item was added twice"),
        (vec![event("output_item.added", json!({}))], "`response.output_item.added`: `item` is missing"),
        (vec![added(0, json!({}))], "`response.output_item.added`: an item has no `type`"),
        (
            vec![event("output_item.done", json!({"item": 1}))],
            "`response.output_item.done`: `item` is not an object",
        ),
        (vec![text(json!({"delta": "x"}))], "`response.output_text.delta`: the item was never added"),
        (
            vec![message.clone(), text(json!({"output_index": 9, "item_id": "m", "delta": "x"}))],
            "`response.output_text.delta`: the item was never added",
        ),
        (
            vec![message.clone(), text(json!({"output_index": -1, "delta": "x"}))],
            "`response.output_text.delta`: `output_index` is not a whole number",
        ),
        (
            vec![message.clone(), text(json!({"output_index": 0}))],
            "`response.output_text.delta`: `delta` is missing",
        ),
        (
            vec![message.clone(), text(json!({"output_index": 0, "delta": 1}))],
            "`response.output_text.delta`: `delta` is not a string",
        ),
        (
            vec![call.clone(), text(json!({"output_index": 1, "delta": "x"}))],
            "`response.output_text.delta`: Output text in an item of another type",
        ),
        (
            vec![
                message.clone(),
                event("function_call_arguments.delta", json!({"output_index": 0, "delta": "x"})),
            ],
            "`response.function_call_arguments.delta`: arguments for an item that is not a call",
        ),
        (
            vec![message.clone(), event("content_part.done", json!({"output_index": 0}))],
            "`response.content_part.done`: `part` is missing",
        ),
        (
            vec![
                message.clone(),
                event("output_item.done", json!({"output_index": 0, "item": {"type": "reasoning"}})),
            ],
            "`response.output_item.done`: an item changed its `type`",
        ),
        (
            vec![
                message,
                event(
                    "output_item.done",
                    json!({"output_index": 0, "item": {"type": "message", "content": "x"}}),
                ),
            ],
            "`response.output_item.done`: `content` is not a list",
        ),
        (vec![nameless, completed()], "a function call has no `name`"),
        (vec![call, twin, completed()], "two function calls have the id `c`"),
        (vec![event("completed", json!({}))], "`response.completed`: `response` is missing"),
        (
            vec![event("completed", json!({"response": {"usage": {"input_tokens": "5"}}}))],
            "`response.completed`: `input_tokens` is not a whole number",
        ),
    ];
    for (events, expected) in cases {
        let failure = read_whole(&stream(&events)).answer.unwrap_err();
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            (ModelErrorKind::Malformed, expected),
            "{events:?}"
        );
    }
    let failure = read_whole("data: {\"type\":\n\n").answer.unwrap_err();
    assert_eq!(failure.kind, ModelErrorKind::Malformed);
    assert!(failure.message.starts_with("an event is not JSON"), "{failure}");
}

#[test]
fn unknown_and_trailing_events_are_ignored() {
    let full_stream = stream(&full());
    let more = format!("{full_stream}data: not json\n\ndata: [DONE]\n\n");
    assert_eq!(read_whole(&more), read_whole(&full_stream));
    let before = format!("event: hello\ndata: {{\"a\":1}}\n\ndata:\n\n: ping\n\n{full_stream}");
    assert_eq!(read_whole(&before), read_whole(&full_stream));
}

#[test]
fn long_line_is_parsed() {
    let long = "x".repeat(7 << 20);
    let events = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": long}),
        completed(),
    ];
    assert_eq!(read_whole(&stream(&events)).text.len(), long.len());
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(Provider::OpenAi, [bytes.as_slice()]);
    }

    #[test]
    fn mutated_stream_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = stream(&full()).into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (head, tail) = bytes.split_at(cut.index(bytes.len()));
        let (cut, joined) = (read(Provider::OpenAi, [head, tail]), read(Provider::OpenAi, [bytes.as_slice()]));
        prop_assert_eq!(cut.answer.ok(), joined.answer.ok());
    }

    #[test]
    fn shuffled_events_never_panic(
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let events = full();
        let shuffled: Vec<_> = order.iter().map(|at| events[at.index(events.len())].clone()).collect();
        let _ = read_whole(&stream(&shuffled));
    }
}
