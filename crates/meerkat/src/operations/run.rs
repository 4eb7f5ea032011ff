//! `meerkat_run`.

use meerkat_contracts::{PendingApproval, RunReply, RunRequest};

use meerkat_core::SessionId;

use super::turn::reply;
use super::{Call, Impact, Operation};
use crate::sessions::{NewSessionOptions, TurnOptions};
use crate::{Error, RunInput};

/// `meerkat_run`.
pub struct Run;

impl Operation for Run {
    const NAME: &'static str = "meerkat_run";
    const TITLE: &'static str = "Run an agent";
    const DOC: &'static str = "Start a new agent session with a prompt and wait for its answer. The reply contains a \
        session_id: pass it to meerkat_resume to continue the conversation. If you provide tools, a call to one of \
        them ends the run with pending_tool_calls; run them yourself and send the results with meerkat_resume. If \
        the reply has pending_approvals, ask the user about them and send the decisions with meerkat_resume.";
    const IMPACT: Impact = Impact::RunsAgent;
    const CHECKS_BOUNDS: bool = true;
    type Input = RunRequest;
    type Output = RunReply;

    async fn call(call: Call, mut input: RunRequest) -> Result<RunReply, Error> {
        let options = NewSessionOptions { labels: input.labels.take().unwrap_or_default() };
        let first = RunInput { prompt: std::mem::take(&mut input.prompt), ..RunInput::default() };
        let turn = TurnOptions { input: first, ..TurnOptions::try_from(input)? };
        let result = call.runtime.sessions().create(options, turn, call.control).await?;
        Ok(reply(&call.runtime, result).await)
    }

    fn session(reply: &RunReply) -> Option<SessionId> {
        Some(reply.session_id())
    }

    fn awaiting(reply: &RunReply) -> &[PendingApproval] {
        reply.awaiting()
    }
}
