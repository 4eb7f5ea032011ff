//! Reading stdin to its end, without leaving a person or a script to wonder what `rkat` waits for.

use std::io::Read as _;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::env::{self, StdinKind};
use crate::error::CliError;
use crate::out;

/// Longest input, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Time after which a pipe that has not ended is announced.
const NOTICE_AFTER: Duration = Duration::from_secs(1);
/// Time that a silent pipe is given after that if the run can do without it and no person sees the notice.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// What stdin is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is the prompt.
    Prompt,
    /// It goes with the prompt, and the user asked for it.
    Required,
    /// It goes with the prompt if it is a file, or a pipe that is written to.
    Optional,
}

/// Reads stdin to its end. Returns `None` if it is optional and there is nothing to read.
///
/// A pipe that was inherited and that no process writes to would hold a run up forever. A person at the terminal sees
/// the notice and decides; anywhere else the command fails, because a slow pipe must not be dropped.
pub(crate) async fn read(need: Need) -> Result<Option<String>, CliError> {
    let kind = env::stdin_kind();
    if need == Need::Optional && matches!(kind, StdinKind::Terminal | StdinKind::Nothing) {
        return Ok(None);
    }
    let Reading { started, mut ended } = start();
    let done = match timeout(NOTICE_AFTER, &mut ended).await {
        Ok(done) => done,
        Err(_) if kind != StdinKind::Stream => ended.await,
        Err(_) => {
            out::say(notice(need));
            let can_skip = need == Need::Optional && !env::stderr_is_terminal();
            if can_skip && timeout(SILENCE_LIMIT, started).await.is_err() {
                return Err(CliError::Usage(
                    "stdin is open and sent nothing; pass `--stdin` to wait for it, or `--no-stdin` to ignore it"
                        .to_owned(),
                ));
            }
            ended.await
        }
    };
    let lost = |_| std::io::Error::other("the reading thread has died");
    let bytes = done.map_err(lost).flatten();
    text(bytes.map_err(|error| CliError::Io("stdin cannot be read".to_owned(), error))?).map(Some)
}

const fn notice(need: Need) -> &'static str {
    match need {
        Need::Prompt => "waiting for the prompt on stdin",
        Need::Required => "waiting for the end of stdin, which goes with the prompt",
        Need::Optional => "waiting for the end of stdin, which goes with the prompt; `--no-stdin` ignores it",
    }
}

fn text(bytes: Vec<u8>) -> Result<String, CliError> {
    if bytes.len() > MAX_BYTES {
        let limit = MAX_BYTES / 1024 / 1024;
        return Err(CliError::Usage(format!(
            "stdin is longer than {limit} MB; give the agent a file to read"
        )));
    }
    String::from_utf8(bytes).map_err(|_| CliError::Usage("stdin is not UTF-8 text".to_owned()))
}

/// A read in a thread of its own, which does not delay the end of the program.
struct Reading {
    /// The first bytes, or the end.
    started: oneshot::Receiver<()>,
    ended: oneshot::Receiver<std::io::Result<Vec<u8>>>,
}

fn start() -> Reading {
    let (send_start, started) = oneshot::channel();
    let (send_end, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().take(MAX_BYTES as u64 + 1);
        let mut bytes = Vec::new();
        let first = stdin.by_ref().take(1).read_to_end(&mut bytes);
        // The reader may have given up.
        let _ = send_start.send(());
        let all = first.and_then(|_| stdin.read_to_end(&mut bytes));
        let _ = send_end.send(all.map(|_| bytes));
    });
    Reading { started, ended }
}
