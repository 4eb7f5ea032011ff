//! The conversation in requests.

use meerkat_core::{AssistantImage, BlobId, BlobRef, NoticeKind, ToolFailure};

use super::*;

/// Reasoning received from OpenAI.
fn thought(id: &str) -> AssistantBlock {
    let meta = json!({
        "provider": "open_ai", "id": id, "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "Hm."}],
    });
    think("Hm.", Some(meta))
}

fn thought_item(id: &str) -> Value {
    json!({
        "type": "reasoning", "id": id, "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "Hm."}],
    })
}

fn search() -> AssistantBlock {
    AssistantBlock::ServerToolContent {
        id: Some("ws_1".to_owned()),
        name: "web_search".to_owned(),
        content: search_item(),
        meta: Some(json!({"provider": "open_ai", "id": "ws_1"})),
    }
}

fn search_item() -> Value {
    json!({
        "type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": {"type": "search", "query": "weather"},
    })
}

fn call_item(id: &str, city: &str) -> Value {
    json!({
        "type": "function_call", "call_id": id, "name": "weather",
        "arguments": json!({"city": city}).to_string(),
    })
}

fn output_item(id: &str, output: impl Into<Value>) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output.into()})
}

#[test]
fn long_conversation_is_sent_in_full() {
    let notice =
        Message::SystemNotice { kind: NoticeKind::Generic, body: "one tool left".to_owned(), created_at: AT };
    let meta = json!({"provider": "open_ai", "id": "msg_1", "phase": "commentary"});
    let messages = vec![
        user("weather?"),
        assistant(vec![
            thought("rs_1"),
            say("Looking.", Some(meta)),
            call("c1", "weather", json!({"city": "Paris"})),
            call("c2", "weather", json!({"city": "Atlantis"})),
        ]),
        results(vec![
            ("c1", ToolOutput::text("18C")),
            ("c2", ToolOutput { is_error: true, ..ToolOutput::text("no such city") }),
        ]),
        notice,
        Message::System { content: "be kind".to_owned(), created_at: AT },
        assistant(vec![thought("rs_2"), search(), thought("rs_3"), say("18C.", None)]),
        user("thanks"),
    ];
    let mut looking = identified("msg_1", "Looking.");
    looking["phase"] = json!("commentary");
    assert_eq!(
        input(&model(), messages),
        json!([
            user_item("weather?"),
            thought_item("rs_1"),
            looking,
            call_item("c1", "Paris"),
            call_item("c2", "Atlantis"),
            output_item("c1", "18C"),
            output_item("c2", "Error: no such city"),
            user_item("[SYSTEM NOTICE] one tool left"),
            user_item("[SYSTEM NOTICE] be kind"),
            thought_item("rs_2"),
            search_item(),
            thought_item("rs_3"),
            assistant_item("18C."),
            user_item("thanks"),
        ])
    );
}

#[test]
fn metadata_of_other_providers_is_dropped() {
    let meta = |key: &str| Some(json!({"provider": "anthropic", "id": "x", key: "y"}));
    let foreign = AssistantBlock::ServerToolContent {
        id: None,
        name: "web_search".to_owned(),
        content: json!({"type": "server_tool_use"}),
        meta: meta("k"),
    };
    let messages = vec![
        user("hi"),
        assistant(vec![
            think("hm", meta("signature")),
            foreign,
            say("Looking.", meta("phase")),
            call("toolu_1", "mcp.weather", json!({"city": "Paris"})),
        ]),
        user("never mind"),
    ];
    let mut call = call_item("toolu_1", "Paris");
    call["name"] = json!("mcp_weather");
    let missing = ToolOutput::failure(ToolFailure::Interrupted, "no result was recorded").content.to_text();
    assert_eq!(
        input(&model(), messages),
        json!([
            user_item("hi"),
            assistant_item("Looking."),
            call,
            output_item("toolu_1", missing),
            user_item("never mind")
        ])
    );
}

#[test]
fn dropped_reasoning_drops_dependent_ids() {
    let unsealed = think("Hm.", Some(json!({"provider": "open_ai", "id": "rs_1"})));
    let meta = || Some(json!({"provider": "open_ai", "id": "msg_1"}));
    let messages = vec![user("hi"), assistant(vec![unsealed, search(), say("yes", meta())])];
    assert_eq!(input(&model(), messages), json!([user_item("hi"), assistant_item("yes")]));

    // Nothing follows the last reasoning, so it is not sent.
    let messages = vec![
        user("hi"),
        assistant(vec![say("yes", meta()), thought("rs_1")]),
        assistant(vec![thought("rs_2")]),
    ];
    assert_eq!(input(&model(), messages), json!([user_item("hi"), identified("msg_1", "yes")]));
}

