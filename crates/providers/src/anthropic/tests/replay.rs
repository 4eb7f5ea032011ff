//! Valid streams, decoded at once and split anywhere.

use meerkat_core::{ModelErrorKind, ResponseStatus, Usage};

use super::*;

fn citation() -> Value {
    json!({ "type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "c", "encrypted_index": "e" })
}

/// A response with every type of block and event.
pub(super) fn everything() -> Vec<Value> {
    let text = |text: &str| json!({ "type": "text_delta", "text": text });
    let json = |json: &str| json!({ "type": "input_json_delta", "partial_json": json });
    let hit = json!({ "type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "x" });
    let mut blocks = vec![json!({ "type": "ping" })];
    blocks.extend([
        start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "Let me " })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "séé." })),
        delta(0, json!({ "type": "signature_delta", "signature": "c2ln" })),
        stop(0),
        start(1, json!({ "type": "redacted_thinking", "data": "eHg=" })),
        stop(1),
        start(2, json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}, "caller": null })),
        delta(2, json("{\"query\": \"we")),
        delta(2, json("ather\"}")),
        stop(2),
        start(3, json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [hit] })),
        stop(3),
        start(4, json!({ "type": "text", "text": "", "citations": [] })),
        delta(4, text("It rains ☔")),
        delta(4, json!({ "type": "citations_delta", "citation": citation() })),
        delta(4, json!({ "type": "some_new_delta", "x": 1 })),
        delta(4, text(".")),
        stop(4),
        json!({ "type": "some_new_event", "index": "odd" }),
        start(5, json!({ "type": "tool_use", "id": "toolu_1", "name": "umbrella", "input": {} })),
        delta(5, json("")),
        start(6, json!({ "type": "tool_use", "id": "toolu_2", "name": "none", "input": {}, "caller": { "type": "direct" } })),
        delta(5, json("{\"col")),
        delta(5, json("or\":\"réd\"}")),
        stop(6),
        stop(5),
        start(7, json!({ "type": "compaction", "content": null })),
        delta(7, json!({ "type": "compaction_delta", "content": "so far" })),
        stop(7),
    ]);
    framed(blocks, "tool_use")
}

fn expected() -> ModelResponse {
    let own = |mut meta: Value| {
        meta["provider"] = json!("anthropic");
        Some(meta)
    };
    let server = |id: Option<&str>, name: &str, content: Value| AssistantBlock::ServerToolContent {
        id: id.map(str::to_owned),
        name: name.to_owned(),
        content,
        meta: own(json!({})),
    };
    let search = json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "weather" } });
    let hit = json!({ "type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "x" });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [hit] });
    let cited = json!({ "citations": [citation()] });
    let blocks = vec![
        AssistantBlock::Reasoning {
            text: "Let me séé.".to_owned(),
            meta: own(json!({ "signature": "c2ln" })),
        },
        thought("", json!({ "provider": "anthropic_redacted", "data": "eHg=" })),
        server(Some("srvtoolu_1"), "web_search", search),
        server(Some("srvtoolu_1"), "web_search", found),
        AssistantBlock::Text { text: "It rains ☔.".to_owned(), meta: own(cited) },
        call("toolu_1", "umbrella", json!({ "color": "réd" })),
        call("toolu_2", "none", json!({})),
        server(None, "compaction", json!({ "type": "compaction", "content": "so far" })),
    ];
    let usage = Usage {
        input_tokens: 25,
        output_tokens: 42,
        cache_creation_tokens: Some(7),
        cache_read_tokens: Some(9),
    };
    ModelResponse { blocks, stop_reason: StopReason::ToolUse, extent: ResponseStatus::Complete, usage }
}

#[test]
fn split_stream_decodes_the_same() {
    let stream = sse(&everything());
    let expected = (Ok(expected()), "It rains ☔.".to_owned(), "Let me séé.".to_owned());
    assert_eq!(read(&[stream.as_bytes()]), expected);
    for cut in 0..=stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        assert_eq!(read(&[head, tail]), expected, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes), expected);
}

#[test]
fn response_can_be_sent_back_unchanged() {
    let (answer, ..) = read(&[sse(&everything()).as_bytes()]);
    let blocks = answer.unwrap().blocks;
    let sent = messages_of(vec![user("weather?"), assistant(blocks), user("thanks")]);
    let kinds: Vec<_> =
        sent[1]["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    let expected = json!([
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "text",
        "tool_use",
        "tool_use",
        "compaction",
    ]);
    assert_eq!(Value::Array(kinds), expected);
    assert_eq!(sent[1]["content"][2]["input"], json!({ "query": "weather" }));
}

