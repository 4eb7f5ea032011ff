use meerkat_core::{ModelErrorKind, ModelResponse, ResponseStatus, StopReason, Usage};
use serde_json::json;

use super::{call, complete_stream, delta, failure, read, reasoning, sse, stop, text};

#[test]
fn text_arrives_with_its_usage() {
    let stream = sse(&[
        delta(json!({ "role": "assistant", "content": "", "refusal": null })),
        delta(json!({ "content": "Héllo " })),
        delta(json!({ "content": "🌍" })),
        stop("stop"),
        json!({
            "choices": [],
            "usage": {
                "prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                "prompt_tokens_details": { "cached_tokens": 5, "cache_write_tokens": 2 },
            },
        }),
    ]) + "data: [DONE]\n\n";
    let usage = Usage {
        input_tokens: 9,
        output_tokens: 4,
        cache_creation_tokens: Some(2),
        cache_read_tokens: Some(5),
    };
    let answer = ModelResponse {
        blocks: vec![text("Héllo 🌍")],
        stop_reason: StopReason::EndTurn,
        extent: ResponseStatus::Complete,
        usage,
    };
    assert_eq!(read(&stream), (answer, "Héllo 🌍".to_owned(), String::new()));
}

#[test]
fn parallel_calls_are_merged_by_index() {
    let stream = complete_stream(
        &[
            delta(json!({ "role": "assistant", "content": null })),
            delta(json!({ "content": "Let me see." })),
            delta(json!({ "tool_calls": [
                { "index": 0, "id": "a", "type": "function", "function": { "name": "f", "arguments": "" } },
            ] })),
            delta(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{\"x\":" } }] })),
            delta(json!({ "tool_calls": [
                { "index": 1, "id": "b", "type": "function", "function": { "name": "g", "arguments": "{}" } },
                { "index": 0, "function": { "arguments": "1}" } },
            ] })),
        ],
        "tool_calls",
    );
    let (answer, streamed, _) = read(&stream);
    assert_eq!(
        answer.blocks,
        [text("Let me see."), call("a", "f", json!({ "x": 1 })), call("b", "g", json!({}))]
    );
    assert_eq!((answer.stop_reason, streamed.as_str()), (StopReason::ToolUse, "Let me see."));
}

#[test]
fn reasoning_is_read_from_every_field() {
    let field = |field: &str| {
        complete_stream(
            &[delta(json!({ field: "h" })), delta(json!({ field: "m" })), delta(json!({ "content": "so" }))],
            "stop",
        )
    };
    for (name, stream) in [
        ("reasoning", field("reasoning")),
        ("reasoning_content", field("reasoning_content")),
        ("content", complete_stream(&[delta(json!({ "content": "<think>hm</think>\n\nso" }))], "stop")),
    ] {
        let (answer, shown_text, thought) = read(&stream);
        assert_eq!(answer.blocks, [reasoning("hm", name), text("so")]);
        assert_eq!((shown_text.as_str(), thought.as_str()), ("so", "hm"), "{name}");
    }
    let both = delta(json!({ "reasoning": "hm", "reasoning_content": "hm", "content": "so" }));
    assert_eq!(read(&complete_stream(&[both], "stop")).2, "hm");
}

#[test]
fn stop_reasons_are_mapped() {
    let text_chunk = || delta(json!({ "content": "x" }));
    let call_chunk =
        || delta(json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f" } }] }));
    let cases = [
        (text_chunk(), "stop", StopReason::EndTurn),
        (text_chunk(), "tool_calls", StopReason::EndTurn),
        (text_chunk(), "length", StopReason::MaxTokens),
        (text_chunk(), "content_filter", StopReason::ContentFilter),
        (text_chunk(), "something new", StopReason::EndTurn),
        (call_chunk(), "tool_calls", StopReason::ToolUse),
        (call_chunk(), "stop", StopReason::ToolUse),
        (call_chunk(), "something new", StopReason::ToolUse),
        (call_chunk(), "length", StopReason::MaxTokens),
    ];
    for (chunk, reason, expected) in cases {
        assert_eq!(read(&complete_stream(&[chunk], reason)).0.stop_reason, expected, "{reason}");
    }
}

#[test]
fn refusal_is_an_error_unless_text_was_sent() {
    let refusal = |more: &str| delta(json!({ "refusal": more }));
    assert_eq!(
        failure(&complete_stream(&[refusal("I "), refusal("won't.")], "stop")),
        (ModelErrorKind::ContentFilter, "I won't.".to_owned())
    );
    assert_eq!(failure(&complete_stream(&[], "content_filter")).0, ModelErrorKind::ContentFilter);
    assert_eq!(
        failure(&complete_stream(&[delta(json!({ "reasoning": "hm" }))], "content_filter")).0,
        ModelErrorKind::ContentFilter
    );
    let (answer, ..) = read(&complete_stream(&[delta(json!({ "content": "Well" })), refusal("no")], "stop"));
    assert_eq!((answer.blocks, answer.stop_reason), (vec![text("Well")], StopReason::ContentFilter));
}

#[test]
fn empty_response_is_returned_empty() {
    let (answer, ..) = read(&complete_stream(&[delta(json!({ "content": " \n" }))], "stop"));
    assert_eq!((answer.blocks, answer.stop_reason), (vec![], StopReason::EndTurn));
}

#[test]
fn invalid_arguments_are_stored_verbatim() {
    let cases = [
        ("", json!({})),
        (" ", json!({})),
        ("null", json!({})),
        ("{\"x\":", json!("{\"x\":")),
        ("[1]", json!("[1]")),
        ("\"{\\\"x\\\":1}\"", json!({ "x": 1 })),
        ("\"odd\"", json!("\"odd\"")),
    ];
    for (raw, args) in cases {
        let chunk = delta(
            json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f", "arguments": raw } }] }),
        );
        assert_eq!(read(&complete_stream(&[chunk], "tool_calls")).0.blocks, [call("a", "f", args)], "{raw}");
    }
}

#[test]
fn only_the_first_choice_is_the_answer() {
    let second = json!({ "choices": [
        { "index": 1, "delta": { "content": "B" }, "finish_reason": "length" },
        { "index": 0, "delta": { "content": "A" } },
    ] });
    let (answer, ..) = read(&complete_stream(&[second], "stop"));
    assert_eq!((answer.blocks, answer.stop_reason), (vec![text("A")], StopReason::EndTurn));
}

#[test]
fn unknown_data_is_ignored() {
    let stream = format!(
        ": keep-alive\n\nevent: ping\ndata: {{}}\n\ndata:\n\ndata: {{\"choices\":null,\"timings\":{{}}}}\n\n{}data: after\n\n",
        complete_stream(
            &[
                delta(json!({ "content": "x", "audio": 1, "new": {} })),
                json!({ "error": null, "choices": [] })
            ],
            "stop"
        )
    );
    assert_eq!(read(&stream).0.blocks, [text("x")]);
}

#[test]
fn chunks_with_similar_shapes_are_distinguished() {
    let chunks = [
        delta(json!({ "content": "one" })),
        delta(json!({ "content": " two" })),
        delta(json!({ "reasoning_content": " two" })),
        delta(json!({ "content": " three", "reasoning_content": "aside" })),
        delta(json!({ "content": " four" })),
        delta(json!({ "content": "\n\"five\"" })),
        delta(json!({ "content": " six" })),
    ];
    let (_, text, reasoning) = read(&complete_stream(&chunks, "stop"));
    assert_eq!((text.as_str(), reasoning.as_str()), ("one two three four\n\"five\" six", " twoaside"));
}
