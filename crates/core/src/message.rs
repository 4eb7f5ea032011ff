//! The transcript's rows. What is stored is what history shows: the serde form of these types is both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BlobId, Content, Timestamp, ToolCall, ToolResult};

/// One row of a session's transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions to the model.
    System {
        /// The text.
        content: String,
        /// When it was written.
        #[schemars(with = "String")]
        created_at: Timestamp,
    },
    /// A note from the runtime to the model.
    SystemNotice {
        /// What it is about.
        kind: NoticeKind,
        /// The text.
        body: String,
        /// When it was written.
        #[schemars(with = "String")]
        created_at: Timestamp,
    },
    /// What the user said.
    User {
        /// The content.
        content: Content,
        /// When it was said.
        #[schemars(with = "String")]
        created_at: Timestamp,
    },
    /// What the model answered in one step.
    #[serde(rename = "block_assistant")]
    Assistant {
        /// The parts of the answer, in order.
        blocks: Vec<AssistantBlock>,
        /// Why it ended.
        stop_reason: StopReason,
        /// When it ended.
        #[schemars(with = "String")]
        created_at: Timestamp,
    },
    /// The results of every tool call of the step before, in call order.
    ToolResults {
        /// The results.
        results: Vec<ToolResult>,
        /// When the last one was in.
        #[schemars(with = "String")]
        created_at: Timestamp,
    },
}

/// What a system notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Anything else.
    Generic,
    /// MCP servers that are still connecting.
    McpPending,
    /// A background job that ended.
    BackgroundJob,
    /// Tools that came or went.
    ToolScope,
    /// A tool change that was refused.
    ToolScopeWarning,
    /// Credentials that ran out.
    AuthReauthRequired,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it wanted.
    EndTurn,
    /// It wants tools to be run.
    ToolUse,
    /// It reached the output limit.
    MaxTokens,
    /// It produced a stop sequence.
    StopSequence,
    /// The provider's filter cut it off.
    ContentFilter,
    /// The run was interrupted; the answer has the text streamed until then, or none.
    Cancelled,
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "block_type", content = "data", rename_all = "snake_case")]
pub enum AssistantBlock {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// The model's reasoning, as far as the provider shows it.
    Reasoning {
        /// The text.
        text: String,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// A tool call.
    ToolUse {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments: always an object.
        args: Value,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// What a tool on the provider's side produced.
    ServerToolContent {
        /// The provider's id of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool's name.
        name: String,
        /// The content in the provider's form.
        content: Value,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// An image the model made.
    Image(AssistantImage),
}

/// An image the model made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantImage {
    /// Its id in the session.
    pub image_id: String,
    /// Where the bytes are.
    pub blob_ref: BlobRef,
    /// Its MIME type.
    pub media_type: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// The prompt as the provider rewrote it.
    pub revised_prompt: Option<String>,
    /// What the provider wants back with it.
    pub meta: Option<Value>,
}

/// A blob and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobRef {
    /// The blob's id.
    pub blob_id: BlobId,
    /// Its MIME type.
    pub media_type: String,
}

impl Message {
    /// Returns the tool calls of an assistant message, in order.
    #[must_use]
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        let Self::Assistant { blocks, .. } = self else {
            return Vec::new();
        };
        let call = |block: &AssistantBlock| match block {
            AssistantBlock::ToolUse { id, name, args, .. } => {
                Some(ToolCall { id: id.clone(), name: name.clone(), args: args.clone() })
            }
            _ => None,
        };
        blocks.iter().filter_map(call).collect()
    }

    /// Returns true if this is an answer that an interrupt cut short.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        matches!(self, Self::Assistant { stop_reason: StopReason::Cancelled, .. })
    }

    /// Returns the text of an assistant message; `None` for any other, or when it has none.
    #[must_use]
    pub fn assistant_text(&self) -> Option<String> {
        let Self::Assistant { blocks, .. } = self else {
            return None;
        };
        let text = |block: &AssistantBlock| match block {
            AssistantBlock::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        let parts: Vec<_> = blocks.iter().filter_map(text).collect();
        (!parts.is_empty()).then(|| parts.join(""))
    }
}