fn one(blocks: Vec<Value>, stop_reason: &str) -> Result<ModelResponse, ModelError> {
    read(&[sse(&framed(blocks, stop_reason)).as_bytes()]).0
}

fn text_block(text: &str) -> Vec<Value> {
    vec![start(0, json!({ "type": "text", "text": text })), stop(0)]
}

fn call_block(json: &str) -> Vec<Value> {
    let piece = json!({ "type": "input_json_delta", "partial_json": json });
    vec![
        start(0, json!({ "type": "tool_use", "id": "a", "name": "t", "input": { "x": 1 } })),
        delta(0, piece),
        stop(0),
    ]
}

#[test]
fn only_pause_turn_marks_response_paused() {
    for (reason, extent) in [("pause_turn", ResponseStatus::Paused), ("end_turn", ResponseStatus::Complete)] {
        assert_eq!(one(text_block("so"), reason).map(|answer| answer.extent), Ok(extent), "{reason}");
    }
}

#[test]
fn stop_reasons_are_mapped() {
    let cases = [
        ("end_turn", StopReason::EndTurn, StopReason::ToolUse),
        ("tool_use", StopReason::EndTurn, StopReason::ToolUse),
        ("pause_turn", StopReason::EndTurn, StopReason::ToolUse),
        ("something_new", StopReason::EndTurn, StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens, StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens, StopReason::MaxTokens),
        ("stop_sequence", StopReason::StopSequence, StopReason::StopSequence),
        ("refusal", StopReason::ContentFilter, StopReason::ContentFilter),
    ];
    for (reason, with_text, with_call) in cases {
        assert_eq!(one(text_block("so"), reason).map(|answer| answer.stop_reason), Ok(with_text), "{reason}");
        assert_eq!(one(call_block("{}"), reason).map(|answer| answer.stop_reason), Ok(with_call), "{reason}");
    }
}

#[test]
fn response_stopped_without_content_is_an_error() {
    let kind = |blocks, reason| one(blocks, reason).unwrap_err().kind;
    assert_eq!(kind(vec![], "refusal"), ModelErrorKind::ContentFilter);
    assert_eq!(kind(text_block(""), "refusal"), ModelErrorKind::ContentFilter);
    assert_eq!(kind(vec![], "model_context_window_exceeded"), ModelErrorKind::ContextOverflow);
    let mut events = framed(vec![], "refusal");
    events[1]["delta"]["stop_details"] = json!({ "type": "refusal", "explanation": "not that" });
    assert_eq!(read(&[sse(&events).as_bytes()]).0.unwrap_err().message, "not that");
}

#[test]
fn invalid_arguments_are_stored_verbatim() {
    let cases = [
        ("", json!({ "x": 1 })),
        ("{\"y\":2}", json!({ "y": 2 })),
        ("{\"y\":", json!("{\"y\":")),
        ("[1]", json!("[1]")),
    ];
    for (raw, args) in cases {
        assert_eq!(one(call_block(raw), "tool_use").unwrap().blocks, vec![call("a", "t", args)], "{raw}");
    }
}

#[test]
fn empty_blocks_are_dropped_except_signed_thinking() {
    let signature = json!({ "type": "signature_delta", "signature": "s" });
    let blocks = vec![
        start(0, json!({ "type": "thinking", "thinking": "" })),
        delta(0, signature),
        stop(0),
        start(1, json!({ "type": "text", "text": "" })),
        stop(1),
        start(2, json!({ "type": "thinking", "thinking": "" })),
        stop(2),
    ];
    let signed = thought("", json!({ "signature": "s", "provider": "anthropic" }));
    assert_eq!(one(blocks, "end_turn").unwrap().blocks, vec![signed]);
}

#[test]
fn last_token_count_wins() {
    let mut events = framed(text_block("so"), "end_turn");
    let last = events.len() - 2;
    events[last]["usage"] =
        json!({ "input_tokens": 90, "output_tokens": 3, "cache_read_input_tokens": null });
    let usage = read(&[sse(&events).as_bytes()]).0.unwrap().usage;
    let expected = Usage {
        input_tokens: 90,
        output_tokens: 3,
        cache_creation_tokens: Some(7),
        cache_read_tokens: Some(9),
    };
    assert_eq!(usage, expected);
}

#[test]
fn data_after_the_end_is_ignored() {
    let stream = sse(&framed(text_block("so"), "end_turn")) + "data: [DONE]\n\n";
    assert_eq!(read(&[stream.as_bytes()]).0.unwrap().blocks, vec![say("so")]);
}
