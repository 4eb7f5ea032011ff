//! Options and replies shared by `meerkat_run` and `meerkat_resume`.

use meerkat_contracts::{
    CompletedReply, HookOverrides, PendingReply, ResumeRequest, RunReply, RunRequest, SkillKey, SkillRef,
    TextBlock,
};
use meerkat_core::run::{ExtractionError, Outcome};
use meerkat_core::{BudgetLimits, OutputSchema, decode};
use serde_json::{Map, Value};

use super::reply_limit::ReplyLimit;
use crate::hooks::{HookOverlay, HooksError};
use crate::sessions::{RunResult, TurnOptions};
use crate::{Error, Runtime};

macro_rules! from_requests {
    ($(
        $(#[$rule:meta])*
        $wire:ident as $field:ident: $type:ty => $target:ty, $scope:ident, $flag:literal, $run:literal, $resume:literal;
    )*) => {
        from_requests!(@from RunRequest, $($wire as $field),*);
        from_requests!(@from ResumeRequest, $($wire as $field),*);
    };
    (@from $request:ident, $($wire:ident as $field:ident),*) => {
        /// The options of a request, except its input.
        impl TryFrom<$request> for TurnOptions {
            type Error = Error;

            fn try_from(request: $request) -> Result<Self, Error> {
                let builtin_config = request.builtin_config.unwrap_or_default();
                Ok(Self {
                    $($field: FromWire::from_wire(request.$wire)?,)*
                    shell: builtin_config.enable_shell,
                    shell_timeout_secs: builtin_config.shell_timeout_secs,
                    keep_alive: request.keep_alive,
                    ..Self::default()
                })
            }
        }
    };
}

meerkat_contracts::run_options!(from_requests);

/// Conversion of an option from its type on the wire.
trait FromWire<T>: Sized {
    fn from_wire(value: T) -> Result<Self, Error>;
}

impl<T> FromWire<Self> for Option<T> {
    fn from_wire(value: Self) -> Result<Self, Error> {
        Ok(value)
    }
}

impl FromWire<Option<Map<String, Value>>> for Option<OutputSchema> {
    fn from_wire(schema: Option<Map<String, Value>>) -> Result<Self, Error> {
        Ok(schema.map(Value::Object).map(OutputSchema::parse).transpose()?)
    }
}

impl FromWire<Option<Self>> for BudgetLimits {
    fn from_wire(limits: Option<Self>) -> Result<Self, Error> {
        Ok(limits.unwrap_or_default())
    }
}

impl FromWire<Option<Vec<SkillRef>>> for Vec<SkillKey> {
    fn from_wire(skills: Option<Vec<SkillRef>>) -> Result<Self, Error> {
        Ok(skills.iter().flatten().map(SkillRef::key).collect())
    }
}

impl FromWire<Option<Self>> for Vec<String> {
    fn from_wire(names: Option<Self>) -> Result<Self, Error> {
        Ok(names.unwrap_or_default())
    }
}

impl FromWire<Option<HookOverrides>> for HookOverlay {
    fn from_wire(overrides: Option<HookOverrides>) -> Result<Self, Error> {
        let overrides = overrides.unwrap_or_default();
        let read = |(index, entry): (usize, Map<String, Value>)| {
            decode(Value::Object(entry)).map_err(|reason| {
                // The path of a field starts with a backquote.
                HooksError::Invalid(match reason.strip_prefix('`') {
                    Some(field) => format!("`entries[{index}].{field}"),
                    None => format!("`entries[{index}]`: {reason}"),
                })
            })
        };
        let entries = overrides.entries.unwrap_or_default().into_iter().enumerate().map(read);
        let disable = overrides.disable.unwrap_or_default();
        Ok(Self { entries: entries.collect::<Result<_, _>>()?, disable })
    }
}

/// Builds the reply of a run. Structured output is never truncated.
pub(super) async fn reply(runtime: &Runtime, result: RunResult) -> RunReply {
    let RunResult { session_id, model, warnings, schema_warnings, report } = result;
    let session_ref = runtime.reference(session_id);
    let (done, pending) = match report.outcome {
        Outcome::Completed(done) => (done, None),
        Outcome::Pending(pending) => (Default::default(), Some(pending)),
        Outcome::Failed(_) | Outcome::Cancelled => Default::default(),
    };
    if let Some(pending) = pending {
        let (status, sentence) = if pending.approvals.is_empty() {
            (PendingReply::STATUS, PendingReply::SENTENCE)
        } else {
            (PendingReply::APPROVAL_STATUS, PendingReply::APPROVAL_SENTENCE)
        };
        let (pending_tool_calls, pending_approvals) =
            ReplyLimit::for_runtime(runtime).await.truncate_pending(pending).await;
        return RunReply::Pending(Box::new(PendingReply {
            content: vec![TextBlock::new(sentence)],
            session_id,
            status,
            pending_tool_calls,
            pending_approvals,
            session_ref,
            model,
            usage: report.usage,
            cost_usd: report.cost,
        }));
    }
    let last_output = done.extraction_error.as_ref().map_or(0, |error| error.last_output.len());
    let bounds = ReplyLimit::for_length(runtime, done.text.len().max(last_output)).await;
    let answer = bounds.truncate_text(done.text).await;
    let extraction_error = match done.extraction_error {
        None => None,
        Some(error) => {
            Some(ExtractionError { last_output: bounds.truncate_text(error.last_output).await.text, ..error })
        }
    };
    RunReply::Completed(Box::new(CompletedReply {
        content: vec![TextBlock::new(answer.text)],
        session_id,
        turns: report.steps,
        tool_calls: report.tool_calls,
        structured_output: done.structured_output,
        schema_warnings: (!schema_warnings.is_empty()).then_some(schema_warnings),
        extraction_error,
        session_ref,
        blob_id: answer.blob_id,
        model,
        usage: report.usage,
        cost_usd: report.cost,
        warnings,
        terminal_cause_kind: done.cause,
    }))
}
