//! Questions about tool calls at the terminal.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use meerkat::ports::BoxFuture;
use meerkat::{
    Approval, ApprovalRequest, ApprovalScope, Approver, Clock as _, Decision, SessionId, SystemClock,
    Timestamp, escape_line,
};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{error::Elapsed, timeout};
use tokio_util::sync::CancellationToken;

use super::display::RunDisplay;
use crate::{env, out};

/// Prompt for approvals at the terminal.
pub(super) struct TerminalPrompt {
    /// Display whose output a question must not interrupt.
    display: RunDisplay,
    dialog: Mutex<Dialog>,
}

/// State of the dialog with the user.
struct Dialog {
    /// Scopes that the user has approved for the rest of the run.
    allowed: Vec<ApprovalScope>,
    cancel: CancellationToken,
    /// Terminal input, until the first question.
    keyboard: Option<Box<dyn BufRead + Send>>,
    /// Lines typed by the user, from the first question on.
    typed: Option<UnboundedReceiver<String>>,
}

impl TerminalPrompt {
    /// Creates a prompt, or returns `None` without a terminal.
    pub(super) fn at_terminal(display: &RunDisplay, cancel: &CancellationToken) -> Option<Arc<dyn Approver>> {
        let keyboard = Some(env::keyboard()?);
        let dialog = Dialog { allowed: Vec::new(), cancel: cancel.clone(), keyboard, typed: None };
        Some(Arc::new(Self { display: display.clone(), dialog: Mutex::new(dialog) }))
    }
}

impl Approver for TerminalPrompt {
    fn decide<'a>(
        &'a self,
        _: SessionId,
        calls: &'a [ApprovalRequest],
    ) -> BoxFuture<'a, Option<Vec<Approval>>> {
        Box::pin(async move {
            self.display.flush().await;
            let mut dialog = self.dialog.lock().await;
            let mut decisions = Vec::new();
            for awaited in calls {
                let decision = dialog.decide(awaited).await?;
                let expires_at = Some(awaited.expires_at);
                decisions.push(Approval { call: awaited.call.id.clone(), expires_at, decision });
            }
            Some(decisions)
        })
    }
}

impl Dialog {
    /// Asks about a call; `None` if there is no answer.
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
            let Ok(line) = self.answer(*expires_at).await? else {
                out::stderr_line(&format!("\n{EXPIRED}"));
                return Some(Decision::Deny(Some(EXPIRED.to_owned())));
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

    /// Waits for a line until the request expires; `None` if the run is interrupted or the input ends.
    async fn answer(&mut self, expires_at: Timestamp) -> Option<Result<String, Elapsed>> {
        let cancel = self.cancel.clone();
        tokio::select! {
            () = cancel.cancelled() => None,
            line = timeout(time_left(expires_at), self.lines().recv()) => line.transpose(),
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
