//! Options and replies shared by `meerkat_run` and `meerkat_resume`.

use meerkat_contracts::{CompletedReply, HookOverrides, PendingReply, RunReply, TextBlock};
use meerkat_core::run::{ExtractionError, Outcome};
use meerkat_core::{HookEntry, OutputSchema};
use serde_json::{Map, Value};

use super::reply_limit::ReplyLimit;
use crate::hooks::{HookOverlay, HooksError};
use crate::json::decode;
use crate::sessions::RunResult;
use crate::{Error, Runtime};

/// Builds the options of a run from a request; both requests use the same field names.
macro_rules! turn_options {
    ($request:ident, $input:expr, $overlay:expr) => {
        $crate::sessions::TurnOptions {
            input: $input,
            model: $request.model,
            provider: $request.provider,
            system_prompt: $request.system_prompt,
            instructions: $request.additional_instructions,
            max_tokens: $request.max_tokens,
            provider_params: $request.provider_params,
            tools: $request.tools,
            builtins: $request.enable_builtins,
            files: None,
            memory: $request.enable_memory,
            shell: $request.builtin_config.as_ref().and_then(|config| config.enable_shell),
            shell_timeout_secs: $request.builtin_config.as_ref().and_then(|config| config.shell_timeout_secs),
            output_schema: $crate::operations::turn::output_schema($request.output_schema)?,
            structured_output_retries: $request.structured_output_retries,
            overlay: $overlay,
            budget: $request.budget_limits.unwrap_or_default(),
            preload_skills: $request.preload_skills,
            skills: $request.skill_refs.unwrap_or_default().iter().map(|skill| skill.key()).collect(),
            hooks: $crate::operations::turn::hooks($request.hooks_override)?,
            approvals: $request.approval_policy,
            comms_name: $request.comms_name,
            keep_alive: $request.keep_alive,
            skill_references: $request.skill_references.unwrap_or_default(),
        }
    };
}

pub(super) use turn_options;

pub(super) fn output_schema(schema: Option<Map<String, Value>>) -> Result<Option<OutputSchema>, Error> {
    Ok(schema.map(Value::Object).map(OutputSchema::parse).transpose()?)
}

/// Reads the hook overrides of a request.
pub(super) fn hooks(overrides: Option<HookOverrides>) -> Result<HookOverlay, Error> {
    let overrides = overrides.unwrap_or_default();
    let read = |(index, entry): (usize, Map<String, Value>)| -> Result<HookEntry, HooksError> {
        decode(Value::Object(entry)).map_err(|reason| {
            // The path of an entry starts with a backquote.
            let reason = reason.strip_prefix('`').map_or_else(
                || format!("`entries[{index}]`: {reason}"),
                |field| format!("`entries[{index}].{field}"),
            );
            HooksError::Invalid(reason)
        })
    };
    let entries = overrides.entries.unwrap_or_default().into_iter().enumerate().map(read);
    Ok(HookOverlay {
        entries: entries.collect::<Result<_, _>>()?,
        disable: overrides.disable.unwrap_or_default(),
    })
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
