//! `meerkat_resume`.

use meerkat_contracts::{ResumeRequest, RunReply, ToolOverlayInput, ToolResultInput};
use meerkat_core::{OutputSchema, ToolOutput, ToolResult};
use serde_json::Value;

use super::run::{Extras, check_instructions, check_tools, refuse_unbuilt, reply};
use super::{Call, Handle, Impact};
use crate::session::{ToolOverlay, TurnOptions};
use crate::{Error, RunInput};

pub(super) struct Resume;

impl Handle for Resume {
    const NAME: &'static str = "meerkat_resume";
    const TITLE: &'static str = "Continue a session";
    const DOC: &'static str = "Continue an existing session with another prompt, or give it the results of its \
        pending_tool_calls (then prompt may be empty; give every result). Works after a restart of this server. A \
        session runs one request at a time: SESSION_BUSY means that one is in flight, so try again later.";
    const IMPACT: Impact = Impact::Runs;
    type Input = ResumeRequest;
    type Output = RunReply;

    async fn handle(call: Call, input: ResumeRequest) -> Result<RunReply, Error> {
        let id = input.session_id.parse()?;
        check_instructions(input.additional_instructions.as_deref())?;
        check_tools(input.tools.as_deref().unwrap_or_default())?;
        refuse_unbuilt(&Extras {
            builtins: input.enable_builtins,
            keep_alive: input.keep_alive,
            comms_name: input.comms_name.as_deref(),
            hooks: input.hooks_override.as_ref(),
        })?;
        let results = input.tool_results.unwrap_or_default().into_iter().map(result).collect();
        let turn = TurnOptions {
            input: RunInput { prompt: input.prompt, results },
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
            overlay: input.flow_tool_overlay.map(overlay).unwrap_or_default(),
            budget: input.budget_limits.unwrap_or_default(),
        };
        let runtime = call.runtime;
        let result = runtime.sessions().start_turn(id, turn, call.control).await?;
        Ok(reply(&runtime, result))
    }
}

fn overlay(input: ToolOverlayInput) -> ToolOverlay {
    ToolOverlay { allowed: input.allowed_tools, blocked: input.blocked_tools.unwrap_or_default() }
}

fn result(input: ToolResultInput) -> ToolResult {
    let output =
        ToolOutput { content: input.content, is_error: input.is_error.unwrap_or(false), images: Vec::new() };
    output.bounded().answering(input.tool_use_id)
}
