//! Servers over HTTP, and their possible responses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use meerkat_core::{ToolFailure, ToolOutput};
use meerkat_mcp::{Era, ServerChange, ServerSetOptions, ServerState};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use crate::support::{LONG, call, create_set_with, names, until, view};

/// The parts of a request that the tests check.
#[derive(Debug, Clone)]
struct Request {
    line: String,
    headers: HashMap<String, String>,
    body: Value,
}

/// A scripted response.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

/// A web server that responds according to a script and records all requests.
struct Web {
    address: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Web {
    async fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&script), Arc::clone(&log)));
            }
        });
        Self { address, seen }
    }

    fn methods(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let methods = seen.iter().filter_map(|request| request.body["method"].as_str());
        methods.map(str::to_owned).collect()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        match header.trim().split_once(':') {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.trim().to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Request { line: line.trim().to_owned(), headers, body })
}

async fn converse(stream: TcpStream, script: Arc<Script>, log: Arc<Mutex<Vec<Request>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let answer = script(&request);
        log.lock().unwrap().push(request);
        let mut text = format!("HTTP/1.1 {} x\r\n", answer.status);
        if !answer.headers.iter().any(|(name, _)| *name == "transfer-encoding") {
            text.push_str(&format!("content-length: {}\r\n", answer.body.len()));
        }
        for (name, value) in answer.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{}", answer.body));
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn status(status: u16) -> Answer {
    Answer { status, headers: Vec::new(), body: String::new() }
}

fn result(request: &Request, result: &Value) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result }).to_string();
    Answer { status: 200, headers: vec![("content-type", "application/json".to_owned())], body }
}

/// Returns the response of a legacy server.
fn older(request: &Request) -> Answer {
    match request.body["method"].as_str() {
        Some("initialize") => result(
            request,
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "web", "version": "1" },
            }),
        ),
        Some("tools/list") => {
            result(request, &json!({ "tools": [{ "name": "do", "inputSchema": { "type": "object" } }] }))
        }
        Some("tools/call") => result(request, &json!({ "content": [{ "type": "text", "text": "done" }] })),
        Some("server/discover") => status(404),
        Some(_) => status(202),
        None => status(405),
    }
}

fn entry(web: &Web) -> Value {
    json!({ "name": "web", "url": format!("{}/mcp", web.address), "headers": { "x-key": "secret" } })
}

