//! The model port: one call, streamed, and what can go wrong with it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AssistantBlock, BoxFuture, Message, OutputSchema, StopReason, ToolDef, Usage};

/// Who serves a model.
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
    /// A server of the user's own.
    SelfHosted,
    /// Anything else, the offline model included.
    Other,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 5] = [Self::Anthropic, Self::OpenAi, Self::Gemini, Self::SelfHosted, Self::Other];

    /// Returns the name used everywhere.
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

/// What a runtime needs to know of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its id.
    pub id: String,
    /// Who serves it.
    pub provider: Provider,
    /// How many tokens it can read at once; `None` where nobody knows.
    pub context_window: Option<u64>,
    /// How many tokens it can write at once; `None` where nobody knows.
    pub max_output_tokens: Option<u32>,
    /// How long one call may take, unless the config says otherwise.
    pub call_timeout: Option<Duration>,
    /// What it can do.
    pub profile: ModelProfile,
}

/// What a model can do, as far as requests to it depend on that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the public catalog")]
pub struct ModelProfile {
    /// It takes a temperature.
    pub supports_temperature: bool,
    /// It can be told to think before it answers.
    pub supports_thinking: bool,
    /// It reasons, with a settable effort.
    pub supports_reasoning: bool,
    /// Its provider can search the web for it.
    pub supports_web_search: bool,
    /// It reads images in what the user says.
    pub vision: bool,
    /// It reads images in tool results.
    pub image_tool_results: bool,
    /// It reads video in what the user says.
    pub inline_video: bool,
}

impl ModelInfo {
    /// Describes a model of which nothing but its name is known.
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

/// One request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The instructions.
    pub system: String,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// The tools it may call; none during extraction and compaction.
    pub tools: Arc<[ToolDef]>,
    /// How many tokens it may write.
    pub max_tokens: u32,
    /// How freely it may choose words, where the model can be told.
    pub temperature: Option<f32>,
    /// The schema its answer must fit, where one is asked for.
    pub output_schema: Option<Arc<OutputSchema>>,
    /// What the caller wants to pass to this provider.
    pub provider_params: Option<Arc<Value>>,
}

/// A piece of an answer, as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A tool that this provider would refuse was left out of the request.
    ToolLeftOut {
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its parts, in order.
    pub blocks: Vec<AssistantBlock>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Whether it is all the provider has to say.
    pub extent: Extent,
    /// What it cost.
    pub usage: Usage,
}

/// How deep the values of an answer may nest: what is stored must be readable again with all that is around it.
const MAX_NESTING: usize = 96;

impl Answer {
    /// Says whether its values nest deeper than what is stored may.
    #[must_use]
    pub fn nests_too_deep(&self) -> bool {
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

/// Whether an answer is all the provider has to say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// It is.
    #[default]
    Whole,
    /// Its provider's own tools are still at work: sent back as it is, it goes on.
    Paused,
}

/// Takes the pieces of an answer while it is being made.
pub type DeltaSink<'a> = &'a (dyn Fn(Delta) + Send + Sync);

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// Describes the model.
    fn info(&self) -> &ModelInfo;

    /// Asks once. Nothing is retried here; dropping the future abandons the call.
    fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Answer, ModelError>>;
}

/// What went wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", named(*.provider))]
pub struct ModelError {
    /// What sort of failure it is; the only thing policy looks at.
    pub kind: ModelErrorKind,
    /// Who failed.
    pub provider: Provider,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the provider asked us to wait.
    pub retry_after: Option<Duration>,
    /// What happened, for people.
    pub message: String,
}

/// Says who failed, where that has a name.
fn named(provider: Provider) -> String {
    if provider == Provider::Other { String::new() } else { format!("{provider}: ") }
}

/// The sorts of failure of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// Too many requests.
    RateLimited,
    /// The provider has no room now.
    Overloaded,
    /// The network did not answer in time.
    NetworkTimeout,
    /// The call took longer than allowed.
    CallTimeout,
    /// The connection failed or broke.
    Connection,
    /// The provider failed.
    Server,
    /// The stream ended before the answer did.
    StreamCut,
    /// The answer had nothing in it.
    Incomplete,
    /// The answer could not be read.
    Malformed,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The credentials are missing or wrong.
    Auth,
    /// The request was refused.
    BadRequest,
    /// The provider's filter refused.
    ContentFilter,
}
