//! A client for an MCP server over stdio, low-level enough to send what no SDK would.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time limit for anything a test waits for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server process and its stdio connection.
pub struct McpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    early: HashMap<u64, Value>,
    notifications: Vec<Value>,
    next_id: u64,
}

/// The reply to a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReply {
    /// Whether the call failed.
    pub is_error: bool,
    /// The JSON in the result's text block.
    pub payload: Value,
    /// The full result.
    pub result: Value,
}

impl McpClient {
    /// Starts a server and performs the handshake.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let mut client = Self::spawn(command);
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "testkit", "version": "0" },
        });
        let reply = client.request("initialize", params);
        assert!(reply.get("result").is_some(), "initialize failed: {reply}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// Starts a server without sending anything.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} cannot start: {error}"));
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, lines, early: HashMap::new(), notifications: Vec::new(), next_id: 1 }
    }

    /// Sends raw bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("the server accepts input");
    }

    /// Sends one message.
    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request and returns its id.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the reply to a request.
    pub fn finish(&mut self, id: u64) -> Value {
        if let Some(reply) = self.early.remove(&id) {
            return reply;
        }
        loop {
            let message = self.receive();
            match message.get("id").and_then(Value::as_u64) {
                Some(other) if other == id => return message,
                Some(other) => drop(self.early.insert(other, message)),
                None => self.notifications.push(message),
            }
        }
    }

    /// Waits for the next message of any kind.
    pub fn receive(&mut self) -> Value {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => parse(&line),
            Err(RecvTimeoutError::Timeout) => panic!("no message within {TIMEOUT:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the server closed its output"),
        }
    }

    /// Sends a request and waits for its reply.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.finish(id)
    }

    /// Starts a tool call and returns its request id.
    pub fn begin_tool(&mut self, name: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// Waits for the reply to a tool call.
    pub fn finish_tool(&mut self, id: u64) -> ToolReply {
        let reply = self.finish(id);
        let result = reply.get("result").cloned().unwrap_or_else(|| panic!("a protocol error: {reply}"));
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {reply}"));
        let payload = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        ToolReply { is_error: result["isError"] == json!(true), payload, result }
    }

    /// Calls a tool.
    pub fn tool(&mut self, name: &str, arguments: Value) -> ToolReply {
        let id = self.begin_tool(name, arguments);
        self.finish_tool(id)
    }

    /// Calls a tool that must succeed, and returns its payload.
    pub fn expect_tool(&mut self, name: &str, arguments: Value) -> Value {
        let reply = self.tool(name, arguments);
        assert!(!reply.is_error, "{name} failed: {}", reply.payload);
        reply.payload
    }

    /// Calls a tool that must fail, and returns the code of its error.
    pub fn expect_error(&mut self, name: &str, arguments: Value) -> String {
        let reply = self.tool(name, arguments);
        assert!(reply.is_error, "{name} succeeded: {}", reply.payload);
        reply.payload["code"].as_str().unwrap_or_else(|| panic!("no code: {}", reply.payload)).to_owned()
    }

    /// Returns the notifications received so far.
    #[must_use]
    pub fn notifications(&self) -> &[Value] {
        &self.notifications
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server immediately.
    pub fn kill(mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server exits");
    }

    /// Closes the server's input and waits for the server to exit.
    pub fn close(mut self) -> ExitStatus {
        self.close_input();
        self.wait()
    }

    /// Closes the server's input.
    pub fn close_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Waits until the server closes its output, and returns the messages received until then.
    pub fn read_to_end(&mut self) -> Vec<Value> {
        let deadline = Instant::now() + TIMEOUT;
        let mut messages = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => messages.push(parse(&line)),
                Err(RecvTimeoutError::Disconnected) => return messages,
                Err(RecvTimeoutError::Timeout) => panic!("the server did not close its output"),
            }
        }
    }

    /// Waits for the server to exit.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("the server has a status") {
                return status;
            }
            assert!(Instant::now() < deadline, "the server did not exit");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn parse(line: &str) -> Value {
    let message: Value = serde_json::from_str(line)
        .unwrap_or_else(|error| panic!("not a JSON-RPC message on stdout: {line:?}: {error}"));
    // The response to a batch is a list of messages.
    let messages = message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice);
    for message in messages {
        assert_eq!(message["jsonrpc"], "2.0", "not a JSON-RPC message on stdout: {line:?}");
    }
    message
}

impl Drop for McpClient {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
