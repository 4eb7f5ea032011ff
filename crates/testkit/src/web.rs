//! A minimal client for an MCP server over HTTP: one connection per request, with access to the raw bytes on the wire.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// Revision of self-contained requests.
pub const MODERN: &str = "2026-07-28";
/// Revision with handshakes.
const LEGACY: &str = "2025-11-25";

/// A client of a running server.
pub struct Client {
    address: String,
    token: Option<String>,
}

/// Response.
#[derive(Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    head: String,
    /// Body.
    pub body: String,
}

/// Response that is still being read.
pub struct Stream {
    reader: BufReader<TcpStream>,
    /// Status code.
    pub status: u16,
    head: String,
}

impl Client {
    /// Connects to a server that is already running.
    #[must_use]
    pub fn at(address: std::net::SocketAddr) -> Self {
        Self::new(address.to_string(), None)
    }

    /// Connects to a server with a token, which is sent with every request.
    #[must_use]
    pub fn new(address: String, token: Option<String>) -> Self {
        Self { address, token }
    }

    /// Returns the token.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Opens a connection.
    #[must_use]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server accepts connections");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
        stream
    }

    /// Sends a request and returns the response after its headers, for reading the rest.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Stream {
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

    /// Sends a request and returns the response.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.open(method, path, headers, body).rest()
    }

    /// Posts a message, with the headers that every client sends.
    pub fn open_post(&self, headers: &[(&str, &str)], message: &Value) -> Stream {
        let mut all =
            vec![("accept", "application/json, text/event-stream"), ("content-type", "application/json")];
        all.extend(headers);
        self.open("POST", "/mcp", &all, message.to_string().as_bytes())
    }

    /// Posts a message and returns the response.
    pub fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        self.open_post(headers, message).rest()
    }

    /// Starts the handshake.
    pub fn initialize(&self) -> Reply {
        self.initialize_as(LEGACY)
    }

    /// Starts the handshake as a client of this revision.
    #[must_use]
    pub fn initialize_as(&self, version: &str) -> Reply {
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": { "name": "it", "version": "0" },
        } });
        self.post(&[], &message)
    }

    /// Completes the handshake and returns the session id.
    pub fn session(&self) -> String {
        self.session_as(LEGACY)
    }

    /// Completes the handshake as a client of this revision and returns the session id.
    pub fn session_as(&self, version: &'static str) -> String {
        let reply = self.initialize_as(version);
        assert_eq!(reply.status, 200, "{reply:?}");
        let session = reply.header("mcp-session-id").expect("a session id").to_owned();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&[("mcp-session-id", session.as_str())], &ready).status, 202);
        session
    }

    /// Opens the session's own stream, or resumes a stream after an event.
    pub fn listen(&self, session: &str, last: Option<&str>) -> Stream {
        let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", session)];
        headers.extend(last.map(|last| ("last-event-id", last)));
        self.open("GET", "/mcp", &headers, b"")
    }

    /// Calls a tool in a session and returns its payload.
    pub fn tool(&self, session: &str, id: u64, name: &str, arguments: Value) -> Value {
        let reply = self.post(&legacy(session), &call(id, name, arguments)).message();
        payload(&reply)
    }

    /// Sends a self-contained request.
    pub fn open_modern(&self, method: &str, params: Value, capabilities: Value) -> Stream {
        let name = params.get("name").or(params.get("uri")).or(params.get("taskId"));
        let name = name.and_then(Value::as_str).map(str::to_owned);
        let message = modern(method, params, capabilities);
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        self.open_post(&headers, &message)
    }

    /// Sends a self-contained request and returns the reply.
    pub fn modern(&self, method: &str, params: Value, capabilities: Value) -> Value {
        self.open_modern(method, params, capabilities).rest().message()
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
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).expect("a line can be read");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Waits for the next message in the stream, and the id of its event.
    pub fn event(&mut self) -> Option<(Option<String>, Value)> {
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

    /// Reads the response to its end.
    #[must_use]
    pub fn rest(mut self) -> Reply {
        let mut body = String::new();
        // A rejection may close the connection before the full request is read.
        let _ = self.reader.read_to_string(&mut body);
        Reply { status: self.status, head: self.head, body }
    }
}

impl Reply {
    /// Returns a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the last message of the response.
    pub fn message(&self) -> Value {
        let last = self.body.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
        let text = last.unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns status, code, and reason of an error.
    pub fn error(&self) -> (u16, i64, String) {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let error = &self.message()["error"];
        let reason = error["message"].as_str().unwrap_or_default().to_owned();
        (self.status, error["code"].as_i64().unwrap_or_default(), reason)
    }
}

/// Returns the headers of a request in a session.
pub fn legacy(session: &str) -> [(&'static str, &str); 2] {
    [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)]
}

/// Builds a tool call.
#[must_use]
pub fn call(id: u64, name: &str, arguments: Value) -> Value {
    let mut message =
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name } });
    message["params"]["arguments"] = arguments;
    message
}

/// Builds a self-contained request.
pub fn modern(method: &str, mut params: Value, capabilities: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "it", "version": "0" });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Returns the payload of a tool's reply.
pub fn payload(reply: &Value) -> Value {
    let payload = &reply["result"]["structuredContent"];
    assert!(payload.is_object(), "no payload: {reply}");
    payload.clone()
}
