//! Conversations in the wire format.

use meerkat_core::{AssistantImage, BlobId, BlobRef, NoticeKind};

use super::*;

fn cached(mut block: Value) -> Value {
    block["cache_control"] = json!({ "type": "ephemeral" });
    block
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn user_turn(content: &str) -> Value {
    json!({ "role": "user", "content": [text(content)] })
}

fn last_user_turn(content: &str) -> Value {
    json!({ "role": "user", "content": [cached(text(content))] })
}

fn image() -> Value {
    json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw0=" } })
}

#[test]
fn plain_request_is_minimal() {
    let body = json_of(&request(vec![user("hi")]));
    let expected = json!({
        "model": "claude-sonnet-4-6", "max_tokens": 4096, "stream": true, "messages": [last_user_turn("hi")],
    });
    assert_eq!(body, expected);
}

#[test]
fn stable_prefixes_are_marked_for_caching() {
    let request = ModelRequest {
        system: "Be brief.".to_owned(),
        tools: Arc::from(vec![tool("one"), tool("two")]),
        ..request(vec![user("a"), assistant(vec![say("b")]), user("c")])
    };
    let body = json_of(&request);
    let schema = &tool("one").input_schema;
    assert_eq!(body["system"], json!([cached(text("Be brief."))]));
    let tools = json!([
        { "name": "one", "description": "Does one.", "input_schema": schema },
        cached(json!({ "name": "two", "description": "Does two.", "input_schema": schema })),
    ]);
    assert_eq!(body["tools"], tools);
    let turns = json!([user_turn("a"), { "role": "assistant", "content": [text("b")] }, last_user_turn("c")]);
    assert_eq!(body["messages"], turns);
}

#[test]
fn parallel_results_and_next_prompt_share_a_message() {
    let messages = messages_of(vec![
        user("weather?"),
        assistant(vec![
            say("Looking."),
            call("toolu_1", "weather", json!({ "city": "Paris" })),
            call("toolu_2", "weather", json!({})),
            call("toolu_3", "weather", json!({})),
        ]),
        results(vec![
            failed("toolu_2", vec![words("boom"), image_block("image/png")]),
            result("toolu_1", vec![words("18C"), words(" ")]),
            result("toolu_3", vec![]),
        ]),
        user("and tomorrow?"),
    ]);
    let expected = json!([
        user_turn("weather?"),
        { "role": "assistant", "content": [
            text("Looking."),
            { "type": "tool_use", "id": "toolu_1", "name": "weather", "input": { "city": "Paris" } },
            { "type": "tool_use", "id": "toolu_2", "name": "weather", "input": {} },
            { "type": "tool_use", "id": "toolu_3", "name": "weather", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "toolu_1", "content": [text("18C")] },
            { "type": "tool_result", "tool_use_id": "toolu_2", "is_error": true,
              "content": [text("boom"), text("[image: image/png]")] },
            { "type": "tool_result", "tool_use_id": "toolu_3" },
            cached(text("and tomorrow?")),
        ] },
    ]);
    assert_eq!(messages, expected);
}

#[test]
fn failed_result_is_never_empty() {
    let history = vec![assistant(vec![call("a", "t", json!({}))]), results(vec![failed("a", vec![])])];
    let content = &messages_of(history)[2]["content"][0]["content"];
    assert_eq!(*content, json!([text("the tool failed without saying why")]));
}

#[test]
fn images_are_sent_only_if_model_supports_them() {
    let clip = ContentBlock::Video {
        media_type: "video/mp4".to_owned(),
        duration_ms: 1,
        source: MediaSource::Inline { data: "AAAA".to_owned() },
    };
    let history = request(vec![
        content(vec![words("what?"), image_block("image/png"), image_block("image/tiff"), clip]),
        assistant(vec![call("a", "t", json!({}))]),
        results(vec![result("a", vec![image_block("image/png")])]),
    ]);
    let sent = json_of(&history);
    let described = text("[image: image/png]");
    let others = [text("[image: image/tiff]"), text("[video: video/mp4]")];
    let user = |shown: &Value| json!([text("what?"), shown, others[0], others[1]]);
    assert_eq!(sent["messages"][0]["content"], user(&image()));
    assert_eq!(sent["messages"][2]["content"][0]["content"], json!([image()]));
    let mut blind = info();
    blind.profile = ModelProfile { inline_video: true, ..ModelProfile::default() };
    let sent = wire().body(&blind, &history).json;
    assert_eq!(sent["messages"][0]["content"], user(&described));
    assert_eq!(sent["messages"][2]["content"][0]["content"], json!([described]));
}

#[test]
fn stored_images_are_described() {
    let blob_id: BlobId = serde_json::from_value(json!(format!("sha256:{}", "a".repeat(64)))).unwrap();
    let source = MediaSource::Blob { blob_id: blob_id.clone() };
    let stored = ContentBlock::Image { media_type: "image/png".to_owned(), source };
    let generated = AssistantBlock::Image(AssistantImage {
        image_id: "i".to_owned(),
        blob_ref: BlobRef { blob_id, media_type: "image/png".to_owned() },
        media_type: "image/png".to_owned(),
        width: 1,
        height: 1,
        revised_prompt: None,
        meta: None,
    });
    let messages = messages_of(vec![content(vec![stored]), assistant(vec![generated]), user("nice")]);
    let described = text("[image: image/png]");
    let expected = json!([
        { "role": "user", "content": [described] },
        { "role": "assistant", "content": [described] },
        last_user_turn("nice"),
    ]);
    assert_eq!(messages, expected);
}

#[test]
fn notices_are_sent_as_user_text() {
    let created_at = Timestamp::UNIX_EPOCH;
    let messages = messages_of(vec![
        Message::System { content: "older rules".to_owned(), created_at },
        user("hi"),
        Message::SystemNotice { kind: NoticeKind::Generic, body: "job done".to_owned(), created_at },
    ]);
    let expected = json!([{ "role": "user", "content": [
        text("[SYSTEM NOTICE] older rules"), text("hi"), cached(text("[SYSTEM NOTICE] job done")),
    ] }]);
    assert_eq!(messages, expected);
}

#[test]
fn signed_thinking_is_sent_back_but_never_last() {
    let signed = || thought("hm", json!({ "provider": "anthropic", "signature": "c2ln" }));
    let hidden = thought("", json!({ "provider": "anthropic_redacted", "data": "eHg=" }));
    let unsigned = AssistantBlock::Reasoning { text: "loose".to_owned(), meta: None };
    let messages = messages_of(vec![
        user("a"),
        assistant(vec![signed(), hidden, unsigned, say("b"), signed()]),
        user("c"),
        assistant(vec![signed()]),
        user("d"),
    ]);
    let expected = json!([
        user_turn("a"),
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "c2ln" },
            { "type": "redacted_thinking", "data": "eHg=" },
            text("b"),
        ] },
        { "role": "user", "content": [text("c"), cached(text("d"))] },
    ]);
    assert_eq!(messages, expected);
}

