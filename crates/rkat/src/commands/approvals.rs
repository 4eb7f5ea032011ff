//! Tool calls that wait for an approval: decided on the command line, or asked for at the terminal.

use std::collections::BTreeSet;
use std::time::Duration;

use meerkat::{
    Approval, AwaitedCall, Clock as _, Decision, Outcome, Pending, RunInput, RunResult, Runtime, SessionId,
    SystemClock,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::error::CliError;
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
    for AwaitedCall { call, expires_at } in waiting {
        // What names the call comes before what stands for all, and a denial before an approval.
        let decision = match (names(&args.deny, &call.id), names(&args.approve, &call.id)) {
            (true, _) => Decision::Deny(None),
            (_, true) => Decision::Approve,
            _ if said(&args.deny, &call.id) => Decision::Deny(None),
            _ if said(&args.approve, &call.id) => Decision::Approve,
            _ => continue,
        };
        approvals.push(Approval { call: call.id, expires_at: Some(expires_at), decision });
    }
    Ok(approvals)
}

/// Asks a person at the terminal.
pub(super) struct Asker {
    /// Tools whose calls the person has approved for the rest of the run.
    allowed: BTreeSet<String>,
    cancel: CancellationToken,
    /// What is typed, line by line, once anything was asked.
    typed: Option<UnboundedReceiver<String>>,
}

impl Asker {
    /// Returns one, if there is a terminal to ask at.
    pub(super) fn at_terminal(cancel: CancellationToken) -> Option<Self> {
        let is_terminal = env::stdin_is_terminal() && env::stderr_is_terminal();
        is_terminal.then(|| Self { allowed: BTreeSet::new(), cancel, typed: None })
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
            let expires_at = Some(awaited.expires_at);
            said.push(Approval { call: awaited.call.id.clone(), expires_at, decision });
        }
        Some(RunInput { approvals: said, ..RunInput::default() })
    }

    async fn decide(&mut self, AwaitedCall { call, expires_at }: &AwaitedCall) -> Option<Decision> {
        if self.allowed.contains(&call.name) {
            return Some(Decision::Approve);
        }
        let typed = self.typed.get_or_insert_with(lines);
        // What was typed before the question is no answer to it.
        while typed.try_recv().is_ok() {}
        out::say(&format!("the agent wants to call {} {}", call.name, readable(&call.args.to_string())));
        out::ask("run it? [y]es, [n]o, [a]lways in this run, or no with what to do instead: ");
        let left = Duration::try_from(expires_at.duration_since(SystemClock.now())).unwrap_or_default();
        let answer = tokio::select! {
            () = self.cancel.cancelled() => return None,
            answer = tokio::time::timeout(left, typed.recv()) => answer,
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

/// Reads lines from stdin in a thread of its own, which nobody waits for when the program ends.
fn lines() -> UnboundedReceiver<String> {
    let (send, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if line.ok().and_then(|line| send.send(line).ok()).is_none() {
                return;
            }
        }
    });
    lines
}

/// The longest arguments that are shown.
const SHOWN: usize = 4000;

/// Shows a text as it is: nothing in it moves the cursor or turns the direction of writing around.
fn readable(text: &str) -> String {
    let length = text.chars().count();
    let is_odd = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
    };
    let show =
        |letter: char| if is_odd(letter) { letter.escape_unicode().to_string() } else { letter.to_string() };
    let shown: String = text.chars().take(SHOWN).map(show).collect();
    if length > SHOWN { format!("{shown}… ({} characters more)", length - SHOWN) } else { shown }
}

/// Shows a call that waits for an approval.
pub(super) fn shown(AwaitedCall { call, expires_at }: &AwaitedCall) -> Value {
    json!({ "tool_use_id": call.id, "tool_name": call.name, "args": call.args, "expires_at": expires_at })
}

/// Says how the calls of a session are decided.
pub(super) fn advice(session: SessionId) -> String {
    format!(
        "these calls wait for an approval: `rkat run --resume={session} --approve all` runs them, `--deny all` does not; \
         limits, a schema and tools that were given for the run alone are to be given again"
    )
}

#[cfg(test)]
mod tests {
    use super::{SHOWN, readable};

    #[test]
    fn what_is_approved_is_what_is_shown() {
        assert_eq!(readable("rm \u{202e}x\u{9b}2J"), "rm \\u{202e}x\\u{9b}2J");
        let long = "a".repeat(SHOWN + 7);
        assert!(readable(&long).ends_with("a… (7 characters more)"));
    }
}
