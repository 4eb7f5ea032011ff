//! An in-process provider that answers every request at once, in Anthropic's format.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::measure::Failure;

/// The tool whose presence in a request makes the response a call to it.
pub(super) const TOOL: &str = "look";

/// A running server; it ends with its runtime.
pub(super) struct Server {
    /// Base URL of the server.
    pub(super) base_url: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Server {
    pub(super) async fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base_url = format!("http://{}", listener.local_addr()?);
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&bodies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                // A broken connection is the client's problem.
                tokio::spawn(async move { serve(stream, &seen).await.unwrap_or_default() });
            }
        });
        Ok(Self { base_url, bodies })
    }

    /// Returns the bodies of the requests since the last call.
    pub(super) fn requests(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.bodies.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, seen: &Mutex<Vec<Vec<u8>>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (words, call) = (answer(&words()), answer(&call()));
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let calls = has(&body, TOOL.as_bytes()) && !has(&body, b"\"tool_result\"");
        stream.get_mut().write_all(if calls { &call } else { &words }).await?;
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(body);
    }
}

fn has(body: &[u8], word: &[u8]) -> bool {
    body.windows(word.len()).any(|window| window == word)
}

fn answer(events: &[Value]) -> Vec<u8> {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    let body: String = events.iter().map(event).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn words() -> Vec<Value> {
    let mut events = vec![start()];
    events.push(
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
    );
    for word in ["It", " is", " all", " there", "."] {
        let delta = json!({ "type": "text_delta", "text": word });
        events.push(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
    }
    events.extend(end("end_turn"));
    events
}

fn call() -> Vec<Value> {
    let block = json!({ "type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": "{\"where\":\"here\"}" });
    let mut events = vec![
        start(),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
    ];
    events.extend(end("tool_use"));
    events
}

fn start() -> Value {
    json!({ "type": "message_start", "message": { "id": "msg_1", "usage": { "input_tokens": 9, "output_tokens": 1 } } })
}

fn end(reason: &str) -> [Value; 3] {
    [
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]
}