#[test]
fn data_of_other_providers_is_dropped() {
    let foreign = json!({ "provider": "open_ai", "id": "rs_1", "encrypted_content": "zz" });
    let searched = AssistantBlock::ServerToolContent {
        id: None,
        name: "web_search".to_owned(),
        content: json!({ "type": "web_search_call" }),
        meta: Some(foreign.clone()),
    };
    let invalid = AssistantBlock::ToolUse {
        id: "call|1".to_owned(),
        name: "mcp.tool".to_owned(),
        args: json!("{broken"),
        meta: Some(json!({ "provider": "gemini", "thoughtSignature": "tt" })),
    };
    let messages = messages_of(vec![
        user("a"),
        assistant(vec![thought("hm", foreign), searched, invalid]),
        results(vec![result("call|1", vec![words("ok")])]),
    ]);
    let answer = json!({ "type": "tool_result", "tool_use_id": "call_1", "content": [text("ok")] });
    let expected = json!([
        user_turn("a"),
        { "role": "assistant", "content": [
            { "type": "tool_use", "id": "call_1", "name": "mcp_tool", "input": { "unreadable": "{broken" } },
        ] },
        { "role": "user", "content": [cached(answer)] },
    ]);
    assert_eq!(messages, expected);
}

#[test]
fn reused_call_ids_are_made_unique() {
    let step = |answer: &str| {
        let twice = vec![call("call_0", "t", json!({})), call("call_0", "t", json!({}))];
        [assistant(twice), results(vec![result("call_0", vec![words(answer)])])]
    };
    let mut history = vec![user("go")];
    history.extend([step("1"), step("2"), step("3")].into_iter().flatten());
    let messages = messages_of(history);
    let shape: Vec<_> =
        messages.as_array().unwrap().iter().skip(1).map(|turn| turn["content"].to_string()).collect();
    let ids = ["call_0", "call_0_2", "call_0_3"];
    for (at, id) in ids.into_iter().enumerate() {
        let used = json!([{ "type": "tool_use", "id": id, "name": "t", "input": {} }]);
        assert_eq!(shape[2 * at], used.to_string());
        assert!(shape[2 * at + 1].contains(&format!("\"tool_use_id\":\"{id}\"")), "{}", shape[2 * at + 1]);
    }
}

