//! Decoding of valid streams.

use meerkat_core::{ModelErrorKind, ResponseStatus, Usage};

use super::*;

/// Every event type that is used, and some that are not.
pub(super) fn full() -> Vec<Value> {
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "error": null}}),
        json!({"type": "response.queued", "response": {"id": "resp_1"}}),
        json!({"type": "response.in_progress", "response": {"id": "resp_1"}}),
    ];
    events.extend(thinking(0));
    events.extend(searching(1));
    events.extend(speaking(2));
    events.extend(calling());
    events.push(json!({"type": "response.novelty", "output_index": 99}));
    events.push(completed());
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

fn thinking(at: u64) -> Vec<Value> {
    let part = |text: &str| json!({"type": "summary_text", "text": text});
    let event = |kind: &str, index: u64, key: &str, value: Value| json!({"type": format!("response.reasoning_{kind}"), "item_id": "rs_1", "output_index": at, "summary_index": index, key: value});
    let text = |kind: &str, key: &str, value: &str| json!({"type": format!("response.reasoning_text.{kind}"), "item_id": "rs_1", "output_index": at, "content_index": 0, key: value});
    let item = json!({
        "type": "reasoning", "id": "rs_1", "encrypted_content": "gBBB", "summary": [part("Hm — first."), part("Then.")],
        "content": [{"type": "reasoning_text", "text": "raw"}],
    });
    vec![
        json!({"type": "response.output_item.added", "output_index": at, "item": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}}),
        event("summary_part.added", 0, "part", part("")),
        event("summary_text.delta", 0, "delta", json!("Hm —")),
        event("summary_text.delta", 0, "delta", json!(" first.")),
        event("summary_text.done", 0, "text", json!("Hm — first.")),
        event("summary_part.done", 0, "part", part("Hm — first.")),
        event("summary_part.added", 1, "part", part("")),
        event("summary_text.delta", 1, "delta", json!("Then.")),
        event("summary_text.done", 1, "text", json!("Then.")),
        event("summary_part.done", 1, "part", part("Then.")),
        text("delta", "delta", "ra"),
        text("done", "text", "raw"),
        json!({"type": "response.output_item.done", "output_index": at, "item": item}),
    ]
}

fn search_item(status: &str) -> Value {
    json!({"type": "web_search_call", "id": "ws_1", "status": status, "action": {"type": "search", "query": "q"}})
}

fn searching(at: u64) -> Vec<Value> {
    let step = |step: &str| json!({"type": format!("response.web_search_call.{step}"), "item_id": "ws_1", "output_index": at});
    vec![
        json!({"type": "response.output_item.added", "output_index": at, "item": {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}}),
        step("in_progress"),
        step("searching"),
        step("completed"),
        json!({"type": "response.output_item.done", "output_index": at, "item": search_item("completed")}),
    ]
}

fn speaking(at: u64) -> Vec<Value> {
    let event = |kind: &str, key: &str, value: Value| json!({"type": format!("response.{kind}"), "item_id": "msg_1", "output_index": at, "content_index": 0, key: value});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let item = |status: &str, content: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": status, "phase": "commentary", "content": content});
    vec![
        json!({"type": "response.output_item.added", "output_index": at, "item": item("in_progress", json!([]))}),
        event("content_part.added", "part", part("")),
        event("output_text.delta", "delta", json!("Grüße, ")),
        event("output_text.delta", "delta", json!("🦦!")),
        event(
            "output_text.annotation.added",
            "annotation",
            json!({"type": "url_citation", "url": "https://e.org"}),
        ),
        event("output_text.done", "text", json!("Grüße, 🦦!")),
        event("content_part.done", "part", part("Grüße, 🦦!")),
        json!({"type": "response.output_item.done", "output_index": at, "item": item("completed", json!([part("Grüße, 🦦!")]))}),
    ]
}

/// Two concurrent calls with interleaved arguments; those of the second are invalid JSON.
fn calling() -> Vec<Value> {
    let item = |n: u64, arguments: &str| json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"), "name": "weather", "arguments": arguments});
    let event = |kind: &str, at: u64, key: &str, value: &str| json!({"type": format!("response.{kind}"), "item_id": format!("fc_{}", at - 2), "output_index": at, key: value});
    vec![
        json!({"type": "response.output_item.added", "output_index": 3, "item": item(1, "")}),
        json!({"type": "response.output_item.added", "output_index": 4, "item": item(2, "")}),
        event("function_call_arguments.delta", 3, "delta", "{\"city\":"),
        event("function_call_arguments.delta", 4, "delta", "{\"city\""),
        event("function_call_arguments.delta", 3, "delta", "\"Paris\"}"),
        event("function_call_arguments.done", 3, "arguments", "{\"city\":\"Paris\"}"),
        event("function_call_arguments.done", 4, "arguments", "{\"city\""),
        json!({"type": "response.output_item.done", "output_index": 3, "item": item(1, "{\"city\":\"Paris\"}")}),
        json!({"type": "response.output_item.done", "output_index": 4, "item": item(2, "{\"city\"")}),
    ]
}

