//! Image generation by agents and callers.

use std::sync::Arc;

use meerkat::{
    AgentEvent, ConfigChange, Error, Message, Runtime, RuntimeOptions, SessionId, TurnOptions, operations,
};
use meerkat_core::{AssistantBlock, BlobId, ContentBlock, MediaSource};
use meerkat_testkit::{Recorder, Server};
use serde_json::{Value, json};

use crate::world::{object, then, watch};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAY=";

fn generated() -> (&'static str, String) {
    let call = json!({"type": "image_generation_call", "id": "ig", "result": PNG, "revised_prompt": "so"});
    ("200 OK", json!({"status": "completed", "output": [call]}).to_string())
}

fn blocked() -> (&'static str, String) {
    let error = json!({"code": "moderation_blocked", "message": "rejected by the safety system"});
    ("400 Bad Request", json!({"error": error}).to_string())
}

/// Creates a runtime with a key for OpenAI, which is this server, and with the built-in tools enabled.
async fn runtime(server: &Server) -> Runtime {
    with_key("OPENAI_API_KEY", json!({"providers": {"openai": {"base_url": server.address()}}})).await
}

async fn with_key(variable: &'static str, config: Value) -> Runtime {
    let secrets = move |name: &str| (name == variable).then(|| "key-of-the-user".to_owned());
    let options = RuntimeOptions { secrets: Some(Arc::new(secrets)), ..RuntimeOptions::default() };
    let runtime = Runtime::ephemeral(options).unwrap();
    let mut config = object(config);
    config.insert("tools".to_owned(), json!({"builtins_enabled": true}));
    runtime.config().change(ConfigChange::Patch(config), None).await.unwrap();
    runtime
}

fn offline(prompt: &str) -> TurnOptions {
    TurnOptions { model: Some("offline".to_owned()), ..then(prompt) }
}

async fn run(runtime: &Runtime, prompt: &str, recorder: &Recorder) -> SessionId {
    let sessions = runtime.sessions();
    sessions.create(Default::default(), offline(prompt), watch(recorder)).await.unwrap().session_id
}

async fn messages(runtime: &Runtime, id: SessionId) -> Vec<Message> {
    runtime.sessions().history(id, 0, None).await.unwrap().messages
}

/// Returns the text of the only result, and whether the call failed.
fn result(messages: &[Message]) -> (Value, bool) {
    let Message::ToolResults { results, .. } = &messages[2] else { panic!("{messages:?}") };
    let ContentBlock::Text { text } = &results[0].content.blocks()[0] else { panic!("{results:?}") };
    (serde_json::from_str(text).unwrap(), results[0].is_error)
}

