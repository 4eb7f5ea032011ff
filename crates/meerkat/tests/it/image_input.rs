//! Images in prompts and results: stored once, sent to models with vision, and replaced by placeholders for others.

use std::sync::{Arc, Mutex};

use meerkat::{
    Content, ErrorKind, Model, Outcome, RunInput, Runtime, RuntimeOptions, ToolOutput, TurnOptions,
    operations,
};
use meerkat_core::{
    AssistantBlock, BlobId, BoxFuture, ContentBlock, DeltaSink, MediaSource, Message, ModelError, ModelInfo,
    ModelProfile, ModelRequest, ModelResponse, Provider, ResponseStatus, StopReason, Usage,
};
use meerkat_testkit::{FnTool, Tools};
use serde_json::{Value, json};

use crate::world::{text, then};

const PIXEL: &str = "iVBORw0KGgo=";

/// A model that records its requests and calls each tool once.
struct Seer {
    info: ModelInfo,
    seen: Mutex<Vec<Value>>,
}

impl Seer {
    fn new(profile: ModelProfile, provider: Provider) -> Arc<Self> {
        let info = ModelInfo { profile, ..ModelInfo::new("seer", provider) };
        Arc::new(Self { info, seen: Mutex::default() })
    }

    /// Returns the content of the message at this index of the last request.
    fn saw(&self, at: usize) -> Value {
        self.seen.lock().unwrap().last().unwrap()[at]["content"].clone()
    }
}

impl Model for Seer {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let messages: Vec<&Message> = request.messages.iter().map(|message| &**message).collect();
        let mut messages = serde_json::to_value(messages).unwrap();
        for message in messages.as_array_mut().unwrap() {
            if let Some(results) = message.get("results").cloned() {
                message["content"] = results[0]["content"].clone();
            }
        }
        self.seen.lock().unwrap().push(messages);
        let is_first = matches!(request.messages.last().map(|m| &**m), Some(Message::User { .. }));
        let block = match request.tools.first().filter(|_| is_first) {
            Some(tool) => AssistantBlock::ToolUse {
                id: "c".to_owned(),
                name: tool.name.clone(),
                args: json!({}),
                meta: None,
            },
            None => AssistantBlock::Text { text: "seen".to_owned(), meta: None },
        };
        let (stop_reason, extent, usage) = (StopReason::EndTurn, ResponseStatus::Complete, Usage::default());
        Box::pin(async move { Ok(ModelResponse { blocks: vec![block], stop_reason, extent, usage }) })
    }
}

fn image_block(source: MediaSource) -> ContentBlock {
    ContentBlock::Image { media_type: "image/png".to_owned(), source }
}

fn inline(data: &str) -> ContentBlock {
    image_block(MediaSource::Inline { data: data.to_owned() })
}

