//! Command hooks. When a hook exits or times out, or this process ends, everything the hook started is killed.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{HookFailure, SecretMap};
use meerkat_process::{Input, ShutdownMode, Supervision};
use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::secrets::SecretSource;

/// Environment variables that a hook inherits in addition to its own: none that could be a secret.
const INHERITED_VARIABLES: [&str; 12] = [
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

/// Maximum number of bytes kept from the end of stderr.
const MAX_STDERR_BYTES: usize = 4096;

/// Size of the read buffer, in bytes.
const BUFFER_SIZE: usize = 8192;

/// Time allowed for reading output after a hook exits. A child that left the process group may hold the pipes open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// A command to run.
pub(super) struct HookCommand<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a SecretMap,
    /// The executable to start as the supervisor; without one, only the hook's process group is killed with it.
    pub(super) supervisor: Option<&'a Path>,
}

/// Runs a command with the given input and returns its output.
pub(super) async fn run(
    command_line: HookCommand<'_>,
    environment: &SecretSource,
    input: Arc<[u8]>,
    limit: usize,
) -> Result<Vec<u8>, HookFailure> {
    let mut child = start(&command_line, environment)?;
    let mut group = Group::new(&child, command_line.supervisor);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command may exit without reading its input.
            let _ = stdin.write_all(&input).await;
        }
    };
    let exit = async {
        let status = child.wait().await;
        // A child that the hook left behind may hold the pipes open, which are read to the end.
        group.end();
        status
    };
    let (mut output, mut stderr_tail) = (Vec::new(), Vec::new());
    let io = async {
        let (stdout, stderr) =
            (read_head(stdout, limit, &mut output), read_tail(stderr, MAX_STDERR_BYTES, &mut stderr_tail));
        tokio::join!(write, stdout, stderr)
    };
    let status = until_exit(io, exit).await;
    if output.len() > limit {
        return Err(HookFailure::runtime_error(format!(
            "wrote more than {limit} bytes (`hooks.payload_max_bytes`)"
        )));
    }
    let status = status.map_err(|error| HookFailure::runtime_error(error.to_string()))?;
    let status = if command_line.supervisor.is_some() { hook_status(status) } else { status };
    if status.success() { Ok(output) } else { Err(failure(status, &stderr_tail, command_line.env)) }
}

fn start(command_line: &HookCommand<'_>, environment: &SecretSource) -> Result<Child, HookFailure> {
    let mut command = match command_line.supervisor {
        None => Command::new(command_line.command),
        Some(supervisor) => {
            let supervision =
                Supervision { input: Input::Payload, ending: ShutdownMode::Prompt, confinement: None };
            let mut command = Command::new(supervisor);
            command.args(supervision.arguments(Path::new(command_line.command)));
            command
        }
    };
    let inherited = INHERITED_VARIABLES.iter().filter_map(|name| Some((*name, environment(name)?)));
    command.args(command_line.args).env_clear().envs(inherited).envs(command_line.env.expose());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let failed =
        |error| HookFailure::runtime_error(format!("cannot start `{}`: {error}", command_line.command));
    command.spawn().map_err(failed)
}

/// Waits for both; after the exit, waits for I/O only up to the drain timeout.
async fn until_exit<T>(io: impl Future, exit: impl Future<Output = T>) -> T {
    tokio::pin!(io, exit);
    tokio::select! {
        biased;
        _ = &mut io => exit.await,
        status = &mut exit => {
            // The hook's output is already in the pipes.
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, io).await;
            status
        }
    }
}

/// Reads until the limit is exceeded and discards the rest, so that the writer never sees a closed pipe.
async fn read_head(pipe: Option<impl AsyncRead + Unpin>, limit: usize, head: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; BUFFER_SIZE];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        if head.len() <= limit {
            head.extend_from_slice(&buffer[..count]);
        }
    }
}

/// Reads to the end and keeps the last bytes.
async fn read_tail(pipe: Option<impl AsyncRead + Unpin>, limit: usize, tail: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; BUFFER_SIZE];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        tail.extend_from_slice(&buffer[..count]);
        tail.drain(..tail.len().saturating_sub(limit));
    }
}

/// Returns the status of the hook itself: like a shell, a supervisor reports a signal as 128 plus its number.
fn hook_status(status: ExitStatus) -> ExitStatus {
    use std::os::unix::process::ExitStatusExt as _;
    match status.code() {
        Some(code @ 129..=192) => ExitStatus::from_raw(code - 128),
        _ => status,
    }
}

/// Builds the error of a failed command from its status and its last line on stderr, with its secrets redacted.
fn failure(status: ExitStatus, stderr_tail: &[u8], secrets: &SecretMap) -> HookFailure {
    let text = String::from_utf8_lossy(stderr_tail);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let last: String = secrets.redact(last).chars().take(200).collect();
    let suffix = if last.is_empty() { String::new() } else { format!(": {last}") };
    HookFailure::runtime_error(format!("ended with {status}{suffix}"))
}

/// The process group of a hook without a supervisor; dropping it kills the group.
///
/// A supervisor cleans up by itself once the hook's stderr is closed, and must not be killed.
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