#[tokio::test]
async fn generated_image_joins_the_conversation() {
    let server = Server::new([generated(), generated()]);
    let runtime = runtime(&server).await;
    let recorder = Recorder::default();
    let call = r#"call generate_image {"request": {"intent": "generate", "prompt": "a meerkat", "size": "1024x1024"}}"#;
    let id = run(&runtime, call, &recorder).await;
    let history = messages(&runtime, id).await;
    let (reply, is_error) = result(&history);
    assert!(!is_error);
    let image = &reply["images"][0];
    let view = json!({
        "image_id": image["image_id"], "blob_ref": {"blob_id": image["blob_ref"]["blob_id"], "media_type": "image/png"},
        "media_type": "image/png", "width": 3, "height": 2,
    });
    let expected = json!({
        "operation_id": reply["operation_id"], "terminal": {"terminal": "generated"}, "images": [view],
        "provider_text": null, "revised_prompt": "so", "native_metadata": {"id": "ig"}, "warnings": [],
        "provider": "openai", "model": "gpt-image-2",
    });
    assert_eq!(reply, expected);

    let Message::ToolResults { results, .. } = &history[2] else { panic!("{history:?}") };
    let block = &results[0].content.blocks()[1];
    assert!(matches!(block, ContentBlock::Image { source: MediaSource::Blob { .. }, .. }), "{block:?}");
    let Message::Assistant { blocks, .. } = &history[3] else { panic!("{history:?}") };
    let [AssistantBlock::Image(appended)] = blocks.as_slice() else { panic!("{blocks:?}") };
    assert_eq!(json!(appended.image_id), image["image_id"]);
    let events = recorder.by_type("assistant_image_appended");
    assert_eq!(events, [json!(AgentEvent::AssistantImageAppended { image: appended.clone() })]);
    let blob = runtime.blob(&appended.blob_ref.blob_id).await.unwrap();
    assert_eq!((blob.media_type.as_str(), blob.data.len()), ("image/png", 26));

    let edit = json!({"request": {
        "intent": "edit", "instruction": "add a hat",
        "source_images": [{"kind": "assistant_image", "image_id": appended.image_id}],
    }});
    let turn = then(&format!("call generate_image {edit}"));
    runtime.sessions().start_turn(id, turn, Default::default()).await.unwrap();
    let sent = &server.seen()[1].body;
    assert_eq!(sent["tools"][0]["action"], "edit");
    assert_eq!(sent["input"][0]["content"][1]["image_url"], format!("data:image/png;base64,{PNG}"));
}