fn words(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

fn asking(blocks: Vec<ContentBlock>) -> TurnOptions {
    let input = RunInput { prompt: Content::from(blocks), ..RunInput::default() };
    TurnOptions { input, model: Some("seer".to_owned()), ..TurnOptions::default() }
}

fn runtime(seer: &Arc<Seer>, options: RuntimeOptions) -> Runtime {
    Runtime::ephemeral(RuntimeOptions { models: vec![Arc::clone(seer) as _], ..options }).unwrap()
}

fn seeing() -> ModelProfile {
    ModelProfile { vision: true, image_tool_results: true, ..ModelProfile::default() }
}

async fn run(runtime: &Runtime, turn: TurnOptions) -> meerkat::SessionId {
    let done = runtime.sessions().create(Default::default(), turn, Default::default()).await.unwrap();
    assert_eq!(text(&done), "seen");
    done.session_id
}

#[tokio::test]
async fn inline_image_is_stored_once() {
    let seer = Seer::new(seeing(), Provider::OpenAi);
    let runtime = runtime(&seer, RuntimeOptions::default());
    let id = run(&runtime, asking(vec![words("what is this?"), inline(PIXEL)])).await;
    let expected = json!([
        {"type": "text", "text": "what is this?"},
        {"type": "image", "media_type": "image/png", "source": "inline", "data": PIXEL},
    ]);
    assert_eq!(seer.saw(0), expected);
    runtime.sessions().start_turn(id, then("and now?"), Default::default()).await.unwrap();
    assert_eq!(seer.saw(0), expected);

    let history = runtime.sessions().history(id, 0, None).await.unwrap();
    let Message::User { content, .. } = &history.messages[0] else { panic!("{history:?}") };
    let [_, ContentBlock::Image { source: MediaSource::Blob { blob_id }, .. }] = content.blocks() else {
        panic!("{content:?}");
    };
    let blob = runtime.blob(blob_id).await.unwrap();
    assert_eq!((blob.media_type.as_str(), blob.data.as_slice()), ("image/png", &b"\x89PNG\r\n\x1a\n"[..]));
}

#[tokio::test]
async fn missing_image_is_replaced_by_a_placeholder() {
    let snap = FnTool::new("snap", |_| async {
        let missing_image = image_block(MediaSource::Blob { blob_id: missing() });
        ToolOutput { content: Content::from(vec![missing_image]), ..ToolOutput::text("") }
    });
    let seer = Seer::new(seeing(), Provider::OpenAi);
    let options = RuntimeOptions { tool_sources: vec![Tools::new([snap])], ..RuntimeOptions::default() };
    run(&runtime(&seer, options), asking(vec![words("snap")])).await;
    assert_eq!(seer.saw(2), json!("[image: image/png] (no longer in the store)"));
}

/// Returns the id of a blob that no realm of these tests has.
fn missing() -> BlobId {
    format!("sha256:{}", "ab".repeat(32)).parse().unwrap()
}

#[tokio::test]
async fn prompt_with_unknown_blob_is_rejected() {
    let seer = Seer::new(seeing(), Provider::OpenAi);
    let runtime = runtime(&seer, RuntimeOptions::default());
    let blob_id = missing();
    let source = || MediaSource::Blob { blob_id: missing() };
    let id = run(&runtime, asking(vec![words("hi")])).await;
    let expected = |field: &str| {
        format!(
            "`{field}.blob_id`: no blob `{blob_id}` in this realm; use an id that this realm returned, or send the \
             bytes as `data`"
        )
    };
    let video = ContentBlock::Video { media_type: "video/mp4".to_owned(), duration_ms: 1, source: source() };
    let file = ContentBlock::File { media_type: "audio/wav".to_owned(), source: source() };
    for block in [image_block(source()), video, file] {
        let turn = || asking(vec![words("this?"), block.clone()]);
        let sessions = runtime.sessions();
        let created = sessions.create(Default::default(), turn(), Default::default()).await.unwrap_err();
        let resumed = sessions.start_turn(id, turn(), Default::default()).await.unwrap_err();
        for error in [created, resumed] {
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidParams, expected("prompt[1]")));
        }
    }
    let image = json!({"type": "image", "media_type": "image/png", "source": "blob", "blob_id": blob_id});
    let call = || operations::Call { runtime: runtime.clone(), control: Default::default() };
    let resume = operations::find("meerkat_resume").unwrap();
    let results = json!([{"tool_use_id": "c", "content": [image]}]);
    let arguments = json!({"session_id": id, "tool_results": results});
    let error = resume.call(call(), arguments).await.unwrap_err();
    assert_eq!(error.to_string(), expected("tool_results[0].content[0]"));
    let view = runtime.sessions().read(id).await.unwrap();
    assert_eq!((view.message_count, seer.seen.lock().unwrap().len()), (2, 1), "nothing was run");
}

#[tokio::test]
async fn unreadable_images_are_not_sent() {
    let blind = Seer::new(ModelProfile::default(), Provider::OpenAi);
    run(&runtime(&blind, RuntimeOptions::default()), asking(vec![inline(PIXEL)])).await;
    assert_eq!(blind.saw(0)[0]["source"], "blob");

    let claude = Seer::new(seeing(), Provider::Anthropic);
    let huge = "AAAA".repeat(2 * 1024 * 1024);
    run(&runtime(&claude, RuntimeOptions::default()), asking(vec![inline(&huge)])).await;
    let placeholder = "[image: image/png] (too large for this model to read)";
    assert_eq!(claude.saw(0), json!(placeholder));
}

#[tokio::test]
async fn tool_images_are_stored_and_sent() {
    let snap = FnTool::new("snap", |_| async {
        ToolOutput { content: Content::from(vec![inline(PIXEL)]), ..ToolOutput::text("") }
    });
    let seer = Seer::new(seeing(), Provider::OpenAi);
    let options = RuntimeOptions { tool_sources: vec![Tools::new([snap])], ..RuntimeOptions::default() };
    let runtime = runtime(&seer, options);
    let id = run(&runtime, asking(vec![words("snap")])).await;
    assert_eq!(seer.saw(2)[0]["data"], PIXEL);
    let history = runtime.sessions().history(id, 0, None).await.unwrap();
    let Message::ToolResults { results, .. } = &history.messages[2] else { panic!("{history:?}") };
    assert!(matches!(
        results[0].content.blocks(),
        [ContentBlock::Image { source: MediaSource::Blob { .. }, .. }]
    ));
}

