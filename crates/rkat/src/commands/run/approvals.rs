//! Tool calls of a resumed session that await approval.

use std::collections::BTreeMap;

use meerkat::{
    Approval, Decision, Outcome, Pending, RunControl, RunInput, RunReport, RunRequest, RunResult, Runtime,
    SessionId, SessionRef,
};

use crate::args::RunArgs;
use crate::error::CliError;

/// Value that stands for every pending call.
const ALL: &str = "all";

/// Returns `true` if calls are decided on the command line, so that no prompt is required.
pub(super) fn has_decisions(args: &RunArgs) -> bool {
    !args.approve.is_empty() || !args.deny.is_empty()
}

/// Returns the decisions on calls from the command line. Whether a call is pending is decided where the run starts.
pub(super) async fn parse_decisions(
    args: &RunArgs,
    runtime: &Runtime,
    session: SessionId,
) -> Result<Vec<Approval>, CliError> {
    if !has_decisions(args) {
        return Ok(Vec::new());
    }
    let pending = runtime.sessions().pending_calls(session).await?.approvals;
    let pending: BTreeMap<_, _> =
        pending.into_iter().map(|awaited| (awaited.call.id, awaited.expires_at)).collect();
    let all =
        |ids: &[String]| if ids.iter().any(|id| id == ALL) { pending.keys().collect() } else { Vec::new() };
    // An id takes precedence over `all`, and a denial over an approval.
    let mut decisions = BTreeMap::new();
    for (ids, decision) in [
        (named(&args.deny), Decision::Deny(None)),
        (named(&args.approve), Decision::Approve),
        (all(&args.deny), Decision::Deny(None)),
        (all(&args.approve), Decision::Approve),
    ] {
        for id in ids {
            decisions.entry(id).or_insert_with(|| decision.clone());
        }
    }
    if decisions.is_empty() {
        return Err(CliError::Usage(format!("no call of session {session} is awaiting approval")));
    }
    let approval = |(id, decision): (&String, Decision)| Approval {
        call: id.clone(),
        expires_at: pending.get(id).copied(),
        decision,
    };
    Ok(decisions.into_iter().map(approval).collect())
}

/// Returns the ids that name one call.
fn named(ids: &[String]) -> Vec<&String> {
    ids.iter().filter(|id| *id != ALL).collect()
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
