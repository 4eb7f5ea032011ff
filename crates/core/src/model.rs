//! The model port: one streamed call, and its errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AssistantBlock, BoxFuture, Message, OutputSchema, StopReason, ToolDef, Usage};

/// Provider of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Anthropic.
    Anthropic,
    /// OpenAI.
    #[serde(rename = "openai")]
    OpenAi,
    /// Google Gemini.
    Gemini,
    /// A self-hosted server.
    SelfHosted,
    /// Any other provider, including the offline model.
    Other,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 5] = [Self::Anthropic, Self::OpenAi, Self::Gemini, Self::SelfHosted, Self::Other];

    /// Returns the name used everywhere, on the wire and in the config.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
            Self::SelfHosted => "self_hosted",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Properties of a model that the runtime depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Id of the model.
    pub id: String,
    /// Provider that serves the model.
    pub provider: Provider,
    /// Maximum input size in tokens, if known.
    pub context_window: Option<u64>,
    /// Maximum output size in tokens, if known.
    pub max_output_tokens: Option<u32>,
    /// Time after which a call that receives nothing has failed, unless the config sets one.
    pub call_timeout: Option<Duration>,
    /// Features of the model.
    pub profile: ModelProfile,
}

/// Features of a model that requests depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the public catalog")]
pub struct ModelProfile {
    /// If true, the model accepts a temperature.
    pub supports_temperature: bool,
    /// If true, the model can think before it answers.
    pub supports_thinking: bool,
    /// If true, the model reasons with a configurable effort.
    pub supports_reasoning: bool,
    /// If true, its provider can search the web.
    pub supports_web_search: bool,
    /// If true, the model accepts images in user messages.
    pub vision: bool,
    /// If true, the model accepts images in tool results.
    pub image_tool_results: bool,
    /// If true, the model accepts video in user messages.
    pub inline_video: bool,
}

impl ModelInfo {
    /// Creates the description of a model of which only the name is known.
    pub fn new(id: impl Into<String>, provider: Provider) -> Self {
        Self {
            id: id.into(),
            provider,
            context_window: None,
            max_output_tokens: None,
            call_timeout: None,
            profile: ModelProfile::default(),
        }
    }
}

/// A request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// System prompt.
    pub system: String,
    /// Conversation so far.
    pub messages: Vec<Arc<Message>>,
    /// Tools the model may call; empty during extraction and compaction.
    pub tools: Arc<[ToolDef]>,
    /// Maximum output tokens.
    pub max_tokens: u32,
    /// Sampling temperature, for models that support it.
    pub temperature: Option<f32>,
    /// Schema for structured output, if requested.
    pub output_schema: Option<Arc<OutputSchema>>,
    /// Extra parameters from the caller for this provider.
    pub provider_params: Option<Arc<Value>>,
}

/// A streamed piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Bytes that may not be text yet. They show that the provider is still responding.
    Received,
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A tool was omitted from the request because the provider would reject it.
    ToolOmitted {
        /// Name of the tool.
        tool: String,
        /// Reason for the omission.
        reason: String,
    },
}

/// A complete response.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// Parts of the response, in order.
    pub blocks: Vec<AssistantBlock>,
    /// Reason the response ended.
    pub stop_reason: StopReason,
    /// Whether the provider has finished the response.
    pub extent: ResponseStatus,
    /// Tokens used.
    pub usage: Usage,
}

/// Maximum nesting of values in a response: stored messages must be parseable with everything that wraps them.
const MAX_NESTING: usize = 96;

impl ModelResponse {
    /// Returns `true` if a value is nested too deeply to be stored.
    #[must_use]
    pub fn exceeds_max_depth(&self) -> bool {
        let is_deep = |value: &Value| is_deeper(value, MAX_NESTING);
        self.blocks.iter().any(|block| match block {
            AssistantBlock::Text { meta, .. } | AssistantBlock::Reasoning { meta, .. } => {
                meta.as_ref().is_some_and(is_deep)
            }
            AssistantBlock::ToolUse { args: value, meta, .. }
            | AssistantBlock::ServerToolContent { content: value, meta, .. } => {
                is_deep(value) || meta.as_ref().is_some_and(is_deep)
            }
            AssistantBlock::Image(_) => false,
        })
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let deeper = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(list) => list.iter().any(deeper),
        Value::Object(object) => object.values().any(deeper),
        _ => false,
    }
}

/// Whether the provider has finished a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResponseStatus {
    /// The response is complete.
    #[default]
    Complete,
    /// The provider's own tools are still running; sending the response back unchanged continues it.
    Paused,
}

/// Callback that receives the pieces of a response as they stream in.
pub type DeltaSink<'a> = &'a (dyn Fn(Delta) + Send + Sync);

/// A model that can be called.
pub trait Model: Send + Sync {
    /// Returns the description of the model.
    fn info(&self) -> &ModelInfo;

    /// Calls the model once. Nothing is retried here; dropping the future cancels the call.
    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
}

/// Error of a model call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", provider_prefix(*.provider))]
pub struct ModelError {
    /// Kind of failure; the only field that policy depends on.
    pub kind: ModelErrorKind,
    /// Provider that failed.
    pub provider: Provider,
    /// HTTP status, if any.
    pub status: Option<u16>,
    /// Delay requested by the provider.
    pub retry_after: Option<Duration>,
    /// Human-readable description.
    pub message: String,
}

/// Returns the prefix that names the provider; empty for `other`.
fn provider_prefix(provider: Provider) -> String {
    if provider == Provider::Other { String::new() } else { format!("{provider}: ") }
}

/// Kinds of model call failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// Too many requests.
    RateLimited,
    /// The provider is overloaded.
    Overloaded,
    /// The network timed out.
    NetworkTimeout,
    /// The call exceeded its time limit.
    CallTimeout,
    /// The connection failed or broke.
    Connection,
    /// The provider reported an internal error.
    Server,
    /// The stream ended before the response was complete.
    StreamCut,
    /// The response was empty.
    Incomplete,
    /// The response could not be parsed.
    Malformed,
    /// The conversation exceeds the model's context window.
    ContextOverflow,
    /// The credentials are missing or invalid.
    Auth,
    /// The request was rejected.
    BadRequest,
    /// The provider's content filter rejected the request.
    ContentFilter,
}
