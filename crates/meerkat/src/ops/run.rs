//! `meerkat_run`.

use meerkat_contracts::{CompletedReply, PendingCall, PendingReply, RunReply, RunRequest, TextBlock};
use meerkat_core::run::Outcome;
use meerkat_core::{OutputSchema, ToolCall};
use serde_json::{Map, Value};

use super::{Call, Handle, Impact};
use crate::session::{NewSessionOptions, RunResult, ToolOverlay, TurnOptions};
use crate::{Error, RunInput, Runtime};

pub(super) struct Run;

impl Handle for Run {
    const NAME: &'static str = "meerkat_run";
    const TITLE: &'static str = "Run an agent";
    const DOC: &'static str = "Start a new agent session with a prompt and wait for its answer. The reply carries a \
        session_id: pass it to meerkat_resume to continue the conversation. If you give tools, a call to one of them \
        ends the run with pending_tool_calls; run them yourself and give the results to meerkat_resume.";
    const IMPACT: Impact = Impact::Runs;
    type Input = RunRequest;
    type Output = RunReply;

    async fn handle(call: Call, input: RunRequest) -> Result<RunReply, Error> {
        check_labels(&input)?;
        check_instructions(input.additional_instructions.as_deref())?;
        check_tools(input.tools.as_deref().unwrap_or_default())?;
        refuse_unbuilt(&Extras {
            builtins: input.enable_builtins,
            keep_alive: input.keep_alive,
            comms_name: input.comms_name.as_deref(),
            hooks: input.hooks_override.as_ref(),
        })?;
        let options = NewSessionOptions { labels: input.labels.unwrap_or_default() };
        let turn = TurnOptions {
            input: RunInput { prompt: input.prompt, results: Vec::new() },
            model: input.model,
            provider: input.provider,
            system_prompt: input.system_prompt,
            instructions: input.additional_instructions,
            max_tokens: input.max_tokens,
            provider_params: input.provider_params,
            tools: input.tools,
            builtins: input.enable_builtins,
            output_schema: input.output_schema.map(Value::Object).map(OutputSchema::parse).transpose()?,
            structured_output_retries: input.structured_output_retries,
            overlay: ToolOverlay::default(),
            budget: input.budget_limits.unwrap_or_default(),
        };
        let runtime = call.runtime;
        let result = runtime.sessions().create(options, turn, call.control).await?;
        Ok(reply(&runtime, result))
    }
}

/// Makes the reply of a run.
pub(super) fn reply(runtime: &Runtime, result: RunResult) -> RunReply {
    let RunResult { session_id, model, warnings, schema_warnings, report } = result;
    let session_ref = runtime.reference(session_id);
    let (done, pending) = match report.outcome {
        Outcome::Completed(done) => (done, Vec::new()),
        Outcome::Pending(calls) => (Default::default(), calls),
        Outcome::Failed(_) | Outcome::Cancelled => Default::default(),
    };
    if !pending.is_empty() {
        return RunReply::Pending(Box::new(PendingReply {
            content: vec![TextBlock::new(PendingReply::SENTENCE)],
            session_id,
            status: PendingReply::STATUS,
            pending_tool_calls: pending.into_iter().map(pending_call).collect(),
            session_ref,
            model,
        }));
    }
    RunReply::Completed(Box::new(CompletedReply {
        content: vec![TextBlock::new(done.text)],
        session_id,
        turns: report.steps,
        tool_calls: report.tool_calls,
        structured_output: done.structured_output,
        schema_warnings: (!schema_warnings.is_empty()).then_some(schema_warnings),
        extraction_error: done.extraction_error,
        session_ref,
        model,
        usage: report.usage,
        warnings,
        terminal_cause_kind: done.cause,
    }))
}

pub(super) fn pending_call(call: ToolCall) -> PendingCall {
    PendingCall { tool_use_id: call.id, tool_name: call.name, args: call.args }
}

/// What a request may ask for that this build does not have.
pub(super) struct Extras<'a> {
    pub(super) builtins: Option<bool>,
    pub(super) keep_alive: Option<bool>,
    pub(super) comms_name: Option<&'a str>,
    pub(super) hooks: Option<&'a Map<String, Value>>,
}

/// Refuses what cannot be had, rather than leaving it out in silence.
pub(super) fn refuse_unbuilt(extras: &Extras<'_>) -> Result<(), Error> {
    let named = extras.comms_name.is_some_and(|name| !name.trim().is_empty());
    if extras.keep_alive == Some(true) && !named {
        return Err(Error::Arguments("`keep_alive` needs a `comms_name`".to_owned()));
    }
    if extras.keep_alive == Some(true) || named {
        return Err(Error::NotCompiled { what: "communication between agents", feature: "comms" });
    }
    if extras.builtins == Some(true) {
        return Err(Error::NotCompiled { what: "the set of built-in tools", feature: "builtins" });
    }
    let listed =
        |hooks: &Map<String, Value>| hooks.values().any(|list| list.as_array().is_none_or(|l| !l.is_empty()));
    if extras.hooks.is_some_and(listed) {
        return Err(Error::NotCompiled { what: "running hooks", feature: "hooks" });
    }
    Ok(())
}

fn check_labels(input: &RunRequest) -> Result<(), Error> {
    const RESERVED: [&str; 3] = ["mob_id", "role", "meerkat_id"];
    let reserved = |key: &&String| RESERVED.contains(&key.as_str()) || key.starts_with("meerkat.");
    match input.labels.iter().flat_map(|labels| labels.keys()).find(reserved) {
        Some(key) => Err(Error::Arguments(format!("the label `{key}` is reserved; choose another name"))),
        None => Ok(()),
    }
}

/// Instructions must fit into a system prompt.
pub(super) fn check_instructions(instructions: Option<&[String]>) -> Result<(), Error> {
    let long = |text: &String| text.len() > crate::prompt::SECTION;
    match instructions.unwrap_or_default().iter().position(long) {
        Some(index) => Err(Error::Arguments(format!(
            "`additional_instructions[{index}]` is longer than {} bytes",
            crate::prompt::SECTION
        ))),
        None => Ok(()),
    }
}

/// A tool's name must be one that every provider takes.
pub(super) fn check_tools(tools: &[meerkat_contracts::ToolHandler]) -> Result<(), Error> {
    let mut seen = std::collections::BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if tool.name.is_empty() || tool.name.len() > 64 || !tool.name.bytes().all(fits) {
            let shown: String = tool.name.chars().take(80).collect();
            return Err(Error::Arguments(format!(
                "`tools[{index}].name`: `{shown}` must have 1 to 64 letters, digits, `_` or `-`"
            )));
        }
        if !seen.insert(&tool.name) {
            return Err(Error::Arguments(format!("`tools[{index}].name`: `{}` is there twice", tool.name)));
        }
    }
    Ok(())
}