#[tokio::test]
async fn tool_needs_a_key_and_enabled_builtins() {
    let is_available = async |runtime: &Runtime, turn: TurnOptions| {
        let recorder = Recorder::default();
        runtime.sessions().create(Default::default(), turn, watch(&recorder)).await.unwrap();
        !recorder.by_type("tool_execution_started").is_empty()
    };
    let server = Server::new([generated(), generated(), generated()]);
    let call = || offline(r#"call generate_image {"prompt": "x"}"#);
    let keyed = runtime(&server).await;
    assert!(is_available(&keyed, call()).await, "arguments without the outer object are accepted");
    assert!(!is_available(&keyed, TurnOptions { builtins: Some(false), ..call() }).await);
    let off = json!({"tools": {"builtins_enabled": false}});
    keyed.config().change(ConfigChange::Patch(object(off)), None).await.unwrap();
    assert!(!is_available(&keyed, call()).await);
    assert!(is_available(&keyed, TurnOptions { builtins: Some(true), ..call() }).await);
    let keyless = with_key("ANTHROPIC_API_KEY", json!({})).await;
    assert!(!is_available(&keyless, call()).await, "no available provider generates images");
}

#[tokio::test]
async fn session_remembers_whether_it_has_the_tool() {
    let server = Server::new([generated()]);
    let runtime = runtime(&server).await;
    let turn = TurnOptions { builtins: Some(false), ..offline("say hi") };
    let id =
        runtime.sessions().create(Default::default(), turn, Default::default()).await.unwrap().session_id;
    let call = then(r#"call generate_image {"prompt": "x"}"#);
    runtime.sessions().start_turn(id, call, Default::default()).await.unwrap();
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn errors_are_reported_to_the_agent() {
    let server = Server::new([blocked()]);
    let runtime = runtime(&server).await;
    let unknown = format!("sha256:{}", "0".repeat(64));
    let cases = [
        (
            json!({"prompt": "something bad"}),
            json!({
                "error": "execution_failed",
                "message": "cannot generate the image: openai: HTTP 400: rejected by the safety system",
                "terminal": {"terminal": "safety_filtered"},
            }),
        ),
        (
            json!({"prompt": " "}),
            json!({"error": "invalid_arguments", "message": "`prompt` is missing: describe the image"}),
        ),
        (
            json!({"prompt": "x", "count": 2}),
            json!({"error": "invalid_arguments", "message": "`count` must be 1; send another request for another image"}),
        ),
        (
            json!({"prompt": "x", "size": "huge"}),
            json!({"error": "invalid_arguments", "message": "`size`: `huge` must be `auto` or pixels such as `1024x1024`"}),
        ),
        (
            json!({"intent": "edit", "instruction": "x", "source_images": [{"kind": "assistant_image", "image_id": "none"}]}),
            json!({"error": "invalid_arguments", "message": "no image of this session has the id `none`; refer to it by its blob id"}),
        ),
        (
            json!({"prompt": "x", "reference_images": [{"kind": "blob", "blob_ref": {"blob_id": unknown, "media_type": "image/png"}}]}),
            json!({"error": "invalid_arguments", "message": format!("no blob `{unknown}` in this realm")}),
        ),
        (
            json!({"prompt": "x", "provider": "google"}),
            json!({
                "error": "tool_unavailable",
                "message": "cannot use model `gemini-3.1-flash-image-preview`: no API key; set `GEMINI_API_KEY` or `GOOGLE_API_KEY`",
            }),
        ),
    ];
    for (request, expected) in cases {
        let prompt = format!("call generate_image {}", json!({"request": request}));
        let id = run(&runtime, &prompt, &Recorder::default()).await;
        assert_eq!(result(&messages(&runtime, id).await), (expected, true), "{request}");
    }
}

async fn operation(runtime: &Runtime, input: Value) -> Result<Value, Error> {
    let call = operations::Call { runtime: runtime.clone(), control: Default::default() };
    operations::find("meerkat_generate_image").unwrap().call(call, input).await.map(|reply| reply.json)
}

#[tokio::test]
async fn operation_creates_a_blob_without_a_session() {
    let candidate = json!({"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}});
    let answer = json!({"candidates": [candidate]}).to_string();
    let server = Server::new([("200 OK", answer)]);
    let config = json!({"providers": {"gemini": {"base_url": server.address(), "api_version": "v1"}}});
    let runtime = with_key("GEMINI_API_KEY", config).await;
    let reply =
        operation(&runtime, json!({"prompt": "a meerkat", "provider": "google", "format": "jpg", "n": 1}))
            .await
            .unwrap();
    assert_eq!(reply["warnings"], json!(["`gemini-3.1-flash-image-preview` chooses the format itself"]));
    assert_eq!(reply["model"], "gemini-3.1-flash-image-preview");
    let head = server.seen()[0].head.clone();
    assert!(head.starts_with("POST /v1/models/gemini-3.1-flash-image-preview:generateContent"), "{head}");
    let id: BlobId = reply["images"][0]["blob_ref"]["blob_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(runtime.blob(&id).await.unwrap().id, id);
    assert_eq!(runtime.sessions().list(Default::default()).await.unwrap(), []);
}

#[tokio::test]
async fn operation_error_includes_provider_details() {
    let server = Server::new([blocked()]);
    let runtime = runtime(&server).await;
    let error = operation(&runtime, json!({"prompt": "bad"})).await.unwrap_err().body();
    assert_eq!(error.code, "PROVIDER_ERROR");
    let data = json!({
        "terminal": {"terminal": "safety_filtered"}, "provider": "openai", "kind": "content_filter", "status": 400,
    });
    assert_eq!(error.data, Some(data));
    assert!(!error.message.contains("key-of-the-user"));
    let error = operation(&runtime, json!({"prompt": "x", "color": "red"})).await.unwrap_err().body();
    assert_eq!(error.code, "INVALID_PARAMS");
}

#[tokio::test]
async fn model_without_image_output_is_rejected() {
    let runtime = with_key("OPENAI_API_KEY", json!({})).await;
    let request = json!({"prompt": "a meerkat", "model": "claude-opus-4-7"});
    let error = operation(&runtime, request).await.unwrap_err();
    assert_eq!(error.kind(), meerkat::ErrorKind::ProviderError);
    assert_eq!(
        error.to_string(),
        "cannot use model `claude-opus-4-7`: it does not generate images; `gpt-image-2` does"
    );
}
