//! `meerkat_resume`.

use meerkat_contracts::{
    ApprovalInput, PendingApproval, ResumeRequest, RunReply, ToolOverlayInput, ToolResultInput,
};
use meerkat_core::{Approval, Decision, SessionId, ToolResult};

use super::turn::reply;
use super::{Call, Impact, Operation};
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
        let overlay = input.flow_tool_overlay.take().map(overlay).unwrap_or_default();
        let turn = TurnOptions { input: next, overlay, ..TurnOptions::try_from(input)? };
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
