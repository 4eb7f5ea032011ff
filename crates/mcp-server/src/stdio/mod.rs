//! MCP over stdin and stdout, one message per line.
//!
//! The SDK's own transport ignores lines it cannot parse; this one answers them with an error. While such an answer
//! cannot be written, no more input is read, so a client that does not read cannot make the queues grow.

mod collector;
mod end;
mod lines;

use std::collections::{HashSet, VecDeque};
use std::io::{BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::service::{RoleServer, serve_directly};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::lifetime::{COMMIT_TIMEOUT, REPLY_TIMEOUT};
use crate::protocol::batch::{self, BatchError};
use crate::protocol::{IdScanner, InFlight, InvalidMessage, Protocol, Service, not_json};
use collector::{BatchCollector, Gathered};
pub(crate) use end::InputEnd;
use lines::{Line, MAX_LINE};

/// Maximum number of queued messages in each direction.
const QUEUE_SIZE: usize = 64;

/// A transport over a pair of blocking streams.
pub struct Stdio {
    lines: mpsc::Receiver<Line>,
    output: mpsc::Sender<Vec<u8>>,
    /// Messages that are accepted but not yet handled.
    accepted: VecDeque<ClientJsonRpcMessage>,
    /// Replies of the transport itself that are not yet written. No input is read in the meantime.
    replies: VecDeque<Vec<u8>>,
    in_flight: InFlight,
    gather: BatchCollector,
    /// Most recently negotiated revision.
    version: Arc<Mutex<Option<ProtocolVersion>>>,
    end: InputEnd,
    opened: bool,
    written: Option<oneshot::Receiver<()>>,
}

/// The client can no longer be written to.
#[derive(Debug, thiserror::Error)]
#[error("the client closed its side")]
pub struct Closed;

impl Stdio {
    /// Starts reading and writing.
    pub fn new(input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> Self {
        let (line_sender, lines) = mpsc::channel(QUEUE_SIZE);
        let (output_sender, output_lines) = mpsc::channel(QUEUE_SIZE);
        std::thread::spawn(move || lines::read(BufReader::new(input), &line_sender));
        let (done, written) = oneshot::channel();
        std::thread::spawn(move || {
            lines::write(output, output_lines);
            drop(done);
        });
        Self {
            lines,
            output: output_sender,
            accepted: VecDeque::new(),
            replies: VecDeque::new(),
            in_flight: InFlight::default(),
            gather: BatchCollector::default(),
            version: Arc::default(),
            end: InputEnd::default(),
            opened: false,
            written: Some(written),
        }
    }

    /// Takes over stdin and stdout of this process. From here on, anything else printed to stdout goes to stderr,
    /// because a stray line would corrupt the protocol.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be redirected.
    pub fn from_process() -> std::io::Result<Self> {
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

    /// Returns the state of the client's side.
    pub(crate) fn end(&self) -> InputEnd {
        self.end.clone()
    }

    /// Returns the set of unanswered requests.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }

    /// Waits until all output is written after the transport is dropped.
    pub(crate) fn written(&mut self) -> impl Future<Output = ()> + use<> {
        let written = self.written.take();
        async move {
            if let Some(written) = written {
                // The sender is dropped when the thread ends.
                let _ = written.await;
            }
        }
    }

    /// Parses a line. An invalid message is answered with an error and skipped.
    fn decode(&mut self, line: Line) {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong(ids) => {
                return self.reject(ids, -32600, &format!("the line is longer than {MAX_LINE} bytes"));
            }
        };
        match text.trim_ascii_start().first() {
            None => {}
            Some(b'[') => self.decode_batch(&text),
            Some(_) => match serde_json::from_slice::<ClientJsonRpcMessage>(&text) {
                Ok(message) => {
                    if let Err(rejection) = self.admit(message) {
                        self.answer(&rejection);
                    }
                }
                Err(_) => {
                    let InvalidMessage { id, code, reason } = InvalidMessage::new(&text);
                    let error = json!({ "code": code, "message": reason });
                    self.answer(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                }
            },
        }
    }

    fn decode_batch(&mut self, text: &[u8]) {
        if let Err(problem) = serde_json::from_slice::<serde::de::IgnoredAny>(text) {
            return self.reject(IdScanner::scan(text), -32700, &not_json(&problem.to_string()));
        }
        let version = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let messages = match batch::read(text, version.as_ref()) {
            Ok(messages) => messages,
            Err(problem @ BatchError::InvalidMessage(_)) => {
                return self.reject(IdScanner::scan(text), -32600, &problem.to_string());
            }
            // The client does not expect the answers of a batch.
            Err(problem) => return self.reject(IdScanner::default(), -32600, &problem.to_string()),
        };
        let (mut requests, mut rejections) = (HashSet::new(), Vec::new());
        for message in messages {
            let id = match &message {
                JsonRpcMessage::Request(request) => Some(request.id.clone()),
                _ => None,
            };
            match self.admit(message) {
                Ok(()) => requests.extend(id),
                Err(rejection) => rejections.push(rejection),
            }
        }
        self.replies.extend(self.gather.begin(requests, rejections));
    }

    /// Accepts a message, or returns the error response.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Result<(), Value> {
        self.in_flight
            .received(&message)
            .map_err(|(id, rejection)| json!({ "jsonrpc": "2.0", "id": id, "error": rejection }))?;
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
        // Before the first request, other messages have nothing to refer to.
        if self.opened {
            self.accepted.push_back(message);
        }
        Ok(())
    }

    /// Rejects the requests of a line.
    fn reject(&mut self, ids: IdScanner, code: i32, message: &str) {
        self.answer(&ids.response(code, message));
    }

    fn answer(&mut self, reply: &Value) {
        self.replies.push_back(reply.to_string().into_bytes());
    }

    /// Writes the transport's own replies. Cancel-safe: unwritten replies stay queued.
    async fn reply(&mut self) {
        while !self.replies.is_empty() {
            tokio::select! {
                permit = self.output.reserve() => {
                    if let (Some(reply), Ok(permit)) = (self.replies.pop_front(), permit) {
                        permit.send(reply);
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
            let permit = output.reserve().await;
            // This must happen before the client can read the response: it may reuse the id immediately.
            in_flight.sent(&item);
            permit.map_err(|_| Closed)?.send(line);
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.reply().await;
            if let Some(message) = self.accepted.pop_front() {
                return Some(message);
            }
            if self.end.is_closed() {
                // The service ends with the input, but requests in flight should still be answered.
                let ending = self.end.deadline() + COMMIT_TIMEOUT;
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

/// Serves one client over stdio until it closes its side. `shutdown` stops work that would otherwise continue.
pub(crate) async fn serve<S: Service>(layer: &Protocol<S>, mut stdio: Stdio, shutdown: impl AsyncFn()) {
    let (end, in_flight, written) = (stdio.end(), stdio.in_flight(), stdio.written());
    let ending = async {
        end.wait_closed().await;
        let _ = tokio::time::timeout_at(end.deadline(), in_flight.wait()).await;
        // Runs without a waiting request, such as those of tasks, must also stop cleanly.
        shutdown().await;
        // Responses of the stopped runs are still sent if the client reads them.
        let _ = tokio::time::timeout(REPLY_TIMEOUT, in_flight.wait()).await;
    };
    let running = serve_directly(layer.connect(), stdio, None);
    tokio::select! {
        // This fails only if the service panicked; no client is left to report it to.
        _ = running.waiting() => shutdown().await,
        () = ending => {}
    }
    let _ = tokio::time::timeout(REPLY_TIMEOUT, written).await;
}
