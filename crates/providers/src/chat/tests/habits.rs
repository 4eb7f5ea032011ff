//! Deviations of servers from the format.

use meerkat_core::{StopReason, Usage};
use serde_json::{Value, json};

use super::{blocks, call, complete_stream, delta, read, reasoning, replay, sse, stop, text};

fn calls(calls: Value) -> Value {
    let mut piece = json!({ "content": null });
    piece["tool_calls"] = calls;
    delta(piece)
}

#[test]
fn complete_calls_without_index_or_id_are_read() {
    let stream = complete_stream(
        &[
            calls(json!([{ "function": { "name": "f", "arguments": { "x": 1 } } }])),
            calls(json!([{ "type": "function", "function": { "name": "f", "arguments": "{\"x\":2}" } }])),
        ],
        "stop",
    );
    let (answer, ..) = read(&stream);
    assert_eq!(
        answer.blocks,
        [call("call_0", "f", json!({ "x": 1 })), call("call_1", "f", json!({ "x": 2 }))]
    );
    assert_eq!(answer.stop_reason, StopReason::ToolUse);
}

#[test]
fn pieces_without_index_extend_the_last_call() {
    let stream = complete_stream(
        &[
            calls(json!([{ "id": "a", "function": { "name": "f", "arguments": "{" } }])),
            calls(json!([{ "function": { "arguments": "\"x\"" } }])),
            calls(json!([{ "id": "a", "function": { "name": "f", "arguments": ":1}" } }])),
        ],
        "tool_calls",
    );
    assert_eq!(blocks(&stream), [call("a", "f", json!({ "x": 1 }))]);
}

#[test]
fn calls_with_same_index_are_separated_by_id() {
    let stream = complete_stream(
        &[
            calls(json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":1}" } }])),
            calls(json!([{ "index": 0, "id": "b", "function": { "name": "f", "arguments": "{\"x\":" } }])),
            calls(json!([{ "index": 0, "id": "b", "function": { "name": "f", "arguments": "2}" } }])),
        ],
        "tool_calls",
    );
    assert_eq!(blocks(&stream), [call("a", "f", json!({ "x": 1 })), call("b", "f", json!({ "x": 2 }))]);
}

#[test]
fn every_call_gets_a_unique_id() {
    let one = |index: u64, id: Value| json!({ "index": index, "id": id, "function": { "name": "f" } });
    let stream = complete_stream(
        &[calls(json!([
            one(0, json!("")),
            one(1, json!("call_0")),
            one(2, json!("same")),
            one(3, json!("same"))
        ]))],
        "tool_calls",
    );
    let empty = || json!({});
    assert_eq!(
        blocks(&stream),
        [
            call("call_1", "f", empty()),
            call("call_0", "f", empty()),
            call("same", "f", empty()),
            call("call_2", "f", empty())
        ]
    );
}

#[test]
fn stream_may_end_after_finish_reason() {
    let (answer, ..) = read(&sse(&[delta(json!({ "content": "x" })), stop("stop")]));
    assert_eq!((answer.blocks, answer.usage), (vec![text("x")], Usage::default()));
}

#[test]
fn stream_may_be_done_without_finish_reason() {
    let stream = sse(&[
        json!({ "choices": [{ "delta": { "content": "<th" }, "finish_reason": "" }], "usage": null }),
        delta(json!({ "content": "ink>a</think>b" })),
    ]) + "data: [DONE]\n\n";
    assert_eq!(blocks(&stream), [reasoning("a", "content"), text("b")]);
}

#[test]
fn usage_may_come_in_parts() {
    let mut first = delta(json!({ "content": "x" }));
    first["usage"] = json!({ "prompt_tokens": 3, "completion_tokens": 1 });
    let mut last = stop("stop");
    last["usage"] = json!({ "prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": null });
    let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
    assert_eq!(read(&sse(&[first, last])).0.usage, usage);
}

#[test]
fn reasoning_tags_are_split_at_any_boundary() {
    let content = "\n<think>\n a < b </thin </think>\n\nYes, <think> is a tag.";
    let expected = [reasoning("a < b </thin ", "content"), text("Yes, <think> is a tag.")];
    for cut in (0..=content.len()).filter(|cut| content.is_char_boundary(*cut)) {
        let (head, tail) = content.split_at(cut);
        let chunks = [delta(json!({ "content": head })), delta(json!({ "content": tail }))];
        let (answer, shown_text, thought) = replay(&[complete_stream(&chunks, "stop").as_bytes()]).unwrap();
        assert_eq!(answer.blocks, expected, "cut at {cut}");
        assert_eq!((shown_text.as_str(), thought.as_str()), ("Yes, <think> is a tag.", "a < b </thin "));
    }
    let single: Vec<_> = content.chars().map(|c| delta(json!({ "content": c.to_string() }))).collect();
    assert_eq!(replay(&[complete_stream(&single, "stop").as_bytes()]).unwrap().0.blocks, expected);
}

#[test]
fn unclosed_reasoning_is_kept_empty_is_dropped() {
    let content = |content: &str| blocks(&complete_stream(&[delta(json!({ "content": content }))], "length"));
    assert_eq!(content("<think>hm </th"), [reasoning("hm </th", "content")]);
    assert_eq!(content("<think>\n\n</think>\n\nYes"), [text("Yes")]);
    assert_eq!(content("<thin"), [text("<thin")]);
    assert_eq!(content("x <think>y</think>"), [text("x <think>y</think>")]);
}