#[test]
fn self_hosted_server_gets_plain_reasoning() {
    let content = json!([{"type": "reasoning_text", "text": "Hm."}]);
    let messages = |provider: &str| {
        let meta = json!({"provider": provider, "id": "rs_1", "content": content});
        vec![user("hi"), assistant(vec![think("Hm.", Some(meta)), say("yes", None)])]
    };
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": content});
    assert_eq!(
        input(&own_model(), messages("self_hosted")),
        json!([user_item("hi"), thought, identified("msg_2", "yes")])
    );
    assert_eq!(input(&model(), messages("open_ai")), json!([user_item("hi"), assistant_item("yes")]));
}

#[test]
fn images_are_sent_to_models_with_vision() {
    let blob = ContentBlock::Image {
        media_type: "image/gif".to_owned(),
        source: MediaSource::Blob { blob_id: BlobId::from_digest(&[0; 32]) },
    };
    let clip = ContentBlock::Video {
        media_type: "video/mp4".to_owned(),
        duration_ms: 5,
        source: MediaSource::Inline { data: "AAAA".to_owned() },
    };
    let content = || Content::from(vec![prose("see"), prose(" "), image_block(), blob.clone(), clip.clone()]);
    let messages = || vec![Message::User { content: content(), created_at: AT }];
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let image =
        json!({"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0K"});
    let seen = [text("see"), image, text("[image: image/gif]"), text("[video: video/mp4]")];
    let mut described = seen.clone();
    described[1] = text("[image: image/png]");
    assert_eq!(input(&model(), messages())[0]["content"], json!(seen));
    assert_eq!(input(&own_model(), messages())[0]["content"], json!(described));
}

#[test]
fn result_images_are_sent_if_model_supports_them() {
    let content = Content::from(vec![prose("a cat"), image_block()]);
    let messages = |is_error| {
        let output = ToolOutput { content: content.clone(), is_error, images: Vec::new() };
        vec![user("hi"), assistant(vec![call("c", "look", json!({}))]), results(vec![("c", output)])]
    };
    let mut seeing = model();
    seeing.profile.image_tool_results = true;
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let image =
        json!({"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0K"});
    let output = |info: &ModelInfo, is_error| input(info, messages(is_error))[2]["output"].take();
    assert_eq!(output(&seeing, false), json!([text("a cat"), image]));
    assert_eq!(output(&seeing, true), json!([text("Error:"), text("a cat"), image]));
    assert_eq!(output(&model(), false), json!("a cat\n[image: image/png]"));
}

#[test]
fn unusual_calls_are_made_valid() {
    let long = "x".repeat(80);
    let image = AssistantImage {
        image_id: "i".to_owned(),
        blob_ref: BlobRef { blob_id: BlobId::from_digest(&[0; 32]), media_type: "image/png".to_owned() },
        media_type: "image/png".to_owned(),
        width: 1,
        height: 1,
        revised_prompt: None,
        meta: None,
    };
    let blocks = vec![
        call(&long, "", json!("{\"a\":")),
        call("c2", "tool", Value::Null),
        AssistantBlock::Image(image),
    ];
    let outputs = vec![
        (long.as_str(), ToolOutput::text("")),
        ("c2", ToolOutput { is_error: true, ..ToolOutput::text("") }),
    ];
    let sent = input(&model(), vec![user("hi"), assistant(blocks), results(outputs)]);
    let short = sent[1]["call_id"].as_str().unwrap().to_owned();
    assert!(short.len() <= 64);
    assert_eq!(
        sent,
        json!([
            user_item("hi"),
            {"type": "function_call", "call_id": short, "name": "_", "arguments": "{\"unreadable_arguments\":\"{\\\"a\\\":\"}"},
            {"type": "function_call", "call_id": "c2", "name": "tool", "arguments": "{}"},
            assistant_item("[image: image/png]"),
            output_item(&short, json!("(no output)")),
            output_item("c2", json!("Error: (no output)")),
        ])
    );
}

#[test]
fn unsupported_image_type_is_described() {
    let bitmap = ContentBlock::Image {
        media_type: "image/bmp".to_owned(),
        source: MediaSource::Inline { data: "Qk0=".to_owned() },
    };
    let message = Message::User { content: vec![bitmap].into(), created_at: AT };
    assert_eq!(input(&model(), vec![message]), json!([user_item("[image: image/bmp]")]));
}

#[test]
fn input_is_never_empty() {
    assert_eq!(input(&model(), vec![user(" ")]), json!([user_item("Continue.")]));
}
