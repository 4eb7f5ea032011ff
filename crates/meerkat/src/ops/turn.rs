//! Request checks and replies shared by `meerkat_run` and `meerkat_resume`.

use meerkat_contracts::{
    BuiltinConfig, CompletedReply, HookOverrides, PendingReply, RunReply, SkillKey, SkillRef, TextBlock,
    ToolHandler,
};
use meerkat_core::run::{ExtractionError, Outcome};
use meerkat_core::{HookCapability, HookEntry, HookRuntime, OutputSchema};
use serde_json::{Map, Value};

use crate::config::{ConfigAccess, HooksConfig, at_path};
use crate::session::{HookOverlay, RunResult, validate_tools};
use crate::structured::OutputValidator;
use crate::truncate::ReplyLimit;
use crate::{Error, Runtime, agent_skills, features};

/// Builds the options of a run from a request; both requests use the same field names.
macro_rules! turn_options {
    ($request:ident, $input:expr, $schema:expr, $overlay:expr, $hooks:expr) => {
        $crate::session::TurnOptions {
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
            output_schema: $schema,
            structured_output_retries: $request.structured_output_retries,
            overlay: $overlay,
            budget: $request.budget_limits.unwrap_or_default(),
            preload_skills: $request.preload_skills,
            hooks: $hooks,
            approvals: $request.approval_policy,
            skills: $request.skill_refs.unwrap_or_default().iter().map(|skill| skill.key()).collect(),
        }
    };
}

/// Borrows the options of a request other than its prompt.
macro_rules! request_options {
    ($request:ident) => {
        $crate::ops::turn::RequestOptions {
            keep_alive: $request.keep_alive,
            comms_name: $request.comms_name.as_deref(),
            preload_skills: $request.preload_skills.as_deref().unwrap_or_default(),
            skill_refs: $request.skill_refs.as_deref().unwrap_or_default(),
            skill_references: $request.skill_references.as_deref().unwrap_or_default(),
            output_schema: $request.output_schema.as_ref(),
            instructions: $request.additional_instructions.as_deref().unwrap_or_default(),
            tools: $request.tools.as_deref().unwrap_or_default(),
            builtin_config: $request.builtin_config.as_ref(),
            memory: $request.enable_memory,
        }
    };
}

pub(super) use {request_options, turn_options};

/// Options of a request other than its prompt.
pub(super) struct RequestOptions<'a> {
    pub(super) keep_alive: Option<bool>,
    pub(super) comms_name: Option<&'a str>,
    pub(super) preload_skills: &'a [SkillKey],
    pub(super) skill_refs: &'a [SkillRef],
    pub(super) skill_references: &'a [String],
    pub(super) output_schema: Option<&'a Map<String, Value>>,
    pub(super) instructions: &'a [String],
    pub(super) tools: &'a [ToolHandler],
    pub(super) builtin_config: Option<&'a BuiltinConfig>,
    pub(super) memory: Option<bool>,
}

impl RequestOptions<'_> {
    /// Rejects options that are invalid or unavailable, instead of ignoring them silently. Returns the output schema.
    pub(super) fn check(&self) -> Result<Option<OutputSchema>, Error> {
        self.check_comms()?;
        self.check_skills()?;
        let schema = self.output_schema.cloned().map(Value::Object).map(OutputSchema::parse).transpose()?;
        if let Some(schema) = &schema {
            OutputValidator::new(schema.clone())?;
        }
        self.check_features()?;
        check_instructions(self.instructions)?;
        validate_tools(self.tools)?;
        Ok(schema)
    }

    fn check_comms(&self) -> Result<(), Error> {
        let has_name = self.comms_name.is_some_and(|name| !name.trim().is_empty());
        match (self.keep_alive, has_name) {
            (Some(true), false) => Err(Error::Arguments("`keep_alive` needs a `comms_name`".to_owned())),
            (_, true) => Err(Error::NotCompiled { what: "communication between agents", feature: "comms" }),
            (_, false) => Ok(()),
        }
    }

    fn check_skills(&self) -> Result<(), Error> {
        if !self.skill_references.is_empty() {
            let message = "`skill_references` is no longer accepted; use `skill_refs`";
            return Err(Error::Arguments(message.to_owned()));
        }
        let refs: Vec<_> = self.skill_refs.iter().map(SkillRef::key).collect();
        agent_skills::check("preload_skills", self.preload_skills)?;
        agent_skills::check("skill_refs", &refs)
    }

    fn check_features(&self) -> Result<(), Error> {
        if self.memory == Some(true) && !features::MEMORY {
            return Err(Error::NotCompiled { what: "memory", feature: "memory-store-session" });
        }
        if self.builtin_config.is_some_and(|config| config.shell_timeout_secs == Some(0)) {
            let message = "`builtin_config.shell_timeout_secs` must be greater than 0";
            return Err(Error::Arguments(message.to_owned()));
        }
        Ok(())
    }
}

/// Reads the hook overrides of a request, and rejects those that the caller may not set.
pub(super) async fn hooks(runtime: &Runtime, overrides: Option<HookOverrides>) -> Result<HookOverlay, Error> {
    let overrides = overrides.unwrap_or_default();
    let overlay = HookOverlay {
        entries: entries(overrides.entries.unwrap_or_default())?,
        disable: overrides.disable.unwrap_or_default(),
    };
    let access = runtime.config_access();
    if access != ConfigAccess::Owner && overlay != HookOverlay::default() {
        let mut config = runtime.config().get().await?.config.hooks;
        config.client_overrides &= access == ConfigAccess::Client;
        config.entries = runtime.hook_entries(&config).await?;
        check_access(&overlay, &config)?;
    }
    Ok(overlay)
}

fn entries(values: Vec<Map<String, Value>>) -> Result<Vec<HookEntry>, Error> {
    let read = |(index, entry): (usize, Map<String, Value>)| {
        serde_path_to_error::deserialize(Value::Object(entry)).map_err(|error| {
            let path = format!("entries[{index}].{}", error.path());
            Error::Hooks(at_path(path.trim_end_matches(".."), &error.inner().to_string()))
        })
    };
    values.into_iter().enumerate().map(read).collect()
}

/// Rejects overrides that would let a client start commands, send a run's content elsewhere, or disable the owner's
/// guardrails.
fn check_access(overlay: &HookOverlay, config: &HooksConfig) -> Result<(), Error> {
    let is_external = |entry: &&HookEntry| !matches!(entry.runtime, HookRuntime::InProcess { .. });
    let is_disabled_guardrail = |entry: &&HookEntry| {
        entry.capability == HookCapability::Guardrail && overlay.disable.contains(&entry.id)
    };
    let external = overlay.entries.iter().find(is_external);
    let what = match (external, config.entries.iter().find(is_disabled_guardrail)) {
        _ if config.client_overrides => return Ok(()),
        (Some(entry), _) => format!("the hook `{}`, which is a command or a URL,", entry.id),
        (None, Some(entry)) => format!("disabling the guardrail `{}`", entry.id),
        (None, None) => return Ok(()),
    };
    Err(Error::HooksProtected { what })
}

/// Checks that the instructions fit in a system prompt.
fn check_instructions(instructions: &[String]) -> Result<(), Error> {
    let is_too_long = |text: &String| text.len() > crate::prompt::MAX_SECTION_BYTES;
    match instructions.iter().position(is_too_long) {
        Some(index) => Err(Error::Arguments(format!(
            "`additional_instructions[{index}]` is longer than {} bytes",
            crate::prompt::MAX_SECTION_BYTES
        ))),
        None => Ok(()),
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
