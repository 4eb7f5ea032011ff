//! Tool calls of a resumed session that await approval.

use meerkat::{
    Approval, ApprovalRequest, Decision, Outcome, Pending, RunControl, RunInput, RunReport, RunRequest,
    RunResult, Runtime, SessionId, SessionRef,
};

use crate::args::RunArgs;
use crate::error::CliError;

/// Value that stands for every pending call.
const ALL: &str = "all";

/// Returns `true` if calls are decided on the command line, so that no prompt is required.
pub(super) fn has_decisions(args: &RunArgs) -> bool {
    !args.approve.is_empty() || !args.deny.is_empty()
}

/// Returns the decisions on pending calls from the command line.
pub(super) async fn parse_decisions(
    args: &RunArgs,
    runtime: &Runtime,
    session: SessionId,
) -> Result<Vec<Approval>, CliError> {
    if !has_decisions(args) {
        return Ok(Vec::new());
    }
    let pending = runtime.sessions().pending_calls(session).await?.approvals;
    if pending.is_empty() {
        let message = format!("no call of session {session} is awaiting approval");
        return Err(CliError::Usage(message));
    }
    let is_known = |id: &String| id == ALL || pending.iter().any(|awaited| awaited.call.id == *id);
    if let Some(unknown) = args.approve.iter().chain(&args.deny).filter(|id| !is_known(id)).min() {
        let ids: Vec<_> = pending.iter().map(|awaited| format!("`{}`", awaited.call.id)).collect();
        let message = format!("no pending call has the id `{unknown}`; pending: {}", ids.join(", "));
        return Err(CliError::Usage(message));
    }
    // An id takes precedence over `all`, and a denial over an approval.
    let decision = |id: &str| {
        [id, ALL].into_iter().find_map(|name| {
            let lists = |ids: &[String]| ids.iter().any(|listed| listed == name);
            let approved = lists(&args.approve).then_some(Decision::Approve);
            if lists(&args.deny) { Some(Decision::Deny(None)) } else { approved }
        })
    };
    let approval = |ApprovalRequest { call, expires_at }| {
        let decision = decision(&call.id)?;
        Some(Approval { call: call.id, expires_at: Some(expires_at), decision })
    };
    Ok(pending.into_iter().filter_map(approval).collect())
}

/// Returns the pending calls of a session, if there are any, as if the run that made them had ended now.
pub(super) async fn waiting(runtime: &Runtime, id: SessionId) -> Result<Option<RunResult>, CliError> {
    let pending = runtime.sessions().pending_calls(id).await?;
    if pending == Pending::default() {
        return Ok(None);
    }
    let view = runtime.sessions().read(id).await?;
    let cost = Some(view.cost).filter(|cost| !cost.is_zero());
    let report =
        RunReport { outcome: Outcome::Pending(pending), steps: 0, tool_calls: 0, usage: view.usage, cost };
    let (warnings, schema_warnings) = (Vec::new(), Vec::new());
    Ok(Some(RunResult { session_id: id, model: view.model, warnings, schema_warnings, report }))
}

/// Asks about the pending calls of a session, and adds the decisions to the request. Without an answer, the calls are
/// the result.
pub(super) async fn ask(
    runtime: &Runtime,
    request: &mut RunRequest,
    waiting: RunResult,
) -> Result<Option<RunResult>, meerkat::Error> {
    let id = waiting.session_id;
    let RunControl { approver, cancel, .. } = &request.control;
    if let (Some(approver), Outcome::Pending(pending)) = (approver, &waiting.report.outcome)
        && pending.calls.is_empty()
        && let Some(approvals) = approver.decide(id, &pending.approvals).await
    {
        request.turn.input = RunInput { approvals, ..RunInput::default() };
        return Ok(None);
    }
    // Interrupting a question interrupts the run.
    if cancel.is_cancelled() {
        let reference = runtime.reference(id);
        let session = SessionRef { id, reference, created: false, resumable: true };
        return Err(meerkat::Error::Cancelled { session });
    }
    Ok(Some(waiting))
}
