use meerkat_core::{
    AssistantBlock, AssistantImage, BlobRef, Content, ContentBlock, MediaSource, Message, ModelInfo,
    ModelProfile, NoticeKind, ToolFailure, ToolOutput, ToolResult,
};
use serde_json::{Value, json};

use super::{WHEN, assistant, call, image, info, messages, reasoning, results, text, user};

fn seeing() -> ModelInfo {
    let profile =
        ModelProfile { vision: true, image_tool_results: true, inline_video: true, ..info().profile };
    ModelInfo { profile, ..info() }
}

fn say(blocks: Vec<ContentBlock>) -> Message {
    Message::User { content: Content::from(blocks), created_at: WHEN }
}

fn words(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

fn image_url_part() -> Value {
    json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } })
}

fn tool_call(id: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": arguments } })
}

#[test]
fn results_follow_parallel_calls_in_order() {
    let failed = ToolResult { is_error: true, ..ToolOutput::text("no such city").into_result("b") };
    let history = vec![
        user("go"),
        assistant(vec![text("on it"), call("a", "f", json!({ "x": 1 })), call("b", "f", json!({}))]),
        results(vec![failed, ToolOutput::text("18C").into_result("a")]),
    ];
    assert_eq!(
        messages(&info(), history),
        json!([
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": "on it", "tool_calls": [tool_call("a", "{\"x\":1}"), tool_call("b", "{}")] },
            { "role": "tool", "tool_call_id": "a", "content": "18C" },
            { "role": "tool", "tool_call_id": "b", "content": "[ERROR] no such city" },
        ])
    );
}

#[test]
fn results_are_never_empty_and_failures_are_marked() {
    let history = vec![
        user("go"),
        assistant(vec![
            call("a", "f", json!("{oops")),
            call("b", "f", Value::Null),
            call("c", "f", json!({})),
        ]),
        results(vec![
            ToolOutput::text(" ").into_result("a"),
            ToolOutput::failure(ToolFailure::Timeout, "slow").into_result("b"),
        ]),
    ];
    let sent = messages(&info(), history);
    assert_eq!(
        sent[1],
        json!({
            "role": "assistant",
            "content": null,
            "tool_calls": [tool_call("a", "{\"unreadable\":\"{oops\"}"), tool_call("b", "{}"), tool_call("c", "{}")],
        })
    );
    let contents: Vec<_> = (2..5).map(|at| sent[at]["content"].as_str().unwrap()).collect();
    assert_eq!(
        contents,
        [
            "(no output)",
            r#"{"error":"timeout","message":"slow"}"#,
            r#"{"error":"interrupted","message":"no result was recorded"}"#,
        ]
    );
}

#[test]
fn invented_tool_names_are_made_valid() {
    let name = |name: &str| {
        let history = vec![user("go"), assistant(vec![call("a", name, json!({}))])];
        messages(&info(), history)[1]["tool_calls"][0]["function"]["name"].take()
    };
    assert_eq!(name("my tool.é"), "my_tool__");
    assert_eq!(name(""), "unknown");
}

#[test]
fn images_are_sent_to_models_with_vision() {
    let video = ContentBlock::Video {
        media_type: "video/mp4".to_owned(),
        duration_ms: 1,
        source: MediaSource::Inline { data: "aGk=".to_owned() },
    };
    let history = || vec![say(vec![words("what?"), image(), words(" "), video.clone()])];
    assert_eq!(
        messages(&seeing(), history()),
        json!([{ "role": "user", "content": [
            { "type": "text", "text": "what?" },
            image_url_part(),
            { "type": "video_url", "video_url": { "url": "data:video/mp4;base64,aGk=" } },
        ] }])
    );
    let degraded = "what?\n\n[image: image/png]\n\n[video: video/mp4]";
    assert_eq!(messages(&info(), history()), json!([{ "role": "user", "content": degraded }]));
}

#[test]
fn images_in_blobs_are_described() {
    let blob_id = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".parse().unwrap();
    let blob =
        ContentBlock::Image { media_type: "image/png".to_owned(), source: MediaSource::Blob { blob_id } };
    assert_eq!(
        messages(&seeing(), vec![say(vec![blob])]),
        json!([{ "role": "user", "content": "[image: image/png]" }])
    );
}

