//! A model that follows a test's script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use meerkat_core::{
    AssistantBlock, BoxFuture, Delta, DeltaSink, Message, Model, ModelError, ModelErrorKind, ModelInfo,
    ModelRequest, ModelResponse, Provider, ResponseStatus, StopReason, Usage,
};
use serde_json::Value;
use tokio::sync::{Notify, watch};

/// Scripted response to one model call.
#[derive(Debug, Clone)]
pub enum Script {
    /// Responds with text.
    Say(String),
    /// Requests tool calls: ids, names, and arguments.
    Call(Vec<(String, String, Value)>),
    /// Fails.
    Fail(ModelErrorKind),
    /// Blocks until [`ScriptedModel::release`] is called.
    Hang,
    /// Streams this text and then blocks.
    Stall(String),
    /// Panics.
    Panic,
}

impl Script {
    /// Creates a text response.
    #[must_use]
    pub fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }

    /// Creates a response that streams text and then blocks.
    #[must_use]
    pub fn stall(text: &str) -> Self {
        Self::Stall(text.to_owned())
    }

    /// Creates a response that calls one tool.
    #[must_use]
    pub fn call(id: &str, name: &str, args: Value) -> Self {
        Self::Call(vec![(id.to_owned(), name.to_owned(), args)])
    }
}

/// A request the model received, with one line for each message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The system prompt.
    pub system: String,
    /// `role: text` of each message.
    pub lines: Vec<String>,
    /// Names of the tools.
    pub tools: Vec<String>,
}

/// A model that follows a script; after the end of the script it responds `done`.
pub struct ScriptedModel {
    info: ModelInfo,
    script: Mutex<VecDeque<Script>>,
    seen: Mutex<Vec<RecordedRequest>>,
    request_count: watch::Sender<usize>,
    released: Notify,
}

impl ScriptedModel {
    /// Its model id.
    pub const ID: &'static str = "scripted";

    /// Creates a model that follows the script.
    #[must_use]
    pub fn new(script: impl IntoIterator<Item = Script>) -> Arc<Self> {
        Self::with_window(script, 100_000)
    }

    /// Creates a model with a context window of `context_window` tokens.
    #[must_use]
    pub fn with_window(script: impl IntoIterator<Item = Script>, context_window: u64) -> Arc<Self> {
        let info = ModelInfo::new(Self::ID, Provider::Other);
        Self::with_info(ModelInfo { context_window: Some(context_window), ..info }, script)
    }

    /// Creates a model with other properties, such as another id.
    #[must_use]
    pub fn with_info(info: ModelInfo, script: impl IntoIterator<Item = Script>) -> Arc<Self> {
        Arc::new(Self {
            info,
            script: Mutex::new(script.into_iter().collect()),
            seen: Mutex::default(),
            request_count: watch::Sender::new(0),
            released: Notify::new(),
        })
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn seen(&self) -> Vec<RecordedRequest> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has received `count` requests in total.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut count_changes = self.request_count.subscribe();
        count_changes.wait_for(|seen| *seen >= count).await.expect("the model still exists");
    }

    /// Unblocks one blocked call.
    pub fn release(&self) {
        self.released.notify_one();
    }

    fn next(&self) -> Script {
        let next = self.script.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.unwrap_or_else(|| Script::say("done"))
    }

    async fn follow(&self, script: Script, deltas: DeltaSink<'_>) -> Result<ModelResponse, ModelError> {
        let text = match script {
            Script::Say(text) => {
                deltas(Delta::Text(text.clone()));
                text
            }
            Script::Call(calls) => {
                let block = |(id, name, args)| AssistantBlock::ToolUse { id, name, args, meta: None };
                return Ok(response(calls.into_iter().map(block).collect(), StopReason::ToolUse));
            }
            Script::Fail(kind) => {
                let (provider, message) = (Provider::Other, "as scripted".to_owned());
                return Err(ModelError { kind, provider, status: None, retry_after: None, message });
            }
            Script::Hang => self.wait_for_release().await,
            Script::Stall(text) => {
                deltas(Delta::Text(text));
                self.wait_for_release().await
            }
            Script::Panic => panic!("as scripted"),
        };
        Ok(response(vec![AssistantBlock::Text { text, meta: None }], StopReason::EndTurn))
    }

    async fn wait_for_release(&self) -> String {
        self.released.notified().await;
        "released".to_owned()
    }
}

fn response(blocks: Vec<AssistantBlock>, stop_reason: StopReason) -> ModelResponse {
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    ModelResponse { blocks, stop_reason, extent: ResponseStatus::Complete, usage }
}

impl Model for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(RecordedRequest {
                system: request.system.clone(),
                lines: request.messages.iter().map(|message| message_line(message)).collect(),
                tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            });
            self.request_count.send_modify(|count| *count += 1);
            self.follow(self.next(), deltas).await
        })
    }
}

/// Formats a message as one line: its role, text, and calls.
#[must_use]
pub fn message_line(message: &Message) -> String {
    match message {
        Message::System { content, .. } => format!("system: {content}"),
        Message::SystemNotice { body, .. } => format!("notice: {body}"),
        Message::User { content, .. } => format!("user: {}", content.to_text()),
        Message::Assistant { .. } if message.is_interrupted() => {
            format!("cancelled: {}", message.assistant_text().unwrap_or_default())
        }
        Message::Assistant { .. } => {
            let calls: Vec<_> =
                message.tool_calls().iter().map(|call| format!("{}#{}", call.name, call.id)).collect();
            let text = message.assistant_text().unwrap_or_default();
            if calls.is_empty() {
                format!("assistant: {text}")
            } else {
                format!("assistant: {text}[{}]", calls.join(", "))
            }
        }
        Message::ToolResults { results, .. } => {
            let result = |r: &meerkat_core::ToolResult| format!("{}={}", r.tool_use_id, r.content.to_text());
            format!("results: {}", results.iter().map(result).collect::<Vec<_>>().join(", "))
        }
    }
}