pub(super) fn completed() -> Value {
    json!({"type": "response.completed", "response": {
        "id": "resp_1", "status": "completed", "error": null, "incomplete_details": null, "output": [],
        "usage": {
            "input_tokens": 50, "output_tokens": 20, "total_tokens": 70,
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 5},
            "output_tokens_details": {"reasoning_tokens": 8},
        },
    }})
}

fn expected() -> Read {
    let summary =
        json!([{"type": "summary_text", "text": "Hm — first."}, {"type": "summary_text", "text": "Then."}]);
    let thought = json!({
        "provider": "open_ai", "id": "rs_1", "encrypted_content": "gBBB", "summary": summary,
        "content": [{"type": "reasoning_text", "text": "raw"}],
    });
    let search = AssistantBlock::ServerToolContent {
        id: Some("ws_1".to_owned()),
        name: "web_search".to_owned(),
        content: search_item("completed"),
        meta: Some(json!({"provider": "open_ai", "id": "ws_1"})),
    };
    let message_meta = json!({
        "provider": "open_ai", "id": "msg_1", "phase": "commentary",
        "annotations": [{"type": "url_citation", "url": "https://e.org"}],
    });
    let blocks = vec![
        think("Hm — first.\n\nThen.\n\nraw", Some(thought)),
        search,
        say("Grüße, 🦦!", Some(message_meta)),
        call("call_1", "weather", json!({"city": "Paris"})),
        call("call_2", "weather", json!("{\"city\"")),
    ];
    let usage = Usage {
        input_tokens: 50,
        output_tokens: 20,
        cache_creation_tokens: Some(5),
        cache_read_tokens: Some(40),
    };
    Read {
        answer: Ok(ModelResponse {
            blocks,
            stop_reason: StopReason::ToolUse,
            extent: ResponseStatus::Complete,
            usage,
        }),
        text: "Grüße, 🦦!".to_owned(),
        reasoning: "Hm — first.\n\nThen.\n\nraw".to_owned(),
    }
}

#[test]
fn split_stream_decodes_the_same() {
    let (stream, expected) = (stream(&full()), expected());
    assert_eq!(read_whole(&stream), expected);
    for cut in 0..=stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        assert_eq!(read(Provider::OpenAi, [head, tail]), expected, "cut at {cut}");
    }
    assert_eq!(read(Provider::OpenAi, stream.as_bytes().chunks(1)), expected);
}

#[test]
fn response_can_be_sent_back_unchanged() {
    let answer = read_whole(&stream(&full())).answer.unwrap();
    let sent = input(&model(), vec![user("hi"), assistant(answer.blocks)]);
    let kinds: Vec<_> = sent.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "message",
            "reasoning",
            "web_search_call",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
        ]
    );
    assert_eq!((&sent[1]["id"], &sent[1]["encrypted_content"]), (&json!("rs_1"), &json!("gBBB")));
    assert_eq!(sent[2], search_item("completed"));
    assert_eq!((&sent[3]["id"], &sent[3]["phase"]), (&json!("msg_1"), &json!("commentary")));
}

/// llama.cpp's format: no sequence numbers, no indexes, and calls without an item id.
#[test]
fn events_without_index_are_matched_by_id() {
    let call_item = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "weather", "arguments": arguments});
    let arguments = |id: &str, delta: &str| json!({"type": "response.function_call_arguments.delta", "item_id": id, "delta": delta});
    let thought = |content: Value| json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": content, "encrypted_content": ""});
    let events = [
        json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "item": thought(json!([]))}),
        json!({"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "hm"}),
        json!({"type": "response.output_item.added", "item": {"type": "message", "id": "msg_1", "content": []}}),
        json!({"type": "response.content_part.added", "item_id": "msg_1", "part": {"type": "output_text", "text": ""}}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "delta": "yes"}),
        json!({"type": "response.output_item.added", "item": call_item("fc_1", "")}),
        arguments("fc_1", "{}"),
        json!({"type": "response.output_item.added", "item": call_item("fc_2", "")}),
        arguments("fc_2", "{\"a\":"),
        arguments("fc_2", "1}"),
        json!({"type": "response.output_item.done", "item": thought(json!([{"type": "reasoning_text", "text": "hm"}]))}),
        json!({"type": "response.output_text.done", "item_id": "msg_1", "text": "yes"}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "yes"}]}}),
        json!({"type": "response.output_item.done", "item": call_item("fc_1", "{}")}),
        json!({"type": "response.output_item.done", "item": call_item("fc_2", "{\"a\":1}")}),
        json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 3, "output_tokens": 2}}}),
    ];
    let stream = stream(&events) + "data: [DONE]\n\n";
    let meta = json!({"provider": "self_hosted", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "hm"}]});
    let blocks = vec![
        think("hm", Some(meta)),
        say("yes", Some(json!({"provider": "self_hosted", "id": "msg_1"}))),
        call("fc_1", "weather", json!({})),
        call("fc_2", "weather", json!({"a": 1})),
    ];
    let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
    assert_eq!(
        read(Provider::SelfHosted, [stream.as_bytes()]),
        Read {
            answer: Ok(ModelResponse {
                blocks,
                stop_reason: StopReason::ToolUse,
                extent: ResponseStatus::Complete,
                usage
            }),
            text: "yes".to_owned(),
            reasoning: "hm".to_owned(),
        }
    );
}

