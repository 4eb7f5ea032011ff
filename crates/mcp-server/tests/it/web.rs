//! Server over HTTP and a minimal client for it: one connection per request, with access to the raw bytes on the
//! wire.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestEnv, eventually, hello};

/// Revision of self-contained requests.
pub(crate) const MODERN: &str = "2026-07-28";
/// Revision with handshakes.
pub(crate) const LEGACY: &str = "2025-11-25";

/// Running server.
pub(crate) struct Web {
    child: Option<Child>,
    address: String,
    /// Token that the server printed, sent with every request.
    token: Option<String>,
}

/// Response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

/// Response that is still being read.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    head: String,
}

impl Web {
    /// Starts a server on the realm `test`.
    pub(crate) fn start(env: &TestEnv) -> Self {
        Self::start_with(env, &[])
    }

    pub(crate) fn start_with(env: &TestEnv, arguments: &[&str]) -> Self {
        let mut all = vec!["--realm", "test", "--http", "127.0.0.1:0"];
        all.extend(arguments);
        Self::spawn(env, &mut env.command(&all))
    }

    /// Starts a server with this command, which must log to the file of `env`.
    pub(crate) fn spawn(env: &TestEnv, command: &mut Command) -> Self {
        let before = if env.path("stderr").exists() { env.log().len() } else { 0 };
        let child = command.stdin(Stdio::null()).spawn().expect("the server starts");
        let chooses = |argument: &std::ffi::OsStr| {
            let argument = argument.to_string_lossy();
            argument.contains("--token-file") || argument.contains("--no-token")
        };
        let prints_token = !command.get_args().any(chooses);
        let (mut address, mut token) = (None, None);
        eventually("the server listens", || {
            let log = env.log();
            let find = |start: &str, end: &str| {
                let found = log[before..].lines().find_map(|line| line.split_once(start));
                found.and_then(|(_, rest)| rest.strip_suffix(end)).map(str::to_owned)
            };
            address = find("listening on http://", "/mcp");
            token = find("Authorization: Bearer ", "\"");
            address.is_some() && (token.is_some() || !prints_token)
        });
        Self { child: Some(child), address: address.expect("an address"), token }
    }

    /// Returns the token that the server printed.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Connects to a server that is already running.
    pub(crate) fn at(address: std::net::SocketAddr) -> Self {
        Self { child: None, address: address.to_string(), token: None }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server accepts connections");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
        stream
    }

    /// Sends a request and returns the response after its headers, for reading the rest.
    pub(crate) fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Stream {
        let mut stream = self.connect();
        // HTTP/1.0 has no chunks, so the body is everything up to the end.
        let mut head = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        if let Some(token) =
            self.token.as_ref().filter(|_| headers.iter().all(|(name, _)| *name != "authorization"))
        {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("the head can be sent");
        // A server that rejects a request need not read its body.
        let _ = stream.write_all(body);
        Stream::read(stream)
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.open(method, path, headers, body).rest()
    }

    /// Posts a message, with the headers that every client sends.
    pub(crate) fn open_post(&self, headers: &[(&str, &str)], message: &Value) -> Stream {
        let mut all =
            vec![("accept", "application/json, text/event-stream"), ("content-type", "application/json")];
        all.extend(headers);
        self.open("POST", "/mcp", &all, message.to_string().as_bytes())
    }

    pub(crate) fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        self.open_post(headers, message).rest()
    }

    /// Starts the handshake.
    pub(crate) fn initialize(&self) -> Reply {
        self.initialize_as(LEGACY)
    }

    pub(crate) fn initialize_as(&self, version: &str) -> Reply {
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello(version) });
        self.post(&[], &message)
    }

    /// Completes the handshake and returns the session id.
    pub(crate) fn session(&self) -> String {
        self.session_as(LEGACY)
    }

    /// Completes the handshake as a client of this revision and returns the session id.
    pub(crate) fn session_as(&self, version: &'static str) -> String {
        let reply = self.initialize_as(version);
        assert_eq!(reply.status, 200, "{reply:?}");
        let session = reply.header("mcp-session-id").expect("a session id").to_owned();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&[("mcp-session-id", session.as_str())], &ready).status, 202);
        session
    }

    /// Opens the session's own stream, or resumes a stream after an event.
    pub(crate) fn listen(&self, session: &str, last: Option<&str>) -> Stream {
        let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", session)];
        headers.extend(last.map(|last| ("last-event-id", last)));
        self.open("GET", "/mcp", &headers, b"")
    }

    /// Calls a tool in a session and returns its payload.
    pub(crate) fn tool(&self, session: &str, id: u64, name: &str, arguments: Value) -> Value {
        let reply = self.post(&legacy(session), &call(id, name, arguments)).message();
        payload(&reply)
    }

    /// Sends a self-contained request.
    pub(crate) fn open_modern(&self, method: &str, params: Value, capabilities: Value) -> Stream {
        let name = params.get("name").or(params.get("uri")).or(params.get("taskId"));
        let name = name.and_then(Value::as_str).map(str::to_owned);
        let message = modern(method, params, capabilities);
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        self.open_post(&headers, &message)
    }

    pub(crate) fn modern(&self, method: &str, params: Value, capabilities: Value) -> Value {
        self.open_modern(method, params, capabilities).rest().message()
    }

    /// Asks the server to shut down and waits until it has exited.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        let child = self.child.as_mut().expect("a server started here");
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(sent.expect("the signal can be sent").success());
        child.wait().expect("the server ends")
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Stream {
    fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).expect("a head can be read") == 0 {
                break;
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { reader, status: status.unwrap_or_else(|| panic!("no status: {head}")), head }
    }

    /// Waits for the next line of the body.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).expect("a line can be read");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Waits for the next message in the stream, and the id of its event.
    pub(crate) fn event(&mut self) -> Option<(Option<String>, Value)> {
        let (mut id, mut message) = (None, None);
        loop {
            let line = self.line()?;
            if let Some(found) = line.strip_prefix("id:") {
                id = Some(found.trim().to_owned());
            } else if let Some(data) = line.strip_prefix("data:").filter(|data| !data.trim().is_empty()) {
                message = Some(serde_json::from_str(data).expect("an event is JSON"));
            } else if line.is_empty() {
                let id = id.take();
                if let Some(message) = message.take() {
                    return Some((id, message));
                }
            }
        }
    }

    pub(crate) fn rest(mut self) -> Reply {
        let mut body = String::new();
        // A rejection may close the connection before the full request is read.
        let _ = self.reader.read_to_string(&mut body);
        Reply { status: self.status, head: self.head, body }
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the last message of the response.
    pub(crate) fn message(&self) -> Value {
        let last = self.body.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
        let text = last.unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns status, code, and reason of an error.
    pub(crate) fn error(&self) -> (u16, i64, String) {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let error = &self.message()["error"];
        let reason = error["message"].as_str().unwrap_or_default().to_owned();
        (self.status, error["code"].as_i64().unwrap_or_default(), reason)
    }
}

/// Returns the headers of a request in a session.
pub(crate) fn legacy(session: &str) -> [(&'static str, &str); 2] {
    [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)]
}

pub(crate) fn call(id: u64, name: &str, arguments: Value) -> Value {
    let mut message =
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name } });
    message["params"]["arguments"] = arguments;
    message
}

/// Builds a self-contained request.
pub(crate) fn modern(method: &str, mut params: Value, capabilities: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "it", "version": "0" });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Returns the payload of a tool's reply.
pub(crate) fn payload(reply: &Value) -> Value {
    let payload = &reply["result"]["structuredContent"];
    assert!(payload.is_object(), "no payload: {reply}");
    payload.clone()
}
