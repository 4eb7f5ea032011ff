//! Tools: their outputs, and the ports through which a run finds and calls them.
//!
//! A failing tool returns an error result, which the model reads; it never ends the run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::event::JobStatus;
use crate::{
    AssistantImage, BoxFuture, Content, Redactor, RunId, SessionId, ToolCall, ToolConfigChange, ToolDef,
    ToolImpact, ToolResult, TraceContext,
};

/// Maximum length of a text in a tool result, in bytes.
const MAX_RESULT: usize = 400 * 1024;

fn head_and_tail(text: &str) -> String {
    let head = text.floor_char_boundary(MAX_RESULT / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - MAX_RESULT / 4);
    let omitted = tail - head;
    format!("{}\n[… {omitted} bytes omitted …]\n{}", &text[..head], &text[tail..])
}

/// Output of a tool; the run adds the call id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Content of the result.
    pub content: Content,
    /// Whether the call failed.
    pub is_error: bool,
    /// Generated images; they become part of the conversation.
    pub images: Vec<AssistantImage>,
}

/// The result of a call with its images, as stored until the step is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedCall {
    /// The result.
    #[serde(flatten)]
    pub result: ToolResult,
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<AssistantImage>,
}

impl From<ToolResult> for CompletedCall {
    fn from(result: ToolResult) -> Self {
        Self { result, images: Vec::new() }
    }
}

/// Reason a tool call failed, as reported to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFailure {
    /// No tool has this name, or it is hidden.
    NotFound,
    /// The tool exists but is currently unavailable.
    Unavailable,
    /// The arguments are invalid.
    InvalidArguments,
    /// The tool ran and failed.
    ExecutionFailed,
    /// The tool timed out.
    Timeout,
    /// The tool must not be called.
    AccessDenied,
    /// The run ended while the tool was running.
    Interrupted,
    /// A budget is exhausted.
    BudgetExhausted,
    /// The caller sent new input instead of its result.
    Superseded,
    /// The call was not approved.
    NotApproved,
}

impl ToolFailure {
    /// Returns the code that the model reads.
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
    /// Creates a successful output with one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Content::text(text), is_error: false, images: Vec::new() }
    }

    /// Creates a failure that the model can read and act on.
    #[must_use]
    pub fn failure(failure: ToolFailure, message: &str) -> Self {
        let text = json!({ "error": failure.code(), "message": message }).to_string();
        Self { content: Content::text(text), is_error: true, images: Vec::new() }
    }

    /// Truncates texts that are too long for the model: head and tail stay, with a note of how many bytes were omitted.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.content.change_texts(|text| {
            if text.len() > MAX_RESULT {
                *text = head_and_tail(text);
            }
        });
        self
    }

    /// Removes secrets from the texts.
    pub fn redact(&mut self, redactor: &Redactor) {
        self.content.change_texts(|text| redactor.redact_text(text));
    }

    /// Turns the output into the result of a call, with its images.
    pub fn into_completed_call(mut self, call: impl Into<String>) -> CompletedCall {
        let images = std::mem::take(&mut self.images);
        CompletedCall { result: self.into_result(call), images }
    }

    /// Turns the output into the result of a call.
    pub fn into_result(self, call: impl Into<String>) -> ToolResult {
        ToolResult { tool_use_id: call.into(), content: self.content, is_error: self.is_error }
    }
}

/// Runner of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRoute {
    /// The runtime.
    Local,
    /// The caller, who provides the result when resuming the session.
    Callback,
    /// The runtime, once the call is approved. It has not been started.
    Approval,
}

/// A call passed to a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// Session of the call.
    pub session_id: SessionId,
    /// Run of the call.
    pub run_id: RunId,
    /// The call.
    pub call: ToolCall,
    /// Position in a trace, if the call is traced.
    pub trace: Option<Arc<TraceContext>>,
}

/// A tool that the model can call.
pub trait Tool: Send + Sync {
    /// Returns the definition of the tool.
    fn def(&self) -> &ToolDef;

    /// Returns the impact of the tool. By default, a tool may do anything.
    fn impact(&self) -> ToolImpact {
        ToolImpact::Destructive
    }

    /// Runs the tool. A failure is an output, too; dropping the future must stop the work.
    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput>;
}

/// A background job that finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedJob {
    /// Id of the job.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Final status.
    pub status: JobStatus,
    /// Human-readable status.
    pub detail: String,
}

/// A source of tools.
///
/// A run reads the list again at every step, so a source may change its tools between two steps, never within one.
pub trait ToolSource: Send + Sync {
    /// Returns the tools available now.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Applies changes that are pending until the run is between two steps, and returns all changes since the
    /// previous call. A source that never changes returns none.
    fn apply_changes(&self) -> Vec<ToolConfigChange> {
        Vec::new()
    }

    /// Returns a notice for the model about tools that are still loading; `None` when all are available.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Returns the background jobs that finished since the previous call.
    fn take_finished_jobs(&self) -> Vec<FinishedJob> {
        Vec::new()
    }
}
