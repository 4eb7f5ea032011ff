//! Tool calls awaiting approval: decided on the command line or at the terminal.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::time::Duration;

use meerkat::{
    Approval, ApprovalRequest, ApprovalScope, Clock as _, Decision, Outcome, Pending, RunInput, RunResult,
    Runtime, SessionId, SystemClock, Timestamp, escape_line,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::error::CliError;
use crate::{env, out};

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
    let names = |ids: &[String], id: &str| ids.iter().any(|named| named == id);
    let covers = |ids: &[String], id: &str| names(ids, id) || names(ids, ALL);
    let named: BTreeSet<_> = args.approve.iter().chain(&args.deny).filter(|id| *id != ALL).cloned().collect();
    let known = |id: &String| pending.iter().any(|awaited| awaited.call.id == *id);
    if let Some(unknown) = named.iter().find(|id| !known(id)) {
        let ids: Vec<_> = pending.iter().map(|awaited| format!("`{}`", awaited.call.id)).collect();
        let message = format!("no pending call has the id `{unknown}`; pending: {}", ids.join(", "));
        return Err(CliError::Usage(message));
    }
    let mut approvals = Vec::new();
    for ApprovalRequest { call, expires_at } in pending {
        // An id takes precedence over `all`, and a denial over an approval.
        let decision = match (names(&args.deny, &call.id), names(&args.approve, &call.id)) {
            (true, _) => Decision::Deny(None),
            (_, true) => Decision::Approve,
            _ if covers(&args.deny, &call.id) => Decision::Deny(None),
            _ if covers(&args.approve, &call.id) => Decision::Approve,
            _ => continue,
        };
        approvals.push(Approval { call: call.id, expires_at: Some(expires_at), decision });
    }
    Ok(approvals)
}

/// Prompt for approvals at the terminal.
pub(super) struct TerminalPrompt {
    /// Scopes that the user has approved for the rest of the run.
    allowed: Vec<ApprovalScope>,
    cancel: CancellationToken,
    /// Terminal input, until the first question.
    keyboard: Option<Box<dyn BufRead + Send>>,
    /// Lines typed by the user, from the first question on.
    typed: Option<UnboundedReceiver<String>>,
}

/// Result of a question.
enum Answer {
    Line(String),
    Expired,
}

impl TerminalPrompt {
    /// Creates a prompt, or returns `None` without a terminal.
    pub(super) fn at_terminal(cancel: CancellationToken) -> Option<Self> {
        let keyboard = Some(env::keyboard()?);
        Some(Self { allowed: Vec::new(), cancel, keyboard, typed: None })
    }

    /// Asks about the pending calls of a run that is waiting for nothing else; `None` if any question gets no answer.
    pub(super) async fn ask(&mut self, result: &RunResult) -> Option<RunInput> {
        let Outcome::Pending(Pending { calls, approvals }) = &result.report.outcome else { return None };
        if !calls.is_empty() {
            return None;
        }
        let mut decisions = Vec::new();
        for awaited in approvals {
            let decision = self.decide(awaited).await?;
            let expires_at = Some(awaited.expires_at);
            decisions.push(Approval { call: awaited.call.id.clone(), expires_at, decision });
        }
        Some(RunInput { approvals: decisions, ..RunInput::default() })
    }

    async fn decide(&mut self, ApprovalRequest { call, expires_at }: &ApprovalRequest) -> Option<Decision> {
        let scope = ApprovalScope::for_call(call);
        if self.allowed.iter().any(|allowed| allowed.covers(call)) {
            return Some(Decision::Approve);
        }
        if time_left(*expires_at).is_zero() {
            out::stderr_line(&format!(
                "the approval request for {} expired, so the call is denied",
                escape_line(&call.name)
            ));
            return Some(Decision::Deny(Some(EXPIRED.to_owned())));
        }
        let (name, args) = (escape_line(&call.name), call.args.to_string());
        out::stderr_line(&format!("the agent wants to call {name} {}", shortened(&args)));
        // Input typed before the question is not an answer to it.
        while self.lines().try_recv().is_ok() {}
        loop {
            let covered = escape_line(&scope.to_string()).into_owned();
            out::ask(&format!(
                "Run it? [y]es, [n]o, [a]lways for {covered}, [?], or type what to do instead: "
            ));
            let line = match self.answer(*expires_at).await? {
                Answer::Line(line) => line,
                Answer::Expired => {
                    out::stderr_line(&format!("\n{EXPIRED}"));
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

    /// Waits for a line; `None` if the run is interrupted or the input ends.
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

    /// Returns the lines typed by the user. The thread that reads them does not delay process exit.
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

/// Reason sent to the agent if the user does not answer in time.
const EXPIRED: &str = "approval timed out";

fn time_left(expires_at: Timestamp) -> Duration {
    Duration::try_from(expires_at.duration_since(SystemClock.now())).unwrap_or_default()
}

/// Explains the answers, and shows arguments that the question truncated.
fn explain(args: &str, covered: &str) {
    if args.chars().count() > MAX_ARG_CHARS {
        out::stderr_line(&format!("all arguments: {}", escape_line(args)));
    }
    out::stderr_line("  y  run this call");
    out::stderr_line("  n  deny it; so does an empty line");
    out::stderr_line(&format!("  a  run it, and do not ask again for {covered} during this run"));
    out::stderr_line("  any other text denies the call and is sent to the agent");
}

/// Maximum number of characters of arguments in a question.
const MAX_ARG_CHARS: usize = 4000;

/// Escapes and truncates a text, so that it cannot move the cursor or reverse the writing direction.
fn shortened(text: &str) -> String {
    let length = text.chars().count();
    let head: String = text.chars().take(MAX_ARG_CHARS).collect();
    let escaped = escape_line(&head);
    if length > MAX_ARG_CHARS {
        format!("{escaped}… ({} more characters; ? shows all)", length - MAX_ARG_CHARS)
    } else {
        escaped.into_owned()
    }
}

/// Describes a call awaiting approval.
pub(super) fn approval_json(ApprovalRequest { call, expires_at }: &ApprovalRequest) -> Value {
    json!({ "tool_use_id": call.id, "tool_name": call.name, "args": call.args, "expires_at": expires_at })
}

/// Returns a hint about deciding the pending calls of a session.
pub(super) fn resume_hint(session: SessionId) -> String {
    format!(
        "calls awaiting approval: run them with `rkat run --resume={session} --approve all`, or deny them with \
         `--deny all`; pass this run's limits, schema, and tools again"
    )
}

#[cfg(test)]
mod tests {
    use super::{MAX_ARG_CHARS, shortened};

    #[test]
    fn shown_arguments_are_escaped_and_truncated() {
        assert_eq!(shortened("rm \u{202e}x\u{9b}2J\u{200b}"), "rm \\u202ex\\u009b2J\\u200b");
        let long = "a".repeat(MAX_ARG_CHARS + 7);
        assert!(shortened(&long).ends_with("a… (7 more characters; ? shows all)"));
    }
}
