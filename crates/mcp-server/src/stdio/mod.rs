//! MCP over stdin and stdout, one message per line.
//!
//! The SDK's own transport is silent about lines it cannot read; this one answers them, so that a client
//! always learns what was wrong. While such an answer cannot be written, nothing more is read: a client that
//! does not read is not listened to either, and what waits is bounded.

mod end;
mod gather;
mod lines;

use std::collections::{HashSet, VecDeque};
use std::io::{BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::layer::{InFlight, batch};
use crate::lifetime::LAST_COMMITS;
pub(crate) use end::End;
use gather::{Gather, Gathered};
use lines::{Line, MAX_LINE};

/// How many messages wait at most, in each direction.
const WAITING: usize = 64;

/// A transport over a pair of blocking streams.
pub struct Stdio {
    lines: mpsc::Receiver<Line>,
    output: mpsc::Sender<Vec<u8>>,
    /// Messages that came together and are still to be handled.
    taken: VecDeque<ClientJsonRpcMessage>,
    /// Answers of our own that are still to be written. Nothing is read meanwhile.
    replies: VecDeque<Vec<u8>>,
    in_flight: InFlight,
    gather: Gather,
    /// The revision that was agreed on last.
    version: Arc<Mutex<Option<ProtocolVersion>>>,
    end: End,
    opened: bool,
    written: Option<oneshot::Receiver<()>>,
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
        std::thread::spawn(move || lines::read(BufReader::new(input), &line_sender));
        let (done, written) = oneshot::channel();
        std::thread::spawn(move || {
            lines::write(output, output_lines);
            drop(done);
        });
        Self {
            lines,
            output: output_sender,
            taken: VecDeque::new(),
            replies: VecDeque::new(),
            in_flight: InFlight::default(),
            gather: Gather::default(),
            version: Arc::default(),
            end: End::default(),
            opened: false,
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
            let stdio = Self::new(std::io::stdin(), std::fs::File::from(output));
            stdio.end.watch_stdin();
            Ok(stdio)
        }
        #[cfg(not(unix))]
        Ok(Self::new(std::io::stdin(), std::io::stdout()))
    }

    /// Knows whether the client has closed its side.
    pub(crate) fn end(&self) -> End {
        self.end.clone()
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

    /// Reads a line. What is no message is answered and passed over.
    fn decode(&mut self, line: Line) {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong => {
                let message = format!("the line is longer than {MAX_LINE} bytes");
                return self.refuse(&Value::Null, -32600, &message);
            }
        };
        match text.trim_ascii_start().first() {
            None => {}
            Some(b'[') => self.decode_batch(&text),
            Some(_) => match serde_json::from_slice::<ClientJsonRpcMessage>(&text) {
                Ok(message) => {
                    if let Err(refusal) = self.admit(message) {
                        self.replies.push_back(refusal.to_string().into_bytes());
                    }
                }
                Err(_) => {
                    let (id, code, reason) = fault(&text);
                    self.refuse(&id, code, &reason);
                }
            },
        }
    }

    fn decode_batch(&mut self, text: &[u8]) {
        if let Err(problem) = serde_json::from_slice::<serde::de::IgnoredAny>(text) {
            return self.refuse(&Value::Null, -32700, &format!("not JSON: {problem}"));
        }
        let version = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let messages = match batch::read(text, version.as_ref()) {
            Ok(messages) => messages,
            Err(problem) => return self.refuse(&Value::Null, -32600, &problem.to_string()),
        };
        let (mut requests, mut refusals) = (HashSet::new(), Vec::new());
        for message in messages {
            let id = match &message {
                JsonRpcMessage::Request(request) => Some(request.id.clone()),
                _ => None,
            };
            match self.admit(message) {
                Ok(()) => requests.extend(id),
                Err(refusal) => refusals.push(refusal),
            }
        }
        self.replies.extend(self.gather.begin(requests, refusals));
    }

    /// Takes a message, or says why it is refused.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Result<(), Value> {
        self.in_flight
            .received(&message)
            .map_err(|(id, refusal)| json!({ "jsonrpc": "2.0", "id": id, "error": refusal }))?;
        match &message {
            JsonRpcMessage::Request(_) => self.opened = true,
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.replies.extend(self.gather.cancel(id));
                }
            }
            _ => {}
        }
        // Before the first request there is nothing that anything else could be about.
        if self.opened {
            self.taken.push_back(message);
        }
        Ok(())
    }

    fn refuse(&mut self, id: &Value, code: i32, message: &str) {
        let reply = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
        self.replies.push_back(reply.to_string().into_bytes());
    }

    /// Writes the answers of our own. It may be cut short at any await: what is not written stays.
    async fn reply(&mut self) {
        while !self.replies.is_empty() {
            tokio::select! {
                room = self.output.reserve() => {
                    if let (Some(reply), Ok(room)) = (self.replies.pop_front(), room) {
                        room.send(reply);
                    }
                }
                () = self.end.abandoned() => return,
            }
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = Closed;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        if let JsonRpcMessage::Response(response) = &item
            && let ServerResult::InitializeResult(result) = &response.result
        {
            let version = Some(result.protocol_version.clone());
            *self.version.lock().unwrap_or_else(PoisonError::into_inner) = version;
        }
        let gathered = self.gather.send(&item);
        let (output, in_flight) = (self.output.clone(), self.in_flight.clone());
        async move {
            let Gathered::Line(line) = gathered else {
                in_flight.sent(&item);
                return Ok(());
            };
            let room = output.reserve().await;
            // Before the client can read the answer: it may use the id again at once.
            in_flight.sent(&item);
            room.map_err(|_| Closed)?.send(line);
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.reply().await;
            if let Some(message) = self.taken.pop_front() {
                return Some(message);
            }
            if self.end.is_closed() {
                // The service ends with the input, and what is in flight should still be answered.
                let ending = self.end.deadline() + LAST_COMMITS;
                let _ = tokio::time::timeout_at(ending, self.in_flight.wait()).await;
                return None;
            }
            let line = tokio::select! {
                line = self.lines.recv() => line,
                () = self.end.abandoned() => None,
            };
            match line {
                Some(line) => self.decode(line),
                None => self.end.close(),
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
        Ok(value) => {
            let id = value.get("id").cloned().unwrap_or_default();
            (id, -32600, "not a JSON-RPC 2.0 request or notification".to_owned())
        }
    }
}
