//! The JSON of messages and their parts, in the wire format.

use meerkat_core::{
    AssistantBlock, AssistantImage, BlobId, BlobRef, Content, ContentBlock, MediaSource, Message, NoticeKind,
    StopReason, Timestamp, ToolResult, Usage,
};
use serde_json::{Value, json};

use crate::pin;

const AT: &str = "2026-01-02T03:04:05Z";
const BLOB: &str = "sha256:abababababababababababababababababababababababababababababababab";

fn at() -> Timestamp {
    AT.parse().unwrap()
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn text_block(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

#[test]
fn messages_match_the_wire_format() {
    let result = |content, is_error| ToolResult { tool_use_id: text("c1"), content, is_error };
    let cases = [
        (
            Message::System { content: text("be brief"), created_at: at() },
            json!({"role": "system", "content": "be brief", "created_at": AT}),
        ),
        (
            Message::User { content: Content::text("hi"), created_at: at() },
            json!({"role": "user", "content": "hi", "created_at": AT}),
        ),
        (
            Message::User { content: vec![text_block("a"), text_block("b")].into(), created_at: at() },
            json!({
                "role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "created_at": AT,
            }),
        ),
        (
            Message::Assistant {
                blocks: vec![AssistantBlock::Text { text: text("ok"), meta: None }],
                stop_reason: StopReason::EndTurn,
                created_at: at(),
            },
            json!({
                "role": "block_assistant", "blocks": [{"block_type": "text", "data": {"text": "ok"}}],
                "stop_reason": "end_turn", "created_at": AT,
            }),
        ),
        (
            Message::ToolResults {
                results: vec![result(Content::text("fine"), false), result(Content::default(), true)],
                created_at: at(),
            },
            json!({
                "role": "tool_results",
                "results": [
                    {"tool_use_id": "c1", "content": "fine", "is_error": false},
                    {"tool_use_id": "c1", "content": [], "is_error": true},
                ],
                "created_at": AT,
            }),
        ),
    ];
    for (message, json) in &cases {
        pin(message, json);
    }
}

#[test]
fn notices_match_the_wire_format() {
    for (kind, name) in [
        (NoticeKind::Generic, "generic"),
        (NoticeKind::McpPending, "mcp_pending"),
        (NoticeKind::BackgroundJob, "background_job"),
        (NoticeKind::ToolScope, "tool_scope"),
        (NoticeKind::ToolScopeWarning, "tool_scope_warning"),
        (NoticeKind::AuthReauthRequired, "auth_reauth_required"),
    ] {
        let notice = Message::SystemNotice { kind, body: text("note"), created_at: at() };
        pin(&notice, &json!({"role": "system_notice", "kind": name, "body": "note", "created_at": AT}));
    }
}

fn blocks(meta: Option<Value>) -> [AssistantBlock; 4] {
    [
        AssistantBlock::Text { text: text("ok"), meta: meta.clone() },
        AssistantBlock::Reasoning { text: text("hm"), meta: meta.clone() },
        AssistantBlock::ToolUse {
            id: text("c1"),
            name: text("a"),
            args: json!({"x": 1}),
            meta: meta.clone(),
        },
        AssistantBlock::ServerToolContent {
            id: meta.is_some().then(|| text("s1")),
            name: text("web_search"),
            content: json!([]),
            meta,
        },
    ]
}

#[test]
fn assistant_blocks_match_the_wire_format() {
    let bare = [
        json!({"block_type": "text", "data": {"text": "ok"}}),
        json!({"block_type": "reasoning", "data": {"text": "hm"}}),
        json!({"block_type": "tool_use", "data": {"id": "c1", "name": "a", "args": {"x": 1}}}),
        json!({"block_type": "server_tool_content", "data": {"name": "web_search", "content": []}}),
    ];
    for (block, json) in blocks(None).iter().zip(&bare) {
        pin(block, json);
    }
    let meta = json!({"provider": "anthropic", "signature": "s"});
    for (block, json) in blocks(Some(meta.clone())).iter().zip(bare) {
        let mut json = json;
        json["data"]["meta"] = meta.clone();
        if json["block_type"] == "server_tool_content" {
            json["data"]["id"] = json!("s1");
        }
        pin(block, &json);
    }
}

#[test]
fn images_name_every_field() {
    let image = |revised_prompt, meta| {
        AssistantBlock::Image(AssistantImage {
            image_id: text("i1"),
            blob_ref: BlobRef { blob_id: BLOB.parse().unwrap(), media_type: text("image/png") },
            media_type: text("image/png"),
            width: 4,
            height: 3,
            revised_prompt,
            meta,
        })
    };
    let expected = |revised_prompt: Value, meta: Value| {
        json!({
            "block_type": "image",
            "data": {
                "image_id": "i1", "blob_ref": {"blob_id": BLOB, "media_type": "image/png"}, "media_type": "image/png",
                "width": 4, "height": 3, "revised_prompt": revised_prompt, "meta": meta,
            },
        })
    };
    pin(&image(None, None), &expected(Value::Null, Value::Null));
    pin(
        &image(Some(text("a cat")), Some(json!({"provider": "open_ai"}))),
        &expected(json!("a cat"), json!({"provider": "open_ai"})),
    );
}

#[test]
fn content_is_a_string_or_blocks() {
    let inline = || MediaSource::Inline { data: text("AAAA") };
    let blob = MediaSource::Blob { blob_id: BLOB.parse().unwrap() };
    let image = |source| ContentBlock::Image { media_type: text("image/png"), source };
    let video = ContentBlock::Video { media_type: text("video/mp4"), duration_ms: 9, source: inline() };
    let inline_json = json!({"type": "image", "media_type": "image/png", "source": "inline", "data": "AAAA"});
    let cases = [
        (Content::text("hi"), json!("hi")),
        (Content::text(""), json!("")),
        (Content::default(), json!([])),
        (vec![image(inline())].into(), json!([inline_json])),
        (
            vec![text_block("see"), image(blob)].into(),
            json!([
                {"type": "text", "text": "see"},
                {"type": "image", "media_type": "image/png", "source": "blob", "blob_id": BLOB},
            ]),
        ),
        (
            vec![video].into(),
            json!([
                {"type": "video", "media_type": "video/mp4", "duration_ms": 9, "source": "inline", "data": "AAAA"},
            ]),
        ),
    ];
    for (content, json) in &cases {
        pin(content, json);
    }
    let one_block: Content = serde_json::from_value(json!([{"type": "text", "text": "hi"}])).unwrap();
    assert_eq!(one_block, Content::text("hi"));
}

#[test]
fn tool_result_may_omit_is_error() {
    let result = ToolResult { tool_use_id: text("c1"), content: Content::text("fine"), is_error: false };
    pin(&result, &json!({"tool_use_id": "c1", "content": "fine", "is_error": false}));
    let short = serde_json::from_value(json!({"tool_use_id": "c1", "content": "fine"})).unwrap();
    assert_eq!(result, short);
}

#[test]
fn usage_includes_cache_tokens_only_if_known() {
    let usage = Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() };
    pin(&usage, &json!({"input_tokens": 1, "output_tokens": 2}));
    let cached = Usage { cache_creation_tokens: Some(0), cache_read_tokens: Some(4), ..usage };
    pin(
        &cached,
        &json!({"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 0, "cache_read_tokens": 4}),
    );
}

#[test]
fn blob_ids_are_plain_strings() {
    pin(&BlobId::from_digest(&[0xab; 32]), &json!(BLOB));
    assert!(serde_json::from_value::<BlobId>(json!("sha256:ab")).is_err());
}
