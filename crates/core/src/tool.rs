//! Tools: what they are called, how they are called, and the ports through which a run finds and calls them.
//!
//! A tool that fails gives an error result, which the model reads; it never ends the run.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::JobStatus;
use crate::{
    AssistantImage, BoxFuture, Content, ContentBlock, Redactor, RunId, SessionId, ToolConfigChange,
    ToolImpact, TraceContext,
};

/// What the model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDef {
    /// The name the model calls it by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// A call the model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The call's id, unique in its step.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The call's id.
    pub tool_use_id: String,
    /// What came of it.
    pub content: Content,
    /// Whether it failed.
    #[serde(default)]
    pub is_error: bool,
}

/// The longest text of a tool result, in bytes.
const MAX_RESULT: usize = 400 * 1024;

fn head_and_tail(text: &str) -> String {
    let head = text.floor_char_boundary(MAX_RESULT / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - MAX_RESULT / 4);
    let left_out = tail - head;
    format!("{}\n[… {left_out} bytes left out …]\n{}", &text[..head], &text[tail..])
}

/// What a tool gives back; the id is added by the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// What came of it.
    pub content: Content,
    /// Whether it failed.
    pub is_error: bool,
    /// The images it made; they become part of the conversation.
    pub images: Vec<AssistantImage>,
}

/// The result of a call and the images that came with it, as they are kept until the step is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The result.
    #[serde(flatten)]
    pub result: ToolResult,
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<AssistantImage>,
}

impl From<ToolResult> for Settled {
    fn from(result: ToolResult) -> Self {
        Self { result, images: Vec::new() }
    }
}

/// Why a tool call failed, as the model is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFailure {
    /// No tool has that name, or it is hidden.
    NotFound,
    /// The tool exists but cannot be reached now.
    Unavailable,
    /// The arguments do not fit.
    InvalidArguments,
    /// It ran and failed.
    ExecutionFailed,
    /// It took too long.
    Timeout,
    /// It may not be called.
    AccessDenied,
    /// The run ended while it was at work.
    Interrupted,
    /// A budget left no room for it.
    BudgetExhausted,
    /// The caller sent new input instead of its result.
    Superseded,
    /// Somebody was asked and did not approve it.
    NotApproved,
}

impl ToolFailure {
    /// Returns the code the model reads.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotFound => "tool_not_found",
            Self::Unavailable => "tool_unavailable",
            Self::InvalidArguments => "invalid_arguments",
            Self::ExecutionFailed => "execution_failed",
            Self::Timeout => "timeout",
            Self::AccessDenied => "access_denied",
            Self::Interrupted => "interrupted",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Superseded => "superseded",
            Self::NotApproved => "not_approved",
        }
    }
}

impl ToolOutput {
    /// Makes a success of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Content::text(text), is_error: false, images: Vec::new() }
    }

    /// Makes a failure that the model can read and act on.
    #[must_use]
    pub fn failure(failure: ToolFailure, message: &str) -> Self {
        let text = json!({ "error": failure.code(), "message": message }).to_string();
        Self { content: Content::text(text), is_error: true, images: Vec::new() }
    }

    /// Cuts texts that are longer than the model should read: the head and the tail stay, and what was left out
    /// is said.
    #[must_use]
    pub fn bounded(self) -> Self {
        let cut = |block: &ContentBlock| match block {
            ContentBlock::Text { text } if text.len() > MAX_RESULT => {
                ContentBlock::Text { text: head_and_tail(text) }
            }
            other => other.clone(),
        };
        let blocks: Vec<_> = self.content.blocks().iter().map(cut).collect();
        Self { content: Content::from(blocks), ..self }
    }

    /// Takes secrets out of its texts.
    pub fn redact(&mut self, redactor: &Redactor) {
        let is_clean = |block: &ContentBlock| match block {
            ContentBlock::Text { text } => matches!(redactor.redact(text), Cow::Borrowed(_)),
            _ => true,
        };
        if self.content.blocks().iter().all(is_clean) {
            return;
        }
        let mut blocks = self.content.blocks().to_vec();
        for block in &mut blocks {
            if let ContentBlock::Text { text } = block {
                redactor.redact_text(text);
            }
        }
        self.content = Content::from(blocks);
    }

    /// Makes it the answer to a call, with its images.
    pub fn settling(mut self, call: impl Into<String>) -> Settled {
        let images = std::mem::take(&mut self.images);
        Settled { result: self.answering(call), images }
    }

    /// Makes it the answer to a call.
    pub fn answering(self, call: impl Into<String>) -> ToolResult {
        ToolResult { tool_use_id: call.into(), content: self.content, is_error: self.is_error }
    }
}

/// Who runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRoute {
    /// The runtime does.
    Local,
    /// Whoever started the run does, and gives the result when resuming.
    Callback,
    /// The runtime does, once somebody has approved it. It has not been started.
    Approval,
}

/// A call on its way to a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// The session it is made for.
    pub session_id: SessionId,
    /// The run it is made in.
    pub run_id: RunId,
    /// The call.
    pub call: ToolCall,
    /// Where it stands in a trace, if it is traced.
    pub trace: Option<Arc<TraceContext>>,
}

/// Something the model can call.
pub trait Tool: Send + Sync {
    /// Describes the tool.
    fn def(&self) -> &ToolDef;

    /// Says what it may do to the world. A tool that does not say may do anything.
    fn impact(&self) -> ToolImpact {
        ToolImpact::Destructive
    }

    /// Runs it. Failure is an output too; dropping the future must stop the work.
    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput>;
}

/// Work in the background that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedJob {
    /// The job's id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// How it ended.
    pub status: JobStatus,
    /// How it ended, in words.
    pub detail: String,
}

/// Where tools come from.
///
/// A run asks again at every step, so a source may change what it offers between two steps, never inside one.
pub trait ToolSource: Send + Sync {
    /// Lists the tools on offer now.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Makes the changes that wait for a run to be between two steps, and tells of all that changed since it
    /// was asked the last time. A source that never changes has nothing to tell.
    fn settle(&self) -> Vec<ToolConfigChange> {
        Vec::new()
    }

    /// Returns a notice for the model about tools that are still to come; `None` when all are there.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Tells of work in the background that ended since it was asked the last time.
    fn finished(&self) -> Vec<FinishedJob> {
        Vec::new()
    }
}
