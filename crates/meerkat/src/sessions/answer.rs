//! The answer of a run, for embedders.

use meerkat_core::run::{Completion, Outcome, Pending};
use meerkat_core::{SessionId, Usage, Usd, decode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::outcome::{RunHandle, RunResult};
use crate::Error;
use crate::error::{StopReason, Stopped};

/// The model's answer to a prompt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The structured output, if a schema was given.
    pub structured_output: Option<Value>,
    /// Session id.
    pub session_id: SessionId,
    /// The model that answered.
    pub model: String,
    /// Number of model calls.
    pub steps: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Tokens used by the session so far.
    pub usage: Usage,
    /// Cost of the session so far, if the model's price is known.
    pub cost: Option<Usd>,
    /// Warnings, for example about parameters that the model does not support.
    pub warnings: Vec<String>,
}

impl Answer {
    /// Decodes the structured output.
    pub(crate) fn into_output<T: DeserializeOwned>(self) -> Result<T, Error> {
        let output = self.structured_output.unwrap_or_default();
        decode(output).map_err(Error::NoStructuredOutput)
    }
}

impl RunHandle {
    /// Waits for the answer.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] with the text so far if the run ended without an answer, because of a limit or because
    /// calls are pending. Other errors are those of [`RunHandle::outcome`].
    pub async fn answer(self) -> Result<Answer, Error> {
        self.outcome().await?.into_answer()
    }
}

impl RunResult {
    fn into_answer(self) -> Result<Answer, Error> {
        let Self { session_id, model, warnings, report, .. } = self;
        let stopped = |reason, text, last_failure| {
            Err(Error::Stopped(Box::new(Stopped { session_id, reason, text, last_failure })))
        };
        let Completion { text, structured_output, extraction_error, cause, last_failure } =
            match report.outcome {
                Outcome::Completed(done) => done,
                Outcome::Pending(Pending { calls, approvals }) => {
                    return stopped(StopReason::Pending { calls, approvals }, String::new(), None);
                }
                Outcome::Failed(failure) => return Err(Error::Rejected(failure)),
                Outcome::Cancelled => return Err(Error::RequestCancelled),
            };
        if let Some(cause) = cause {
            return stopped(StopReason::Limit(cause), text, last_failure);
        }
        if let Some(error) = extraction_error {
            return Err(Error::NoStructuredOutput(error.reason));
        }
        Ok(Answer {
            text,
            structured_output,
            session_id,
            model,
            steps: report.steps,
            tool_calls: report.tool_calls,
            usage: report.usage,
            cost: report.cost,
            warnings,
        })
    }
}