#[test]
fn user_turn_is_first_and_last() {
    let continue_turn = user_turn("Continue.");
    assert_eq!(messages_of(vec![]), json!([last_user_turn("Continue.")]));
    let answer = json!({ "role": "assistant", "content": [text("so")] });
    assert_eq!(
        messages_of(vec![assistant(vec![say("so")])]),
        json!([continue_turn, answer, last_user_turn("Continue.")])
    );
}

fn searching(id: &str) -> Value {
    json!({ "type": "server_tool_use", "id": id, "name": "web_search", "input": { "query": "x" } })
}

fn search_result(id: &str) -> Value {
    json!({ "type": "web_search_tool_result", "tool_use_id": id, "content": [] })
}

#[test]
fn server_tool_blocks_are_sent_in_pairs() {
    let citation = json!({ "type": "web_search_result_location", "url": "u", "title": null, "cited_text": "c",
        "encrypted_index": "e", "file_id": null });
    let cited = AssistantBlock::Text {
        text: "It rains.".to_owned(),
        meta: Some(json!({ "provider": "anthropic", "citations": [citation] })),
    };
    let blocks = vec![
        served(search_result("lost")),
        served(searching("s1")),
        served(search_result("s1")),
        served(searching("s2")),
        served(json!("no block")),
        served(json!({ "type": "compaction", "content": "so far" })),
        cited,
    ];
    let messages = messages_of(vec![user("a"), assistant(blocks), user("b")]);
    let sent = json!([
        searching("s1"),
        search_result("s1"),
        { "type": "compaction", "content": "so far" },
        { "type": "text", "text": "It rains.", "citations": [{ "type": "web_search_result_location", "url": "u",
            "title": null, "cited_text": "c", "encrypted_index": "e" }] },
    ]);
    assert_eq!(messages[1]["content"], sent);
}

#[test]
fn paused_turn_stays_open() {
    let paused = vec![user("a"), assistant(vec![say("Searching."), served(searching("s1"))])];
    let expected = json!([
        last_user_turn("a"),
        { "role": "assistant", "content": [text("Searching."), searching("s1")] },
    ]);
    assert_eq!(messages_of(paused.clone()), expected);
    let words_last = vec![user("a"), assistant(vec![served(searching("s1")), say("Searching.")])];
    assert_eq!(messages_of(words_last).as_array().map(Vec::len), Some(2), "even if text comes last");
    let mut resumed = paused;
    resumed.push(assistant(vec![served(search_result("s1")), say("Done.")]));
    resumed.push(user("b"));
    let joined = json!([text("Searching."), searching("s1"), search_result("s1"), text("Done.")]);
    assert_eq!(messages_of(resumed)[1]["content"], joined);
}

#[test]
fn long_history_keeps_its_order() {
    let mut history = vec![user("start")];
    for step in 0..40 {
        let id = format!("toolu_{step}");
        let thinking = thought("t", json!({ "provider": "anthropic", "signature": "s" }));
        history.push(assistant(vec![thinking, call(&id, "t", json!({ "step": step }))]));
        history.push(results(vec![result(&id, vec![words("ok")])]));
    }
    let messages = messages_of(history);
    let turns = messages.as_array().unwrap();
    assert_eq!(turns.len(), 81);
    for (at, pair) in turns[1..].chunks(2).enumerate() {
        assert_eq!((&pair[0]["role"], &pair[1]["role"]), (&json!("assistant"), &json!("user")));
        assert_eq!(pair[0]["content"][1]["id"], json!(format!("toolu_{at}")));
        assert_eq!(pair[1]["content"][0]["tool_use_id"], json!(format!("toolu_{at}")));
    }
    assert_eq!(messages.to_string().matches("cache_control").count(), 1);
}
