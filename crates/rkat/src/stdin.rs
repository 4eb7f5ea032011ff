//! Reading stdin to its end, with a notice about what `rkat` is waiting for.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::env::{self, StdinKind};
use crate::error::CliError;
use crate::out;

/// Maximum input size, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Time after which a notice about an open pipe is printed.
const NOTICE_AFTER: Duration = Duration::from_secs(1);
/// Additional time for a silent pipe that is optional, if stderr is not a terminal.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// Purpose of stdin in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Stdin is the prompt.
    Prompt,
    /// Stdin is sent with the prompt because the user asked for it.
    Required,
    /// Stdin is sent with the prompt if it is a file, or a pipe with a writer.
    Optional,
}

/// Reads stdin to its end. Returns `None` if it is optional and there is nothing to read.
///
/// An inherited pipe without a writer would block a run forever. A user at the terminal sees the notice and decides;
/// anywhere else the command fails, because input from a slow pipe must not be dropped.
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
            out::stderr_line(notice(need));
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
    let lost = |_| std::io::Error::other("the stdin reader thread exited");
    let bytes = done.map_err(lost).flatten();
    text(bytes.map_err(|error| CliError::Io("cannot read stdin".to_owned(), error))?).map(Some)
}

const fn notice(need: Need) -> &'static str {
    match need {
        Need::Prompt => "waiting for the prompt on stdin",
        Need::Required => "waiting for stdin to end (it is sent with the prompt)",
        Need::Optional => "waiting for stdin to end (it is sent with the prompt); `--no-stdin` ignores it",
    }
}

fn text(bytes: Vec<u8>) -> Result<String, CliError> {
    if bytes.len() > MAX_BYTES {
        let limit = MAX_BYTES / 1024 / 1024;
        return Err(CliError::Usage(format!(
            "stdin is longer than {limit} MiB; give the agent a file to read"
        )));
    }
    String::from_utf8(bytes).map_err(|_| CliError::Usage("stdin is not UTF-8 text".to_owned()))
}

/// Reads a file, or stdin if the path is `-`.
pub(crate) fn read_file(path: &Path) -> std::io::Result<String> {
    if path == Path::new("-") {
        return std::io::read_to_string(std::io::stdin());
    }
    std::fs::read_to_string(path)
}

/// A read in a dedicated thread, which does not delay process exit.
struct Reading {
    /// Resolves at the first byte or at the end.
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
