//! Command hooks. A hook ends with everything it started when it exits, when its time is up, or when this process ends.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{HookFault, SecretMap};
use meerkat_process::{Ending, Input, Supervision};
use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::providers::SecretSource;

/// What a program gets of the environment besides its own variables: nothing that could be a secret.
const PASSED_ON: [&str; 12] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "SYSTEMROOT",
];

/// Number of bytes kept from the end of stderr.
const MAX_COMPLAINT: usize = 4096;

/// Number of bytes read at once.
const PIECE: usize = 8192;

/// How long output is read after the exit of a hook. A child that left the process group may hold the pipes open.
const GRACE: Duration = Duration::from_millis(250);

/// A program to run.
pub(super) struct Program<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a SecretMap,
    /// The executable to start as the supervisor; without one, only the hook's process group ends with it.
    pub(super) supervisor: Option<&'a Path>,
}

/// Runs a program with this input, and returns what it wrote.
pub(super) async fn run(
    program: Program<'_>,
    around: &SecretSource,
    input: Arc<[u8]>,
    limit: usize,
) -> Result<Vec<u8>, HookFault> {
    let mut child = start(&program, around)?;
    let mut group = Group::new(&child, program.supervisor);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read what it is told has its reasons.
            let _ = stdin.write_all(&input).await;
        }
    };
    let exit = async {
        let status = child.wait().await;
        // A child that the hook left behind may hold the pipes open, which are read to their end.
        group.end();
        status
    };
    let (mut output, mut complaint) = (Vec::new(), Vec::new());
    let talk = async {
        let (stdout, stderr) =
            (read_head(stdout, limit, &mut output), read_tail(stderr, MAX_COMPLAINT, &mut complaint));
        tokio::join!(write, stdout, stderr)
    };
    let status = until_exit(talk, exit).await;
    if output.len() > limit {
        return Err(HookFault::broken(format!(
            "it wrote more than {limit} bytes, which is what `hooks.payload_max_bytes` allows"
        )));
    }
    let status = status.map_err(|error| HookFault::broken(error.to_string()))?;
    let status = if program.supervisor.is_some() { unwrapped(status) } else { status };
    if status.success() { Ok(output) } else { Err(ended(status, &complaint, program.env)) }
}

fn start(program: &Program<'_>, around: &SecretSource) -> Result<Child, HookFault> {
    let mut command = match program.supervisor {
        None => Command::new(program.command),
        Some(supervisor) => {
            let supervision =
                Supervision { input: Input::Payload, ending: Ending::Prompt, confinement: None };
            let mut command = Command::new(supervisor);
            command.args(supervision.arguments(Path::new(program.command)));
            command
        }
    };
    let passed = PASSED_ON.iter().filter_map(|name| Some((*name, around(name)?)));
    command.args(program.args).env_clear().envs(passed).envs(program.env.expose());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let place = |error| HookFault::broken(format!("`{}` could not be started: {error}", program.command));
    command.spawn().map_err(place)
}

/// Waits for both, but after the exit for the rest no longer than a moment.
async fn until_exit<T>(talk: impl Future, exit: impl Future<Output = T>) -> T {
    tokio::pin!(talk, exit);
    tokio::select! {
        biased;
        _ = &mut talk => exit.await,
        status = &mut exit => {
            // What the hook wrote is in the pipes already.
            let _ = tokio::time::timeout(GRACE, talk).await;
            status
        }
    }
}

/// Reads until there is more than the limit and discards the rest, so that the writer never meets a closed pipe.
async fn read_head(pipe: Option<impl AsyncRead + Unpin>, limit: usize, head: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        if head.len() <= limit {
            head.extend_from_slice(&piece[..count]);
        }
    }
}

/// Reads to the end and keeps the last bytes.
async fn read_tail(pipe: Option<impl AsyncRead + Unpin>, limit: usize, tail: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        tail.extend_from_slice(&piece[..count]);
        tail.drain(..tail.len().saturating_sub(limit));
    }
}

/// Returns the status of the hook itself: a supervisor reports a signal as a shell does, as 128 and its number.
fn unwrapped(status: ExitStatus) -> ExitStatus {
    use std::os::unix::process::ExitStatusExt as _;
    match status.code() {
        Some(code @ 129..=192) => ExitStatus::from_raw(code - 128),
        _ => status,
    }
}

/// Says how a program ended and what it said last, without what it was given in secret.
fn ended(status: ExitStatus, complaint: &[u8], secrets: &SecretMap) -> HookFault {
    let said = String::from_utf8_lossy(complaint);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let last: String = secrets.redact(last).chars().take(200).collect();
    let said = if last.is_empty() { String::new() } else { format!(": {last}") };
    HookFault::broken(format!("it ended with {status}{said}"))
}

/// The process group of a hook that has no supervisor; dropping it kills the group.
///
/// A supervisor does more than that once the hook's stderr is no longer read, and must not be killed itself.
struct Group(Option<Pid>);

impl Group {
    fn new(child: &Child, supervisor: Option<&Path>) -> Self {
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self(leader.filter(|_| supervisor.is_none()))
    }

    fn end(&mut self) {
        if let Some(leader) = self.0.take() {
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
