//! Limits of the HTTP server: what exceeds them is rejected with a reason, and other clients are still served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use meerkat_mcp_server::http::{Access, Limits};
use meerkat_mcp_server::{LazyRuntime, Server};
use meerkat_testkit::eventually;
use meerkat_testkit::web::{Client, call, legacy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[test]
fn longest_idle_session_is_evicted() {
    let serving = Serving::start(Limits { sessions: 3, ..Limits::default() });
    let web = Client::at(serving.address);
    let (listening, first, second) = (web.session(), web.session(), web.session());
    let stream = web.listen(&listening, None);
    web.tool(&first, 1, "meerkat_sessions", json!({}));
    let new = web.session();
    let gone = web.post(&legacy(&second), &call(1, "meerkat_sessions", json!({})));
    assert_eq!(gone.error(), (404, -32600, "Not Found: Session not found".to_owned()));
    for session in [&listening, &first, &new] {
        assert!(web.tool(session, 2, "meerkat_sessions", json!({}))["sessions"].is_array());
    }
    drop(stream);
}

#[test]
fn new_session_is_rejected_if_all_are_busy() {
    let serving = Serving::start(Limits { sessions: 2, ..Limits::default() });
    let web = Client::at(serving.address);
    let (listening, running) = (web.session(), web.session());
    let stream = web.listen(&listening, None);
    let run = web.open_post(&legacy(&running), &call(7, "meerkat_run", json!({ "prompt": "wait 60000" })));
    let rejected = web.initialize();
    let reason = "too many sessions, all in use; try again later";
    assert_eq!(rejected.error(), (503, -32000, reason.to_owned()));
    assert_eq!(rejected.header("retry-after"), Some("30"));
    // A run continues without its stream and keeps its session alive; a closed stream does not.
    drop(run);
    drop(stream);
    eventually("a session can be created again", || web.initialize().status == 200);
    assert!(web.tool(&running, 8, "meerkat_sessions", json!({}))["sessions"].is_array());
    assert_eq!(web.post(&legacy(&listening), &call(1, "meerkat_sessions", json!({}))).status, 404);
}

#[test]
fn unfinished_bodies_are_bounded_together() {
    let serving = Serving::start(Limits { bodies: 1_000_000, ..Limits::default() });
    let web = Client::at(serving.address);
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-length: 2000000\r\n\r\n", web.address());
    let part = [b' '; 600_000];
    // The server reads at most one of the two to its end, and rejects the other while that one is unfinished.
    let mut streams: Vec<_> = (0..2).map(|_| web.connect()).collect();
    for stream in &mut streams {
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&part).unwrap();
        stream.set_nonblocking(true).unwrap();
    }
    let mut answer = String::new();
    eventually("one body is rejected", || {
        for stream in &mut streams {
            let _ = stream.read_to_string(&mut answer);
        }
        !answer.is_empty()
    });
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 5") && answer.contains("too many large requests"), "{answer}");
    assert!(web.session().len() > 8, "small requests are served");
    drop(streams);
    let large = json!({ "prompt": format!("say ok\nthen\n{}", "x".repeat(900_000)) });
    eventually("a large request is served", || {
        let run = json!({ "name": "meerkat_run", "arguments": large });
        web.open_modern("tools/call", run, json!({})).rest().status == 200
    });
}

#[test]
fn connection_over_the_limit_is_rejected() {
    let serving = Serving::start(Limits { connections: 2, ..Limits::default() });
    let held: Vec<_> = (0..2).map(|_| open_connection(serving.address)).collect();
    let mut response = String::new();
    let mut third = TcpStream::connect(serving.address).unwrap();
    third.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}", body.len())), "{response}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["message"], "too many connections; try later");
    drop(held);
    assert_eq!(status_once_available(&Client::at(serving.address)), 200);
}

#[test]
fn idle_session_expires_unless_it_has_a_stream() {
    let idle = Duration::from_millis(200);
    let serving = Serving::start(Limits { idle, ..Limits::default() });
    let web = Client::at(serving.address);
    let (idle_session, open_session) = (web.session(), web.session());
    let _stream =
        web.open("GET", "/mcp", &[("accept", "text/event-stream"), ("mcp-session-id", &open_session)], b"");
    // A request would keep the session alive; checking whether a stream can be resumed does not.
    let resume =
        [("accept", "text/event-stream"), ("mcp-session-id", idle_session.as_str()), ("last-event-id", "x")];
    eventually("the session is gone", || web.send("GET", "/mcp", &resume, b"").status == 404);
    let gone = web.post(&legacy(&idle_session), &call(1, "meerkat_sessions", json!({})));
    assert_eq!(gone.error(), (404, -32600, "Not Found: Session not found".to_owned()));
    assert!(web.tool(&open_session, 1, "meerkat_sessions", json!({}))["sessions"].is_array());
}

#[test]
fn rejected_event_id_is_quoted_only_at_its_start() {
    let serving = Serving::start(Limits::default());
    let web = Client::at(serving.address);
    let (session, event) = (web.session(), "long ".repeat(1000));
    let resume = [
        ("accept", "text/event-stream"),
        ("mcp-session-id", session.as_str()),
        ("last-event-id", event.as_str()),
    ];
    let (status, _, message) = web.send("GET", "/mcp", &resume, b"").error();
    assert!(status == 400 && message.contains("long …`") && message.len() < 300, "{message}");
}

/// Server in this process, with custom limits.
struct Serving {
    runtime: tokio::runtime::Runtime,
    address: std::net::SocketAddr,
    closing: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Serving {
    fn start(limits: Limits) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let host = LazyRuntime::new(|| meerkat::Runtime::ephemeral(meerkat::RuntimeOptions::default()));
        let server = Server::new(host, |_| {});
        let access = Access::new(address, None).unwrap();
        let closing = CancellationToken::new();
        let token = closing.clone();
        let task = runtime.spawn(async move { server.serve_http(listener, access, limits, token).await });
        Self { runtime, address, closing, task: Some(task) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.closing.cancel();
        if let Some(task) = self.task.take() {
            let _ = self.runtime.block_on(task);
        }
    }
}

/// Sends requests until one is not rejected for lack of capacity.
fn status_once_available(web: &Client) -> u16 {
    let mut status = 0;
    eventually("the server greets", || {
        status = web.send("GET", "/", &[], b"").status;
        status != 503
    });
    status
}

/// Opens a connection and leaves it open after its first response.
fn open_connection(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}
