//! How a run ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AwaitedCall, ErrorClass, TerminalCause, ToolCall, Usage, Usd};

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The model answered, or a budget ended the run.
    Completed(Completion),
    /// The caller has to see to these calls.
    Pending(Pending),
    /// It failed; what was committed stays.
    Failed(Failure),
    /// It was interrupted; what was committed stays.
    Cancelled,
}

/// The calls that a run leaves to its caller, in call order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pending {
    /// Those that the caller runs and gives the results of.
    pub calls: Vec<ToolCall>,
    /// Those that the caller approves or denies.
    pub approvals: Vec<AwaitedCall>,
}

/// A run that ended well.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// The last text the model wrote.
    pub text: String,
    /// The structured output, if one was asked for and had.
    pub structured_output: Option<Value>,
    /// Why there is none, if one was asked for and not had.
    pub extraction_error: Option<ExtractionError>,
    /// What ended it, if not the model.
    pub cause: Option<TerminalCause>,
    /// What the model had failed with, if the run ended while it was to be asked again.
    pub last_failure: Option<String>,
}

/// How a run ended, in one word: what is stored of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEnd {
    /// The model answered, or a budget ended the run.
    Completed,
    /// The caller has to run calls and give their results.
    Pending,
    /// It failed.
    Failed {
        /// What sort of failure.
        class: ErrorClass,
        /// What ended the run.
        cause: TerminalCause,
    },
    /// It was interrupted.
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

/// Why there is no structured output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtractionError {
    /// What the model gave last.
    pub last_output: String,
    /// How often it was asked.
    pub attempts: u32,
    /// What was wrong with it.
    pub reason: String,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What sort of failure.
    pub class: ErrorClass,
    /// What ended the run.
    pub cause: TerminalCause,
    /// What happened.
    pub message: String,
}

/// The end of a run and its sums.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Number of answered model calls, those for summaries and structured output included.
    pub steps: u32,
    /// How many tool calls were run.
    pub tool_calls: u32,
    /// What the session has used so far.
    pub usage: Usage,
    /// What it has cost so far, if the model's price is known.
    pub cost: Option<Usd>,
}
