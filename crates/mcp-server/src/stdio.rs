//! MCP over stdin and stdout, one message per line.
//!
//! The SDK's own transport is silent about lines it cannot read; this one answers them, so that a client
//! always learns what was wrong. Reading and writing have a thread each, because both may block for ever.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use rmcp::model::JsonRpcMessage;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::layer::InFlight;

/// The longest line that is read.
const MAX_LINE: usize = 32 * 1024 * 1024;
/// How many messages wait at most, in each direction.
const WAITING: usize = 64;
/// How long requests in flight may still take when the client has closed its side.
pub(crate) const FAREWELL: Duration = Duration::from_millis(1000);
/// How long interrupted runs may take to commit their end.
pub(crate) const LAST_COMMITS: Duration = Duration::from_millis(500);

/// A transport over a pair of blocking streams.
pub struct Stdio {
    lines: mpsc::Receiver<Line>,
    output: mpsc::Sender<Vec<u8>>,
    in_flight: InFlight,
    closed: CancellationToken,
    opened: bool,
    /// When to stop waiting for answers, once the client has closed its side.
    ending: Option<Instant>,
    written: Option<oneshot::Receiver<()>>,
}

/// What the reading thread found.
enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// The other side cannot be written to any more.
#[derive(Debug, thiserror::Error)]
#[error("the client closed its side")]
pub struct Closed;

impl Stdio {
    /// Starts reading and writing.
    pub fn new(input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> Self {
        let (line_sender, lines) = mpsc::channel(WAITING);
        let (output_sender, output_lines) = mpsc::channel(WAITING);
        std::thread::spawn(move || read_lines(BufReader::new(input), &line_sender));
        let (done, written) = oneshot::channel();
        std::thread::spawn(move || {
            write_lines(output, output_lines);
            drop(done);
        });
        Self {
            lines,
            output: output_sender,
            in_flight: InFlight::default(),
            closed: CancellationToken::new(),
            opened: false,
            ending: None,
            written: Some(written),
        }
    }

    /// Takes the stdin and the stdout of this process. From here on, whatever else is printed goes to stderr:
    /// a stray line would spoil the protocol.
    ///
    /// # Errors
    /// Fails when they cannot be taken.
    pub fn of_process() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            let output = rustix::io::dup(std::io::stdout())?;
            rustix::stdio::dup2_stdout(std::io::stderr())?;
            Ok(Self::new(std::io::stdin(), std::fs::File::from(output)))
        }
        #[cfg(not(unix))]
        Ok(Self::new(std::io::stdin(), std::io::stdout()))
    }

    /// Is cancelled when the client has closed its side.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Knows which requests are not answered yet.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }

    /// Waits until everything is written, once the transport is gone.
    pub(crate) fn written(&mut self) -> impl Future<Output = ()> + use<> {
        let written = self.written.take();
        async move {
            if let Some(written) = written {
                // The sender is dropped when the thread ends.
                let _ = written.await;
            }
        }
    }

    /// Reads a line as a message; one that is none is answered and passed over.
    fn decode(&mut self, line: Line) -> Option<RxJsonRpcMessage<RoleServer>> {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong => {
                let message = format!("the line is longer than {MAX_LINE} bytes");
                self.refuse(&Value::Null, -32600, &message);
                return None;
            }
        };
        if text.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let Ok(message) = serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(&text) else {
            let (id, code, reason) = fault(&text);
            self.refuse(&id, code, &reason);
            return None;
        };
        self.admit(message)
    }

    fn admit(&mut self, message: RxJsonRpcMessage<RoleServer>) -> Option<RxJsonRpcMessage<RoleServer>> {
        if let Err((id, refusal)) = self.in_flight.received(&message) {
            let id = serde_json::to_value(&id).unwrap_or_default();
            self.refuse(&id, refusal.code.0, &refusal.message);
            return None;
        }
        if matches!(message, JsonRpcMessage::Request(_)) {
            self.opened = true;
        }
        // Before the first request there is nothing that anything else could be about.
        self.opened.then_some(message)
    }

    fn refuse(&self, id: &Value, code: i32, message: &str) {
        let reply = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
        let reply = reply.to_string().into_bytes();
        if let Err(mpsc::error::TrySendError::Full(reply)) = self.output.try_send(reply) {
            // Nobody reads. Waiting here would keep us from seeing that the client is gone.
            let output = self.output.clone();
            tokio::spawn(async move {
                let _ = output.send(reply).await;
            });
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = Closed;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let output = self.output.clone();
        let in_flight = self.in_flight.clone();
        async move {
            let line = serde_json::to_vec(&item).unwrap_or_default();
            let room = output.reserve().await;
            // Before the client can read the answer: it may use the id again at once.
            in_flight.sent(&item);
            room.map_err(|_| Closed)?.send(line);
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(ending) = self.ending {
                // The service ends with the input, and what is in flight should still be answered.
                let _ = tokio::time::timeout_at(ending, self.in_flight.wait()).await;
                return None;
            }
            let Some(line) = self.lines.recv().await else {
                self.closed.cancel();
                self.ending = Some(Instant::now() + FAREWELL + LAST_COMMITS);
                continue;
            };
            if let Some(message) = self.decode(line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Closed> {
        Ok(())
    }
}

/// Says what is wrong with a line that is no message.
fn fault(text: &[u8]) -> (Value, i32, String) {
    match serde_json::from_slice::<Value>(text) {
        Err(error) => (Value::Null, -32700, format!("not JSON: {error}")),
        Ok(Value::Array(_)) => (Value::Null, -32600, "batches are not supported".to_owned()),
        Ok(value) => {
            let id = value.get("id").cloned().unwrap_or_default();
            (id, -32600, "not a JSON-RPC 2.0 request or notification".to_owned())
        }
    }
}

/// Reads lines until the end. A last line without its newline counts.
fn read_lines(mut input: impl BufRead, lines: &mpsc::Sender<Line>) {
    loop {
        let mut text = Vec::new();
        let read = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut text);
        match read {
            Ok(0) | Err(_) => return,
            Ok(length) if length > MAX_LINE && text.last() != Some(&b'\n') => {
                if lines.blocking_send(Line::TooLong).is_err() || skip_line(&mut input).is_err() {
                    return;
                }
            }
            Ok(_) => {
                if lines.blocking_send(Line::Text(text)).is_err() {
                    return;
                }
            }
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                input.consume(end + 1);
                return Ok(());
            }
            None => {
                let length = buffer.len();
                input.consume(length);
            }
        }
    }
}

/// Writes each line at once and whole.
fn write_lines(mut output: impl Write, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut line) = lines.blocking_recv() {
        line.push(b'\n');
        if output.write_all(&line).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}
