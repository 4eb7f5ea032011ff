//! `meerkat_resume`.

use meerkat_contracts::{
    ApprovalInput, PendingApproval, ResumeRequest, RunReply, ToolOverlayInput, ToolResultInput,
};
use meerkat_core::{Approval, Decision, SessionId, ToolResult};

use super::turn::{reply, turn_options};
use super::{Call, Impact, Operation};
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
    type Input = ResumeRequest;
    type Output = RunReply;

    async fn call(call: Call, input: ResumeRequest) -> Result<RunReply, Error> {
        let id = input.session_id.parse()?;
        let results = input.tool_results.unwrap_or_default().into_iter().map(result).collect();
        let approvals = input.approvals.unwrap_or_default().into_iter().map(approval).collect();
        let next = RunInput { prompt: input.prompt, results, approvals };
        let overlay = input.flow_tool_overlay.map(overlay).unwrap_or_default();
        let runtime = call.runtime;
        let turn = turn_options!(input, next, overlay);
        let result = runtime.sessions().start_turn(id, turn, call.control).await?;
        Ok(reply(&runtime, result).await)
    }

    fn session(reply: &RunReply) -> Option<SessionId> {
        Some(reply.session_id())
    }

    fn awaiting(reply: &RunReply) -> &[PendingApproval] {
        reply.awaiting()
    }
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
