//! Tool calls that wait for an approval: decided on the command line, or asked for at the terminal.

use std::collections::BTreeSet;
use std::time::Duration;

use meerkat::{
    Approval, AwaitedCall, Clock as _, Decision, Outcome, Pending, RunInput, RunResult, Runtime, SessionId,
    SystemClock,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::error::CliError;
use crate::render::clip;
use crate::{env, out};

/// What stands for every call that waits.
const ALL: &str = "all";

/// Says whether calls are decided on the command line, so that there need be no prompt.
pub(super) fn are_decided(args: &RunArgs) -> bool {
    !args.approve.is_empty() || !args.deny.is_empty()
}

/// Returns what the command line says of the calls that wait.
pub(super) async fn decided(
    args: &RunArgs,
    runtime: &Runtime,
    session: SessionId,
) -> Result<Vec<Approval>, CliError> {
    if !are_decided(args) {
        return Ok(Vec::new());
    }
    let waiting = runtime.sessions().pending_calls(session).await?.approvals;
    if waiting.is_empty() {
        let message = format!("no call of session {session} waits for an approval");
        return Err(CliError::Usage(message));
    }
    let names = |ids: &[String], id: &str| ids.iter().any(|given| given == id);
    let said = |ids: &[String], id: &str| names(ids, id) || names(ids, ALL);
    let named: BTreeSet<_> = args.approve.iter().chain(&args.deny).filter(|id| *id != ALL).cloned().collect();
    let known = |id: &String| waiting.iter().any(|awaited| awaited.call.id == *id);
    if let Some(unknown) = named.iter().find(|id| !known(id)) {
        let ids: Vec<_> = waiting.iter().map(|awaited| format!("`{}`", awaited.call.id)).collect();
        let message = format!("no call that waits has the id `{unknown}`; waiting: {}", ids.join(", "));
        return Err(CliError::Usage(message));
    }
    let mut approvals = Vec::new();
    for AwaitedCall { call, .. } in waiting {
        // What names the call comes before what stands for all, and a denial before an approval.
        let decision = match (names(&args.deny, &call.id), names(&args.approve, &call.id)) {
            (true, _) => Decision::Deny(None),
            (_, true) => Decision::Approve,
            _ if said(&args.deny, &call.id) => Decision::Deny(None),
            _ if said(&args.approve, &call.id) => Decision::Approve,
            _ => continue,
        };
        approvals.push(Approval { call: call.id, decision });
    }
    Ok(approvals)
}

/// Asks a person at the terminal.
pub(super) struct Asker {
    /// Tools whose calls the person has approved for the rest of the run.
    allowed: BTreeSet<String>,
    cancel: CancellationToken,
}

impl Asker {
    /// Returns one, if there is a terminal to ask at.
    pub(super) fn at_terminal(cancel: CancellationToken) -> Option<Self> {
        let is_terminal = env::stdin_is_terminal() && env::stderr_is_terminal();
        is_terminal.then(|| Self { allowed: BTreeSet::new(), cancel })
    }

    /// Asks about the calls of a run that waits for nothing else; `None` if nobody answers for all of them.
    pub(super) async fn ask(&mut self, result: &RunResult) -> Option<RunInput> {
        let Outcome::Pending(Pending { calls, approvals }) = &result.report.outcome else { return None };
        if !calls.is_empty() {
            return None;
        }
        let mut said = Vec::new();
        for awaited in approvals {
            let decision = self.decide(awaited).await?;
            said.push(Approval { call: awaited.call.id.clone(), decision });
        }
        Some(RunInput { approvals: said, ..RunInput::default() })
    }

    async fn decide(&mut self, AwaitedCall { call, expires_at }: &AwaitedCall) -> Option<Decision> {
        if self.allowed.contains(&call.name) {
            return Some(Decision::Approve);
        }
        out::say(&format!("the agent wants to call {} {}", call.name, clip(&call.args.to_string(), 1000)));
        out::ask("run it? [y]es, [n]o, [a]lways in this run, or no with what to do instead: ");
        let left = Duration::try_from(expires_at.duration_since(SystemClock.now())).unwrap_or_default();
        let answer = tokio::select! {
            () = self.cancel.cancelled() => return None,
            answer = tokio::time::timeout(left, line()) => answer,
        };
        let Ok(answer) = answer else {
            out::say("\nnobody answered in time");
            return Some(Decision::Deny(Some("nobody answered in time".to_owned())));
        };
        match answer?.trim() {
            "y" | "Y" | "yes" => Some(Decision::Approve),
            "a" | "A" | "always" => {
                self.allowed.insert(call.name.clone());
                Some(Decision::Approve)
            }
            "" | "n" | "N" | "no" => Some(Decision::Deny(None)),
            reason => Some(Decision::Deny(Some(reason.to_owned()))),
        }
    }
}

/// Reads a line from stdin in a thread of its own, which nobody waits for when the program ends.
async fn line() -> Option<String> {
    let (send, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().read_line(&mut text);
        let _ = send.send(read.ok().filter(|length| *length > 0).map(|_| text));
    });
    line.await.ok().flatten()
}

/// Shows a call that waits for an approval.
pub(super) fn shown(AwaitedCall { call, expires_at }: &AwaitedCall) -> Value {
    json!({ "tool_use_id": call.id, "tool_name": call.name, "args": call.args, "expires_at": expires_at })
}

/// Says how the calls of a session are decided.
pub(super) fn advice(session: SessionId) -> String {
    format!(
        "these calls wait for an approval: `rkat run --resume={session} --approve all` runs them, `--deny all` does not"
    )
}