#[tokio::test]
async fn legacy_server_is_detected_and_gets_its_headers() {
    let web = Web::start(older).await;
    let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!((view(&set, "web").state, view(&set, "web").era), (ServerState::Ready, Some(Era::Legacy)));
    assert_eq!(call(&set, "web__do", json!({})).await, ToolOutput::text("done"));
    let methods = web.methods();
    let order = ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"];
    assert_eq!(methods, order);
    let seen = web.seen.lock().unwrap().clone();
    assert!(
        seen.iter().all(|request| request.headers.get("x-key").is_some_and(|key| key == "secret")),
        "{seen:?}"
    );
    let initialize = seen.iter().find(|request| request.body["method"] == "initialize").unwrap();
    assert_eq!(initialize.body["params"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn http_errors_never_classify_a_server_as_legacy() {
    for code in [401, 403, 500, 503] {
        let web = Web::start(move |_| status(code)).await;
        let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
        assert!(set.wait_until_ready(LONG).await);
        let state = view(&set, "web").state;
        match code {
            401 => assert!(matches!(state, ServerState::NeedsReauth { .. }), "{code}: {state:?}"),
            _ => assert!(matches!(state, ServerState::Failed { .. }), "{code}: {state:?}"),
        }
        let methods = web.methods();
        assert!(methods.iter().all(|method| method == "server/discover"), "{code}: {methods:?}");
    }
}

#[tokio::test]
async fn expired_session_is_reopened_and_call_retried() {
    let sessions = Mutex::new(0_u32);
    let web = Web::start(move |request| {
        let mut sessions = sessions.lock().unwrap();
        let current = format!("s{sessions}");
        match request.body["method"].as_str() {
            Some("initialize") => {
                *sessions += 1;
                let mut answer = older(request);
                answer.headers.push(("mcp-session-id", format!("s{sessions}")));
                answer
            }
            Some("tools/call") if current == "s1" => status(404),
            Some("tools/call") if request.headers.get("mcp-session-id") != Some(&current) => status(400),
            _ => older(request),
        }
    })
    .await;
    let mut entry = entry(&web);
    entry["era"] = json!("legacy");
    let set = create_set_with(ServerSetOptions::default(), &[entry]);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(call(&set, "web__do", json!({})).await, ToolOutput::text("done"));
    let methods = web.methods();
    let count = |name: &str| methods.iter().filter(|method| *method == name).count();
    assert_eq!((count("initialize"), count("tools/call")), (2, 2));
}

#[tokio::test]
async fn changed_era_of_a_url_is_detected() {
    let is_newer = Arc::new(AtomicBool::new(true));
    let newer = Arc::clone(&is_newer);
    let web = Web::start(move |request| match request.body["method"].as_str() {
        Some("server/discover") if newer.load(Ordering::Relaxed) => result(
            request,
            &json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            }),
        ),
        _ => older(request),
    })
    .await;
    let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!((view(&set, "web").state, view(&set, "web").era), (ServerState::Ready, Some(Era::Modern)));
    is_newer.store(false, Ordering::Relaxed);
    set.stage(ServerChange::Reload(None));
    set.apply();
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!((view(&set, "web").state, view(&set, "web").era), (ServerState::Ready, Some(Era::Legacy)));
}

#[tokio::test]
async fn redirect_to_another_origin_is_not_followed() {
    let other = Web::start(older).await;
    let target = format!("{}/mcp", other.address);
    let web = Web::start(move |_| Answer {
        status: 307,
        headers: vec![("location", target.clone())],
        body: String::new(),
    });
    let web = web.await;
    let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
    assert!(set.wait_until_ready(LONG).await);
    assert!(matches!(view(&set, "web").state, ServerState::Failed { .. }), "{:?}", view(&set, "web"));
    assert!(other.seen.lock().unwrap().is_empty());
}

/// Starts a legacy SSE server: it responds over a stream, which names the URL to send messages to.
async fn legacy_sse(endpoint: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/sse", listener.local_addr().unwrap());
    let (answers, _) = broadcast::channel::<String>(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(stream_or_post(stream, endpoint, answers.clone()));
        }
    });
    address
}