#[tokio::test]
async fn tool_audio_is_stored_with_a_placeholder() {
    let speak = FnTool::new("speak", |_| async {
        let source = MediaSource::Inline { data: PIXEL.to_owned() };
        let audio = ContentBlock::File { media_type: "audio/wav".to_owned(), source };
        ToolOutput { content: Content::from(vec![audio]), ..ToolOutput::text("") }
    });
    let seer = Seer::new(seeing(), Provider::OpenAi);
    let options = RuntimeOptions { tool_sources: vec![Tools::new([speak])], ..RuntimeOptions::default() };
    let runtime = runtime(&seer, options);
    let id = run(&runtime, asking(vec![words("speak")])).await;
    let history = runtime.sessions().history(id, 0, None).await.unwrap();
    let Message::ToolResults { results, .. } = &history.messages[2] else { panic!("{history:?}") };
    let [ContentBlock::File { media_type, source: MediaSource::Blob { blob_id } }] =
        results[0].content.blocks()
    else {
        panic!("{results:?}");
    };
    assert_eq!(media_type, "audio/wav");
    assert_eq!(results[0].content.to_text(), format!("[file: audio/wav, stored as {blob_id}]"));
    let blob = runtime.blob(blob_id).await.unwrap();
    assert_eq!((blob.media_type.as_str(), blob.data.as_slice()), ("audio/wav", &b"\x89PNG\r\n\x1a\n"[..]));
    let expected = json!([{"type": "file", "media_type": "audio/wav", "source": "blob", "blob_id": blob_id}]);
    assert_eq!(seer.saw(2), expected, "the provider receives a placeholder");
}

#[tokio::test]
async fn operations_accept_text_or_blocks_as_prompt() {
    let seer = Seer::new(seeing(), Provider::OpenAi);
    let runtime = runtime(&seer, RuntimeOptions::default());
    let call = || operations::Call { runtime: runtime.clone(), control: Default::default() };
    let run = operations::find("meerkat_run").unwrap();
    let resume = operations::find("meerkat_resume").unwrap();
    let image = json!({"type": "image", "media_type": "image/png", "source": "inline", "data": PIXEL});
    let reply = run.call(call(), json!({"prompt": [image], "model": "seer"})).await.unwrap();
    let session = &reply.json["session_id"];
    assert_eq!(seer.saw(0), json!([image]));
    resume
        .call(call(), json!({"session_id": session, "prompt": [image, {"type": "text", "text": "?"}]}))
        .await
        .unwrap();
    assert_eq!(seer.saw(2), json!([image, {"type": "text", "text": "?"}]));

    let cases = [
        (json!(5), "`prompt`: invalid type: integer `5`, expected a string or a list of content blocks"),
        (
            json!([{"type": "image", "media_type": "image/png", "source": "inline", "data": "?"}]),
            "`prompt[0].data` is not base64",
        ),
        (
            json!([{"type": "sound"}]),
            "`prompt[0].type`: unknown variant `sound`, expected one of `text`, `image`, `video`, `file`",
        ),
    ];
    for (prompt, message) in cases {
        let error = run.call(call(), json!({"prompt": prompt, "model": "seer"})).await.unwrap_err();
        assert_eq!(error.body().message, message);
    }
}

#[tokio::test]
async fn callback_tool_can_return_an_image() {
    let seer = Seer::new(seeing(), Provider::OpenAi);
    let runtime = runtime(&seer, RuntimeOptions::default());
    let tool = crate::world::client_tool("ask_user", None);
    let turn = TurnOptions { tools: Some(vec![tool]), ..asking(vec![words("ask")]) };
    let done = runtime.sessions().create(Default::default(), turn, Default::default()).await.unwrap();
    assert!(matches!(done.report.outcome, Outcome::Pending(_)));
    let image = json!({"type": "image", "media_type": "image/png", "source": "inline", "data": PIXEL});
    let results = json!([{"tool_use_id": "c", "content": [image]}]);
    let call = operations::Call { runtime, control: Default::default() };
    let input = json!({"session_id": done.session_id, "tool_results": results});
    operations::find("meerkat_resume").unwrap().call(call, input).await.unwrap();
    assert_eq!(seer.saw(2), json!([image]));
}
