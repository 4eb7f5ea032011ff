//! Connection to a server process: messages as lines on its stdin and stdout.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use meerkat_process::GRACE;
use rmcp::RoleClient;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::time::{sleep_until, timeout};

use super::lines::{Line, Lines};
use super::log::ProcessLog;
use super::spawn::{Launcher, SpawnError, StartedProcess};
use crate::wire::{MAX_MESSAGE, Pending};

/// Grace period for a supervisor, which may need two periods each for the server and for its leftover processes.
const SUPERVISED_GRACE: Duration = Duration::from_secs(9);

/// A server that runs as a child process.
#[derive(Debug)]
pub(crate) struct StdioChild {
    group: Group,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    lines: Lines<BufReader<ChildStdout>>,
    pending: Arc<Pending>,
    log: Arc<ProcessLog>,
}

/// Processes of a server. They do not outlive this value.
#[derive(Debug)]
struct Group {
    child: Child,
    leader: Option<Pid>,
    supervised: bool,
}

impl StdioChild {
    /// Starts a server.
    pub(crate) fn start(
        launcher: &Launcher,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Self, SpawnError> {
        let started = launcher.start(command, args, env)?;
        let log = Arc::new(ProcessLog::new(&started));
        let StartedProcess { mut child, supervised } = started;
        let no_pipe = || SpawnError::NotStarted {
            program: command.into(),
            source: io::Error::other("it has no standard streams"),
        };
        let stdin = child.stdin.take().ok_or_else(no_pipe)?;
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        let stderr = child.stderr.take().ok_or_else(no_pipe)?;
        tokio::spawn(keep_tail(stderr, Arc::clone(&log), command.to_owned()));
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self {
            group: Group { child, leader, supervised },
            stdin: Arc::new(Mutex::new(Some(stdin))),
            lines: Lines::new(BufReader::with_capacity(64 * 1024, stdout), MAX_MESSAGE),
            pending: Arc::default(),
            log,
        })
    }

    /// Disables the deadline for the response to `server/discover`.
    pub(crate) fn without_deadline(mut self) -> Self {
        self.pending = Arc::new(Pending::without_deadline());
        self
    }

    /// Returns the log of the process, which stays readable after the connection is closed.
    pub(crate) fn log(&self) -> Arc<ProcessLog> {
        Arc::clone(&self.log)
    }

    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = self.lines.next().await.ok().flatten()?;
            match line {
                Line::Whole(line) => {
                    if let Some(message) = self.pending.read(&line) {
                        self.log.note_message();
                        return Some(message);
                    }
                    self.log.note_stray(&line);
                }
                // If the request it responds to is unknown, the connection is unusable.
                Line::TooLong { head } => return self.pending.too_long(&head),
            }
        }
    }
}

impl Transport<RoleClient> for StdioChild {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.pending.sent(&item);
        if let ClientJsonRpcMessage::Request(request) = &item {
            self.log.note_request(request.request.method());
        }
        let stdin = Arc::clone(&self.stdin);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            let stdin = stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let pending = Arc::clone(&self.pending);
        let silence = async {
            match pending.probe_deadline() {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let message = tokio::select! {
            message = self.next_message() => message,
            () = silence => {
                self.log.note_ignored_discovery();
                return pending.give_up_probe();
            }
        };
        if message.is_none() {
            self.group.note_ending(&self.log).await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A blocked write holds the lock; killing the group then releases it.
        if let Ok(mut stdin) = timeout(GRACE, self.stdin.lock()).await {
            stdin.take();
        }
        self.group.end().await
    }
}

async fn keep_tail(mut stderr: ChildStderr, log: Arc<ProcessLog>, command: String) {
    let mut buffer = vec![0; 8 * 1024];
    let mut buffered = Vec::new();
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        log.append(&buffer[..count]);
        if tracing::enabled!(tracing::Level::DEBUG) {
            buffered.extend(&buffer[..count]);
            log_lines(&mut buffered, &command);
        }
    }
}

/// Logs complete lines only: a secret in a partial line would not be recognized.
fn log_lines(buffered: &mut Vec<u8>, command: &str) {
    const MAX_BUFFERED: usize = 64 * 1024;
    while let Some(end) = buffered.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = buffered.drain(..=end).collect();
        tracing::debug!(command, "stderr: {}", String::from_utf8_lossy(&line).trim_end());
    }
    if buffered.len() > MAX_BUFFERED {
        buffered.clear();
    }
}

impl Group {
    /// Stops the server after its stdin was closed: waits, terminates, kills, and then reaps it.
    async fn end(&mut self) -> io::Result<()> {
        let grace = if self.supervised { SUPERVISED_GRACE } else { GRACE };
        if timeout(grace, self.child.wait()).await.is_err() && !self.supervised {
            self.signal(Signal::TERM);
            let _ = timeout(GRACE, self.child.wait()).await;
        }
        self.signal(Signal::KILL);
        self.child.wait().await.map(drop)
    }

    async fn note_ending(&mut self, log: &ProcessLog) {
        if let Ok(Ok(status)) = timeout(Duration::from_secs(1), self.child.wait()).await {
            log.set_ending(status.to_string());
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A supervisor notices that its stdin is closed and stops the server gracefully. The group is killed here only
        // if the supervisor has exited, in case it was killed before the server.
        let exited = !matches!(self.child.try_wait(), Ok(None));
        if !self.supervised || exited {
            self.signal(Signal::KILL);
        }
    }
}
