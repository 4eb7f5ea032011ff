//! Tool calls that wait for an approval: decided on the command line, or asked for at the terminal.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::time::Duration;

use meerkat::{
    Approval, ApprovalScope, AwaitedCall, Clock as _, Decision, Outcome, Pending, RunInput, RunResult,
    Runtime, SessionId, SystemClock, Timestamp, escape_line,
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
    /// What the person has approved for the rest of the run.
    allowed: Vec<ApprovalScope>,
    cancel: CancellationToken,
    /// Where answers come from, until anything was asked.
    keyboard: Option<Box<dyn BufRead + Send>>,
    /// What is typed, line by line, once anything was asked.
    typed: Option<UnboundedReceiver<String>>,
}

/// What came of a question.
enum Answer {
    Line(String),
    Expired,
}

impl Asker {
    /// Returns one, if there is a terminal to ask at.
    pub(super) fn at_terminal(cancel: CancellationToken) -> Option<Self> {
        let keyboard = Some(env::keyboard()?);
        Some(Self { allowed: Vec::new(), cancel, keyboard, typed: None })
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
        let scope = ApprovalScope::for_call(call);
        if self.allowed.iter().any(|allowed| allowed.covers(call)) {
            return Some(Decision::Approve);
        }
        if time_left(*expires_at).is_zero() {
            out::say(&format!("the approval of {} expired, so the call is denied", escape_line(&call.name)));
            return Some(Decision::Deny(Some(EXPIRED.to_owned())));
        }
        let (name, args) = (escape_line(&call.name), call.args.to_string());
        out::say(&format!("the agent wants to call {name} {}", shortened(&args)));
        // What was typed before the question is no answer to it.
        while self.lines().try_recv().is_ok() {}
        loop {
            let covered = escape_line(&scope.to_string()).into_owned();
            out::ask(&format!("run it? [y]es, [n]o, [a]lways for {covered}, [?], or what to do instead: "));
            let line = match self.answer(*expires_at).await? {
                Answer::Line(line) => line,
                Answer::Expired => {
                    out::say(&format!("\n{EXPIRED}"));
                    return Some(Decision::Deny(Some(EXPIRED.to_owned())));
                }
            };
            match line.trim() {
                "y" | "Y" | "yes" => return Some(Decision::Approve),
                "a" | "A" | "always" => {
                    self.allowed.push(scope);
                    return Some(Decision::Approve);
                }
                "" | "n" | "N" | "no" => return Some(Decision::Deny(None)),
                "?" | "help" => explain(&args, &covered),
                reason => return Some(Decision::Deny(Some(reason.to_owned()))),
            }
        }
    }

    /// Waits for a line; `None` if the run is interrupted or the input has ended.
    async fn answer(&mut self, expires_at: Timestamp) -> Option<Answer> {
        let cancel = self.cancel.clone();
        tokio::select! {
            () = cancel.cancelled() => None,
            line = tokio::time::timeout(time_left(expires_at), self.lines().recv()) => match line {
                Ok(line) => line.map(Answer::Line),
                Err(_) => Some(Answer::Expired),
            },
        }
    }

    /// Returns the lines that are typed. The thread that reads them does not delay the end of the program.
    fn lines(&mut self) -> &mut UnboundedReceiver<String> {
        let keyboard = self.keyboard.take();
        self.typed.get_or_insert_with(|| {
            let (send, lines) = unbounded_channel();
            std::thread::spawn(move || {
                let lines = keyboard.into_iter().flat_map(BufRead::lines);
                lines.map_while(Result::ok).try_for_each(|line| send.send(line))
            });
            lines
        })
    }
}

/// What the agent is told of a call that nobody decided.
const EXPIRED: &str = "nobody answered in time";

fn time_left(expires_at: Timestamp) -> Duration {
    Duration::try_from(expires_at.duration_since(SystemClock.now())).unwrap_or_default()
}

/// Explains the answers, and shows what the question cut off.
fn explain(args: &str, covered: &str) {
    if args.chars().count() > SHOWN {
        out::say(&format!("all arguments: {}", escape_line(args)));
    }
    out::say("  y  run this call");
    out::say("  n  deny it; an empty line does too");
    out::say(&format!("  a  run it, and until this run ends do not ask again for {covered}"));
    out::say("  any other text denies the call and is sent to the agent");
}

/// The longest arguments that are shown.
const SHOWN: usize = 4000;

/// Shows a text as it is: nothing in it moves the cursor or turns the direction of writing around.
fn shortened(text: &str) -> String {
    let length = text.chars().count();
    let head: String = text.chars().take(SHOWN).collect();
    let shown = escape_line(&head);
    if length > SHOWN {
        format!("{shown}… ({} characters more; ? shows all)", length - SHOWN)
    } else {
        shown.into_owned()
    }
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
    use super::{SHOWN, shortened};

    #[test]
    fn what_is_approved_is_what_is_shown() {
        assert_eq!(shortened("rm \u{202e}x\u{9b}2J\u{200b}"), "rm \\u202ex\\u009b2J\\u200b");
        let long = "a".repeat(SHOWN + 7);
        assert!(shortened(&long).ends_with("a… (7 characters more; ? shows all)"));
    }
}
