//! The result of a run, as text or JSON.

use std::process::ExitCode;

use meerkat::{
    ApprovalRequest, Completion, Outcome, Pending, RunResult, Runtime, SessionId, TerminalCause, ToolCall,
};
use serde_json::{Value, json};

use crate::args::{Output, RunArgs};
use crate::commands::print_json;
use crate::error::CliError;
use crate::out;
use crate::render::{clip, count};

/// Prints a result with its warnings and summary, and returns the exit code. A streamed answer is not printed again.
pub(super) fn result(
    args: &RunArgs,
    runtime: &Runtime,
    result: &RunResult,
    streamed: bool,
) -> Result<ExitCode, CliError> {
    result.warnings.iter().for_each(out::warn);
    if result.model == "offline" && args.model.is_none() && args.resume.is_none() && !args.quiet {
        out::note("no API key configured; using the offline model");
    }
    match (args.output(), &result.report.outcome) {
        (Output::Json, _) => print_json(&as_json(runtime, result)),
        (Output::Text, Outcome::Completed(done)) if args.schema.is_some() => print_structured(done)?,
        (Output::Text, Outcome::Completed(done)) if !streamed && !done.text.is_empty() => {
            out::line(&done.text);
        }
        (Output::Text, Outcome::Pending(pending)) => print_pending(pending, result.session_id),
        (Output::Text, _) => {}
    }
    if !args.quiet {
        summary(result);
    }
    match out::stream_error() {
        Some(error) => Err(CliError::Io("cannot write the answer".to_owned(), error)),
        None => Ok(exit_code(result)),
    }
}

fn print_pending(pending: &Pending, session: SessionId) {
    for call in &pending.calls {
        out::line(&call_json(call).to_string());
    }
    for awaited in &pending.approvals {
        out::line(&approval_json(awaited).to_string());
    }
    if !pending.calls.is_empty() {
        out::note("the session is waiting for tool results; send them with meerkat_resume");
    }
    if !pending.approvals.is_empty() {
        out::note(&format!(
            "calls awaiting approval: run them with `rkat run --resume={session} --approve all`, or deny them with \
             `--deny all`; pass this run's limits, schema, and tools again"
        ));
    }
}

fn call_json(call: &ToolCall) -> Value {
    json!({ "tool_use_id": call.id, "tool_name": call.name, "args": call.args })
}

fn approval_json(ApprovalRequest { call, expires_at }: &ApprovalRequest) -> Value {
    json!({ "tool_use_id": call.id, "tool_name": call.name, "args": call.args, "expires_at": expires_at })
}

fn print_structured(done: &Completion) -> Result<(), CliError> {
    if let Some(value) = &done.structured_output {
        print_json(value);
        return Ok(());
    }
    let reason = done.extraction_error.as_ref().map_or_else(
        || "the run ended before producing one".to_owned(),
        |error| {
            let output = clip(&error.last_output, 200);
            format!("{} (after {} attempts; last output: {output})", error.reason, error.attempts)
        },
    );
    Err(meerkat::Error::NoStructuredOutput(reason).into())
}

fn as_json(runtime: &Runtime, result: &RunResult) -> Value {
    let reference = runtime.reference(result.session_id);
    let report = &result.report;
    match &report.outcome {
        Outcome::Pending(pending) => {
            let calls: Vec<_> = pending.calls.iter().map(call_json).collect();
            let awaited: Vec<_> = pending.approvals.iter().map(approval_json).collect();
            json!({
                "status": if awaited.is_empty() { "pending_tool_call" } else { "pending_approval" },
                "session_id": result.session_id,
                "session_ref": reference,
                "resumable": true,
                "pending_tool_calls": calls,
                "pending_approvals": awaited,
                "model": result.model,
                "usage": report.usage,
                "cost_usd": report.cost,
            })
        }
        Outcome::Completed(done) => json!({
            "text": done.text,
            "session_id": result.session_id,
            "session_ref": reference,
            "turns": report.steps,
            "tool_calls": report.tool_calls,
            "usage": report.usage,
            "cost_usd": report.cost,
            "structured_output": done.structured_output,
            "extraction_error": done.extraction_error,
            "schema_warnings": (!result.schema_warnings.is_empty()).then_some(&result.schema_warnings),
            "model": result.model,
            "terminal_cause_kind": done.cause,
        }),
        Outcome::Failed(_) | Outcome::Cancelled => Value::Null,
    }
}

fn summary(result: &RunResult) {
    let report = &result.report;
    let cost = report.cost.map(|cost| format!(" · {cost}")).unwrap_or_default();
    out::note(&format!(
        "session {} · {} · {} · {} tokens{cost} · {}",
        result.session_id,
        count(report.steps, "step"),
        count(report.tool_calls, "tool call"),
        report.usage.total(),
        result.model,
    ));
    match limit_reached(result) {
        Some(TerminalCause::TurnLimitReached) => out::note("the run reached `agent.max_turns`"),
        Some(_) => out::note("the run's budget is exhausted"),
        None => {}
    }
}

/// Returns the limit that ended the run, if one did.
fn limit_reached(result: &RunResult) -> Option<TerminalCause> {
    match &result.report.outcome {
        Outcome::Completed(done) => done.cause,
        _ => None,
    }
}

/// Returns the exit code. A run with a call awaiting approval has not succeeded.
fn exit_code(result: &RunResult) -> ExitCode {
    match &result.report.outcome {
        Outcome::Pending(pending) if !pending.approvals.is_empty() => ExitCode::FAILURE,
        _ if limit_reached(result).is_some() => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}
