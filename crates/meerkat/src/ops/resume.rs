//! `meerkat_resume`.

use meerkat_contracts::{ApprovalInput, ResumeRequest, RunReply, ToolOverlayInput, ToolResultInput};
use meerkat_core::{Approval, Decision, ToolOutput, ToolResult};

use super::turn::{hooks, reply, request_options, turn_options};
use super::{Call, Impact, OperationHandler};
use crate::session::ToolOverlay;
use crate::{ConfigAccess, Error, RunInput};

pub(super) struct Resume;

impl OperationHandler for Resume {
    const NAME: &'static str = "meerkat_resume";
    const TITLE: &'static str = "Continue a session";
    const DOC: &'static str = "Continue an existing session with another prompt, or send it the results of its \
        pending_tool_calls (prompt may then be empty; send every result) or the user's decisions on its \
        pending_approvals. Works after a restart of this server. A session runs one request at a time: SESSION_BUSY \
        means that a run is active, so try again later.";
    const IMPACT: Impact = Impact::RunsAgent;
    type Input = ResumeRequest;
    type Output = RunReply;

    async fn handle(call: Call, input: ResumeRequest) -> Result<RunReply, Error> {
        let id = input.session_id.parse()?;
        let schema = request_options!(input).check()?;
        let results = input.tool_results.unwrap_or_default().into_iter().map(result).collect();
        let approvals = input.approvals.unwrap_or_default();
        check_approvals(&call, &approvals)?;
        let approvals = approvals.into_iter().map(approval).collect();
        let next = RunInput { prompt: input.prompt, results, approvals };
        let overlay = input.flow_tool_overlay.map(overlay).unwrap_or_default();
        let runtime = call.runtime;
        let hooks = hooks(&runtime, input.hooks_override).await?;
        let turn = turn_options!(input, next, schema, overlay, hooks);
        let result = runtime.sessions().start_turn(id, turn, call.control).await?;
        Ok(reply(&runtime, result).await)
    }
}

/// Rejects approvals from a client without a token: it could be any user of this machine.
fn check_approvals(call: &Call, approvals: &[ApprovalInput]) -> Result<(), Error> {
    let approves = approvals.iter().any(|approval| approval.approve);
    if !approves || call.runtime.config_access() != ConfigAccess::Anonymous {
        return Ok(());
    }
    let what = "approving a tool call".to_owned();
    Err(Error::TokenNeeded { what, instead: "approve it with `rkat run --resume SESSION --approve ID`" })
}

fn overlay(input: ToolOverlayInput) -> ToolOverlay {
    ToolOverlay { allowed: input.allowed_tools, blocked: input.blocked_tools.unwrap_or_default() }
}

fn approval(input: ApprovalInput) -> Approval {
    let decision = if input.approve { Decision::Approve } else { Decision::Deny(input.reason) };
    Approval { call: input.tool_use_id, expires_at: input.expires_at, decision }
}

fn result(input: ToolResultInput) -> ToolResult {
    let output =
        ToolOutput { content: input.content, is_error: input.is_error.unwrap_or(false), images: Vec::new() };
    output.truncated().into_result(input.tool_use_id)
}
