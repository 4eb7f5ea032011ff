//! Outcomes of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ApprovalRequest, ErrorClass, TerminalCause, ToolCall, Usage, Usd};

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The model answered, or a budget ended the run.
    Completed(Completion),
    /// The caller must handle these calls.
    Pending(Pending),
    /// The run failed; commits are kept.
    Failed(Failure),
    /// The run was interrupted; commits are kept.
    Cancelled,
}

/// Calls that a run leaves to its caller, in call order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pending {
    /// Calls for the caller to run.
    pub calls: Vec<ToolCall>,
    /// Calls for the caller to approve or deny.
    pub approvals: Vec<ApprovalRequest>,
}

/// Outcome of a successful run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// Last text written by the model.
    pub text: String,
    /// Structured output, if requested and valid.
    pub structured_output: Option<Value>,
    /// Error of the structured output, if requested and invalid.
    pub extraction_error: Option<ExtractionError>,
    /// Cause of the end, if not the model.
    pub cause: Option<TerminalCause>,
    /// Error of the last model call, if the run ended before a retry.
    pub last_failure: Option<String>,
}

/// End of a run, in the form that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEnd {
    /// The model answered, or a budget ended the run.
    Completed,
    /// The caller must run calls and provide their results.
    Pending,
    /// The run failed.
    Failed {
        /// Class of the failure.
        class: ErrorClass,
        /// Cause of the end.
        cause: TerminalCause,
    },
    /// The run was interrupted.
    Cancelled,
}

impl From<&Outcome> for RunEnd {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Completed(_) => Self::Completed,
            Outcome::Pending(_) => Self::Pending,
            Outcome::Failed(failure) => Self::Failed { class: failure.class, cause: failure.cause },
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

/// Reason the structured output is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtractionError {
    /// Last output of the model.
    pub last_output: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Reason the output is invalid.
    pub reason: String,
}

/// A failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Class of the failure.
    pub class: ErrorClass,
    /// Cause of the end.
    pub cause: TerminalCause,
    /// Human-readable description.
    pub message: String,
}

/// Result and totals of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Number of completed model calls, including those for summaries and structured output.
    pub steps: u32,
    /// Number of tool calls that were run.
    pub tool_calls: u32,
    /// Tokens used by the session so far.
    pub usage: Usage,
    /// Cost of the session so far, if the model's price is known.
    pub cost: Option<Usd>,
}