fn message(content: &Value) -> Value {
    json!({"type": "message", "id": "m", "content": content})
}

fn text_message(text: &str) -> Value {
    message(&json!([{"type": "output_text", "text": text}]))
}

#[test]
fn unstreamed_text_is_emitted_on_completion() {
    let done =
        json!({"type": "response.output_item.done", "output_index": 0, "item": text_message("all of it")});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": message(&json!([]))});
    let delta = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "all "});
    let last = json!({"type": "response.completed", "response": {"output": [text_message("all of it")]}});
    let streams = [vec![done.clone(), completed()], vec![added, delta, done, completed()], vec![last]];
    for events in streams {
        let read = read_whole(&stream(&events));
        let blocks = vec![say("all of it", Some(json!({"provider": "open_ai", "id": "m"})))];
        assert_eq!(read.text, "all of it");
        assert_eq!(read.answer.unwrap().blocks, blocks);
    }
}

#[test]
fn annotations_keep_their_text_positions() {
    let cited = |url: &str, start: u64| json!({"type": "url_citation", "title": "t", "url": url, "start_index": start, "end_index": start + 1});
    let part = |text: &str, notes: Value| json!({"type": "output_text", "text": text, "annotations": notes});
    let parts = json!([part("öne", json!([cited("a", 0)])), part("two", json!([cited("b", 1)]))]);
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": message(&parts)});
    let block = read_whole(&stream(&[done, completed()])).answer.unwrap().blocks.remove(0);
    let annotations = json!([cited("a", 0), cited("b", 4)]);
    let meta = json!({"provider": "open_ai", "id": "m", "annotations": annotations});
    assert_eq!(block, say("önetwo", Some(meta)));

    let items = input(&model(), vec![user("hi"), assistant(vec![block])]);
    assert_eq!(items[1]["content"][0]["annotations"], annotations);
}

#[test]
fn stop_reasons_are_mapped() {
    let done =
        json!({"type": "response.output_item.done", "output_index": 0, "item": text_message("so far")});
    let end = |kind: &str, response: Value| json!({"type": format!("response.{kind}"), "response": response});
    let reason = |reason: &str| json!({"status": "incomplete", "incomplete_details": {"reason": reason}});
    let cases = [
        (end("incomplete", reason("max_output_tokens")), StopReason::MaxTokens),
        (end("completed", reason("max_output_tokens")), StopReason::MaxTokens),
        (end("incomplete", json!({"status": "incomplete"})), StopReason::MaxTokens),
        (end("incomplete", reason("content_filter")), StopReason::ContentFilter),
        (end("incomplete", reason("steered")), StopReason::EndTurn),
        (end("completed", json!({})), StopReason::EndTurn),
    ];
    for (end, expected) in cases {
        let answer = read_whole(&stream(&[done.clone(), end.clone()])).answer.unwrap();
        assert_eq!(answer.stop_reason, expected, "{end}");
    }
}

#[test]
fn refusal_is_an_error_unless_text_was_sent() {
    let event = |kind: &str, key: &str, value: Value| json!({"type": format!("response.{kind}"), "output_index": 0, "item_id": "m", "content_index": 1, key: value});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": message(&json!([]))});
    let refusal_events = [
        event("content_part.added", "part", json!({"type": "refusal", "refusal": ""})),
        event("refusal.delta", "delta", json!("I will ")),
        event("refusal.delta", "delta", json!("not.")),
        event("refusal.done", "refusal", json!("I will not.")),
        event("content_part.done", "part", json!({"type": "refusal", "refusal": "I will not."})),
        completed(),
    ];
    let alone = read_whole(&stream(&[std::slice::from_ref(&added), &refusal_events[..]].concat()));
    let failure = alone.answer.unwrap_err();
    assert_eq!((failure.kind, failure.message.as_str()), (ModelErrorKind::ContentFilter, "I will not."));
    assert_eq!(alone.text, "");

    let text_delta = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Well."});
    let answer = read_whole(&stream(&[&[added, text_delta], &refusal_events[..]].concat())).answer.unwrap();
    assert_eq!((answer.stop_reason, answer.blocks.len()), (StopReason::ContentFilter, 1));

    let filtered = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}});
    let failure = read_whole(&stream(&[filtered])).answer.unwrap_err();
    assert_eq!(failure.kind, ModelErrorKind::ContentFilter);
}