async fn stream_or_post(stream: TcpStream, endpoint: &'static str, answers: broadcast::Sender<String>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        if request.line.starts_with("GET /sse") {
            let mut inbox = answers.subscribe();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let opening = format!("{head}event: endpoint\ndata: {endpoint}\n\n");
            stream.write_all(opening.as_bytes()).await.unwrap();
            while let Ok(answer) = inbox.recv().await {
                if stream.write_all(format!("event: message\ndata: {answer}\n\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        }
        if request.line.starts_with("POST /sse") {
            stream.write_all(b"HTTP/1.1 405 x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            continue;
        }
        if request.body.get("id").is_some() {
            let _ = answers.send(older(&request).body);
        }
        stream.write_all(b"HTTP/1.1 202 x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    }
}

#[tokio::test]
async fn legacy_sse_server_works_over_its_stream() {
    let url = legacy_sse("/messages?session=1").await;
    let set = create_set_with(
        ServerSetOptions::default(),
        &[json!({ "name": "sse", "url": url, "transport": "sse" })],
    );
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(names(&set), ["sse__do"], "{:?}", set.views());
    assert_eq!(call(&set, "sse__do", json!({})).await, ToolOutput::text("done"));
    set.close().await;
}

#[tokio::test]
async fn foreign_message_url_is_rejected() {
    let url = legacy_sse("http://evil.example/messages").await;
    let set = create_set_with(
        ServerSetOptions::default(),
        &[json!({ "name": "sse", "url": url, "transport": "sse" })],
    );
    assert!(set.wait_until_ready(LONG).await);
    let reason = "the server's message URL `http://evil.example/messages` has a different origin";
    assert_eq!(view(&set, "sse").state, ServerState::Failed { reason: reason.to_owned() });
}

#[tokio::test]
async fn legacy_sse_is_detected_from_a_url() {
    let url = legacy_sse("/messages?session=1").await;
    let streamable = json!({ "name": "strict", "url": url, "transport": "streamable-http" });
    let set =
        create_set_with(ServerSetOptions::default(), &[json!({ "name": "any", "url": url }), streamable]);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(call(&set, "any__do", json!({})).await, ToolOutput::text("done"));
    assert!(matches!(view(&set, "strict").state, ServerState::Failed { .. }), "{:?}", view(&set, "strict"));
    set.close().await;
}

#[tokio::test]
async fn unknown_url_reports_its_http_status() {
    let web = Web::start(|_| status(404)).await;
    let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
    assert!(set.wait_until_ready(LONG).await);
    let ServerState::Failed { reason } = view(&set, "web").state else { panic!("{:?}", set.views()) };
    assert!(reason.contains("404"), "{reason}");
}

#[tokio::test]
async fn overlong_response_fails_only_its_call() {
    let long = || json!({ "content": [{ "type": "text", "text": "x".repeat(17 * 1024 * 1024) }] });
    let web = Web::start(move |request| match request.body["params"]["arguments"]["as"].as_str() {
        Some("json") => result(request, &long()),
        Some("chunks") => {
            let mut answer = result(request, &long());
            answer.headers.push(("transfer-encoding", "chunked".to_owned()));
            answer.body = format!("{:x}\r\n{}\r\n0\r\n\r\n", answer.body.len(), answer.body);
            answer
        }
        Some("events") => {
            let body = format!("id: 1\ndata: {}\n\n", result(request, &long()).body);
            Answer { status: 200, headers: vec![("content-type", "text/event-stream".to_owned())], body }
        }
        _ => older(request),
    })
    .await;
    let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
    assert!(set.wait_until_ready(LONG).await);
    let message = "the server's response exceeds 16 MiB and was not read; request less data (-32603)";
    for form in ["json", "chunks", "events"] {
        let output = call(&set, "web__do", json!({ "as": form })).await;
        assert_eq!(output, ToolOutput::failure(ToolFailure::ExecutionFailed, message), "{form}");
        assert_eq!(call(&set, "web__do", json!({})).await, ToolOutput::text("done"), "after {form}");
    }
    assert_eq!((view(&set, "web").state, view(&set, "web").restarts), (ServerState::Ready, 0));
}

#[tokio::test]
async fn invalid_parts_of_a_response_are_skipped() {
    let web = Web::start(|request| match request.body["method"].as_str() {
        Some("tools/list") => result(
            request,
            &json!({ "tools": [{ "name": 7 }, { "name": "do", "inputSchema": { "type": "object" } }] }),
        ),
        Some("tools/call") => result(request, &json!({ "content": [{ "type": "hologram" }] })),
        _ => older(request),
    })
    .await;
    let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(
        (names(&set), view(&set, "web").warnings),
        (vec!["web__do".to_owned()], vec!["tool 0: it has no name".to_owned()])
    );
    let output = call(&set, "web__do", json!({})).await;
    assert_eq!(output, ToolOutput::text("[unknown content type: `hologram`]"));
}

#[tokio::test]
async fn http_error_fails_only_its_call() {
    for (code, failure) in [
        (401, ToolFailure::AccessDenied),
        (403, ToolFailure::Unavailable),
        (500, ToolFailure::Unavailable),
        (503, ToolFailure::Unavailable),
    ] {
        let has_failed = Mutex::new(false);
        let web = Web::start(move |request| {
            let calls = request.body["method"] == "tools/call";
            if calls && !std::mem::replace(&mut *has_failed.lock().unwrap(), true) {
                let challenge = ("www-authenticate", "Bearer".to_owned());
                let headers = if code == 401 { vec![challenge] } else { Vec::new() };
                return Answer { status: code, headers, body: String::new() };
            }
            older(request)
        })
        .await;
        let set = create_set_with(ServerSetOptions::default(), &[entry(&web)]);
        assert!(set.wait_until_ready(LONG).await);
        let output = call(&set, "web__do", json!({})).await;
        let text = format!("{:?}", output.content);
        assert!(output.is_error && text.contains(failure.code()), "{code}: {text}");
        until("the server is ready again", || view(&set, "web").state == ServerState::Ready).await;
        assert_eq!(call(&set, "web__do", json!({})).await, ToolOutput::text("done"), "{code}");
    }
}