#[test]
fn tool_images_follow_their_results() {
    let shot = ToolResult {
        tool_use_id: "a".to_owned(),
        content: Content::from(vec![words("done"), image()]),
        is_error: false,
    };
    let history = || {
        vec![
            user("go"),
            assistant(vec![call("a", "f", json!({})), call("b", "f", json!({}))]),
            results(vec![shot.clone(), ToolOutput::text("ok").into_result("b")]),
            user("and?"),
        ]
    };
    let tool = |id: &str, text: &str| json!({ "role": "tool", "tool_call_id": id, "content": text });
    let sent = messages(&seeing(), history());
    assert_eq!(sent[2], tool("a", "done\n[image: image/png]"));
    assert_eq!(sent[3], tool("b", "ok"));
    assert_eq!(
        sent[4],
        json!({ "role": "user", "content": [
            { "type": "text", "text": "[images of tool call a]" },
            image_url_part(),
            { "type": "text", "text": "and?" },
        ] })
    );
    let sent = messages(&info(), history());
    assert_eq!(sent[2], tool("a", "done\n[image: image/png]"));
    assert_eq!(sent[4], json!({ "role": "user", "content": "and?" }));
}

#[test]
fn current_reasoning_is_sent_back_in_its_field() {
    let history = |field: &str| {
        vec![
            user("old"),
            assistant(vec![reasoning("past", field), text("yes")]),
            user("go"),
            assistant(vec![reasoning("hm", field), call("a", "f", json!({}))]),
            results(vec![ToolOutput::text("ok").into_result("a")]),
        ]
    };
    let calls = json!([tool_call("a", "{}")]);
    let cases = [
        (
            "reasoning",
            json!({ "role": "assistant", "content": null, "reasoning": "hm", "tool_calls": calls }),
        ),
        (
            "reasoning_content",
            json!({ "role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": calls }),
        ),
        (
            "content",
            json!({ "role": "assistant", "content": "<think>\nhm\n</think>\n\n", "tool_calls": calls }),
        ),
        ("odd", json!({ "role": "assistant", "content": null, "tool_calls": calls })),
    ];
    for (field, expected) in cases {
        let sent = messages(&info(), history(field));
        assert_eq!(sent[1], json!({ "role": "assistant", "content": "yes" }), "{field}");
        assert_eq!(sent[3], expected, "{field}");
    }
}

#[test]
fn data_of_other_providers_is_not_sent() {
    let meta = Some(json!({ "provider": "anthropic", "signature": "s" }));
    let blocks = vec![
        AssistantBlock::Reasoning { text: "hm".to_owned(), meta: meta.clone() },
        AssistantBlock::ServerToolContent {
            id: None,
            name: "web_search".to_owned(),
            content: json!([1]),
            meta: meta.clone(),
        },
        AssistantBlock::Text { text: "found".to_owned(), meta: meta.clone() },
        AssistantBlock::ToolUse { id: "a".to_owned(), name: "f".to_owned(), args: json!({}), meta },
    ];
    let sent = messages(&info(), vec![user("go"), assistant(blocks)]);
    assert_eq!(
        sent[1],
        json!({ "role": "assistant", "content": "found", "tool_calls": [tool_call("a", "{}")] })
    );
}

#[test]
fn long_history_alternates() {
    let notice = Message::SystemNotice {
        kind: NoticeKind::ToolScope,
        body: "tools came".to_owned(),
        created_at: WHEN,
    };
    let system = Message::System { content: "be kind".to_owned(), created_at: WHEN };
    let generated = AssistantBlock::Image(AssistantImage {
        image_id: "i".to_owned(),
        blob_ref: BlobRef {
            blob_id: "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
                .parse()
                .unwrap(),
            media_type: "image/png".to_owned(),
        },
        media_type: "image/png".to_owned(),
        width: 1,
        height: 1,
        revised_prompt: None,
        meta: None,
    });
    let history = vec![
        system,
        user("one"),
        assistant(vec![text("a"), generated]),
        assistant(vec![text("b"), call("x", "f", json!({}))]),
        results(vec![ToolOutput::text("1").into_result("x")]),
        assistant(vec![call("x", "f", json!({}))]),
        results(vec![ToolOutput::text("2").into_result("x")]),
        assistant(vec![text(" ")]),
        notice,
        user("two"),
        user("  "),
    ];
    assert_eq!(
        messages(&info(), history),
        json!([
            { "role": "user", "content": "[SYSTEM NOTICE] be kind\n\none" },
            { "role": "assistant", "content": "a\n\n[image: image/png]\n\nb", "tool_calls": [tool_call("x", "{}")] },
            { "role": "tool", "tool_call_id": "x", "content": "1" },
            { "role": "assistant", "content": null, "tool_calls": [tool_call("x_2", "{}")] },
            { "role": "tool", "tool_call_id": "x_2", "content": "2" },
            { "role": "user", "content": "[SYSTEM NOTICE] tools came\n\ntwo" },
        ])
    );
}

#[test]
fn unsupported_image_type_is_described() {
    let bitmap = ContentBlock::Image {
        media_type: "image/bmp".to_owned(),
        source: MediaSource::Inline { data: "Qk0=".to_owned() },
    };
    let expected = json!([{ "role": "user", "content": "[image: image/bmp]" }]);
    assert_eq!(messages(&seeing(), vec![say(vec![bitmap])]), expected);
}
