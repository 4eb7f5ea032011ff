//! `meerkat_resume`.

use meerkat_contracts::{
    ApprovalInput, PendingApproval, ResumeRequest, RunReply, ToolOverlayInput, ToolResultInput,
};
use meerkat_core::{Approval, Decision, SessionId, ToolResult};
use serde_json::Value;

use super::turn::reply;
use super::{Call, Impact, JsonReply, Operation, Run, arguments, in_session};
use crate::sessions::TurnOptions;
use crate::tools::ToolOverlay;
use crate::{Error, RunInput};

/// `meerkat_resume`.
pub struct Resume;

impl Operation for Resume {
    const NAME: &'static str = "meerkat_resume";
    const TITLE: &'static str = "Continue a session";
    const DOC: &'static str = "Continue an existing session with another prompt, or send it the results of its \
        pending_tool_calls (prompt may then be empty; send every result) or the user's decisions on its \
        pending_approvals. Works after a restart of this server. A session runs one request at a time: SESSION_BUSY \
        means that a run is active, so try again later.";
    const IMPACT: Impact = Impact::RunsAgent;
    const CHECKS_BOUNDS: bool = true;
    type Input = ResumeRequest;
    type Output = RunReply;

    async fn call(call: Call, mut input: ResumeRequest) -> Result<RunReply, Error> {
        let id = input.session_id;
        let next = RunInput {
            prompt: std::mem::take(&mut input.prompt),
            results: input.tool_results.take().unwrap_or_default().into_iter().map(result).collect(),
            approvals: input.approvals.take().unwrap_or_default().into_iter().map(approval).collect(),
        };
        let turn = TurnOptions { input: next, ..options(input)? };
        let result = call.runtime.sessions().start_turn(id, turn, call.control).await?;
        Ok(reply(&call.runtime, result).await)
    }

    fn session(reply: &RunReply) -> Option<SessionId> {
        Some(reply.session_id())
    }

    fn awaiting(reply: &RunReply) -> &[PendingApproval] {
        reply.awaiting()
    }
}

/// Continues the run of an earlier call of `meerkat_run` or `meerkat_resume` with the user's decisions, and with the
/// options of that call. Its skills are in the session already.
///
/// # Errors
/// Returns an error if the arguments do not fit the operation, or the run fails.
pub async fn continue_run(
    call: Call,
    operation: &str,
    input: Value,
    (id, approvals): (SessionId, Vec<Approval>),
) -> Result<JsonReply, Error> {
    let options = match operation {
        Run::NAME => TurnOptions::try_from(arguments::<Run>(input)?)?,
        _ => options(arguments::<Resume>(input)?)?,
    };
    let next = RunInput { approvals, ..RunInput::default() };
    let turn = TurnOptions { input: next, skills: Vec::new(), ..options };
    let done = call.runtime.sessions().start_turn(id, turn, call.control).await;
    let done = done.map_err(|source| in_session(&call.runtime, id, source))?;
    JsonReply::new::<Resume>(reply(&call.runtime, done).await)
}

/// Returns the options of a request, without its input.
fn options(mut input: ResumeRequest) -> Result<TurnOptions, Error> {
    let overlay = input.flow_tool_overlay.take().map(overlay).unwrap_or_default();
    Ok(TurnOptions { overlay, ..TurnOptions::try_from(input)? })
}

fn overlay(input: ToolOverlayInput) -> ToolOverlay {
    ToolOverlay { allowed: input.allowed_tools, blocked: input.blocked_tools.unwrap_or_default() }
}

fn approval(input: ApprovalInput) -> Approval {
    let decision = if input.approve { Decision::Approve } else { Decision::Deny(input.reason) };
    Approval { call: input.tool_use_id, expires_at: input.expires_at, decision }
}

fn result(input: ToolResultInput) -> ToolResult {
    let is_error = input.is_error.unwrap_or_default();
    ToolResult { tool_use_id: input.tool_use_id, content: input.content, is_error }
}
