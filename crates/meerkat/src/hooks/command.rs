//! A program as a hook. It runs in a process group of its own, which ends with it, with its time, or with us.

use std::process::Stdio;
use std::sync::Arc;

use meerkat_core::{HookFault, SecretMap};
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

/// How much of what a program complains of is read.
const MAX_COMPLAINT: usize = 4096;

/// A program to run.
pub(super) struct Program<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a SecretMap,
}

/// Runs a program with this input, and returns what it wrote.
pub(super) async fn run(
    program: Program<'_>,
    around: &SecretSource,
    input: Arc<[u8]>,
    limit: usize,
) -> Result<Vec<u8>, HookFault> {
    let mut group = Group(start(&program, around)?);
    let child = &mut group.0;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read what it is told has its reasons.
            let _ = stdin.write_all(&input).await;
        }
    };
    let ((), output, complaint) = tokio::join!(write, read(stdout, limit), read(stderr, MAX_COMPLAINT));
    if output.len() > limit {
        return Err(HookFault::broken(format!(
            "it wrote more than {limit} bytes, which is what `hooks.payload_max_bytes` allows"
        )));
    }
    let status = child.wait().await.map_err(|error| HookFault::broken(error.to_string()))?;
    if status.success() { Ok(output) } else { Err(ended(status, &complaint, program.env)) }
}

fn start(program: &Program<'_>, around: &SecretSource) -> Result<Child, HookFault> {
    let mut command = Command::new(program.command);
    let passed = PASSED_ON.iter().filter_map(|name| Some((*name, around(name)?)));
    command.args(program.args).env_clear().envs(passed).envs(program.env.expose());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let place = |error| HookFault::broken(format!("`{}` could not be started: {error}", program.command));
    command.spawn().map_err(place)
}

/// Reads up to one byte more than the limit; the rest is left to whoever ends the program.
async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(limit as u64 + 1).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Says how a program ended and what it said last, without what it was given in secret.
fn ended(status: std::process::ExitStatus, complaint: &[u8], secrets: &SecretMap) -> HookFault {
    let said = String::from_utf8_lossy(complaint);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let last: String = secrets.redact(last).chars().take(200).collect();
    let said = if last.is_empty() { String::new() } else { format!(": {last}") };
    HookFault::broken(format!("it ended with {status}{said}"))
}

/// A running program; dropping it ends everything the program started.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.0.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}
