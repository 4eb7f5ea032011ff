//! Models of providers at configured URLs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use meerkat_testkit::ShellServer;
use serde_json::Value;

use crate::support::Rkat;

const ANTHROPIC: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"c\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"from far away\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const CHAT: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"from the desk\"},\"finish_reason\":null}]}\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A required property with a name that providers reject.
const UNSUPPORTED_SCHEMA: &str = concat!(
    r#""inputSchema":{"type":"object","properties":{"no such name!":{}},"#,
    r#""required":["no such name!"]}"#
);

/// Responds to one request and returns its head and its body.
fn server(status: &'static str, answer: &'static str) -> (String, JoinHandle<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
            answer.len()
        )
        .unwrap();
        (head, serde_json::from_slice(&body).unwrap())
    });
    (address, served)
}

#[test]
fn key_in_environment_selects_provider_model() {
    let rkat = Rkat::new();
    let (address, served) = server("200 OK", ANTHROPIC);
    let patch = format!(r#"{{"providers": {{"anthropic": {{"base_url": "{address}"}}}}}}"#);
    rkat.args(["config", "patch", "--json", &patch]).run();
    let done = rkat.args(["run", "--json", "hello"]).env("ANTHROPIC_API_KEY", "key-of-the-user").run();
    let (head, body) = served.join().unwrap();
    let reply = done.json();
    assert_eq!((&reply["text"], &reply["model"]), (&"from far away".into(), &"claude-opus-4-7".into()));
    assert!(head.starts_with("POST /v1/messages HTTP/1.1"), "{head}");
    assert!(head.contains("x-api-key: key-of-the-user"), "{head}");
    assert_eq!(body["tools"][0]["type"], "web_search_20250305", "{body}");
    assert!(!format!("{done}").contains("key-of-the-user"));
}

#[test]
fn provider_error_names_it_and_keeps_session() {
    let rkat = Rkat::new();
    let refusal = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    let (address, served) = server("401 Unauthorized", refusal);
    let patch = format!(r#"{{"providers": {{"anthropic": {{"base_url": "{address}"}}}}}}"#);
    rkat.args(["config", "patch", "--json", &patch]).run();
    let done =
        rkat.args(["run", "--json", "--no-web-search", "hello"]).env("ANTHROPIC_API_KEY", "wrong").run();
    let (_, body) = served.join().unwrap();
    assert_eq!(body.get("tools"), None, "{body}");
    let reply: Value = serde_json::from_str(&done.stdout).unwrap();
    let error = &reply["error"];
    assert_eq!(error["data"]["error_class"], "auth", "{error}");
    assert_eq!(error["message"], "anthropic: HTTP 401: invalid x-api-key", "{error}");
    assert_eq!(error["data"]["resumable"], true, "{error}");
}

#[test]
fn unsupported_tool_is_reported_with_location() {
    let rkat = Rkat::new();
    let _ = ShellServer::new(&rkat.work());
    let script = rkat.work().join("server.sh");
    let text = std::fs::read_to_string(&script).unwrap();
    let broken = text.replace(r#""inputSchema":{"type":"object"}"#, UNSUPPORTED_SCHEMA);
    assert_ne!(text, broken, "the server has another schema");
    std::fs::write(&script, broken).unwrap();
    rkat.args(["mcp", "add", "shell", "-e", "PATH=/usr/bin:/bin", "--", "/bin/sh", "server.sh"]).run().text();
    let (address, served) = server("200 OK", ANTHROPIC);
    let patch = format!(r#"{{"providers": {{"anthropic": {{"base_url": "{address}"}}}}}}"#);
    rkat.args(["config", "patch", "--json", &patch]).run();
    let done = rkat.args(["run", "--wait-for-mcp", "hello"]).env("ANTHROPIC_API_KEY", "k").run();
    let (_, body) = served.join().unwrap();
    assert_eq!(done.stdout, "from far away\n", "{done}");
    assert!(!body.to_string().contains("shell__greet"), "{body}");
    let line = done.stderr.lines().find(|line| line.contains("shell__greet")).unwrap_or_default();
    assert!(line.starts_with("warning: tool `shell__greet` is "), "{done}");
    assert!(line.contains("input_schema/properties"), "{done}");
    assert!(line.ends_with(".rkat/mcp.toml:1)"), "{done}");
}

#[test]
fn self_hosted_model_is_used_by_its_alias() {
    let rkat = Rkat::new();
    let (address, served) = server("200 OK", CHAT);
    let patch = format!(
        r#"{{"self_hosted": {{"servers": {{"desk": {{"base_url": "{address}/v1", "bearer_token": "token-of-the-desk"}}}},
            "models": {{"local": {{"server": "desk", "remote_model": "qwen"}}}}}}}}"#
    );
    rkat.args(["config", "patch", "--json", &patch]).run();
    assert!(!format!("{}", rkat.args(["config", "get", "--json"]).run()).contains("token-of-the-desk"));
    let done = rkat.args(["run", "-q", "-m", "local", "hello"]).run();
    let (head, body) = served.join().unwrap();
    assert_eq!(format!("{done}"), "from the desk\n--- stderr\n--- exit 0");
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.contains("authorization: Bearer token-of-the-desk"), "{head}");
    assert_eq!(body["model"], "qwen");
}

#[test]
fn models_are_listed() {
    let rkat = Rkat::new();
    let listed = format!("{}", rkat.args(["models"]).run());
    assert!(listed.lines().any(|line| line.starts_with("gpt-5.5 *")), "{listed}");
    let catalog = rkat.args(["models", "--json"]).run().json();
    assert_eq!(catalog["contract_version"], "0.6.6");
    assert_eq!(catalog["providers"][0]["default_model_id"], "claude-opus-4-7");
}

#[test]
fn image_is_written_to_a_file() {
    let rkat = Rkat::new();
    let answer = r#"{"data":[{"b64_json":"iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAY="}]}"#;
    let (address, served) = server("200 OK", answer);
    let patch = format!(r#"{{"providers": {{"openai": {{"base_url": "{address}"}}}}}}"#);
    rkat.args(["config", "patch", "--json", &patch]).run();
    let file = rkat.work().join("meerkat.webp");
    let words = [
        "image",
        "a meerkat",
        "-o",
        "meerkat.webp",
        "-m",
        "gpt-image-1",
        "--size",
        "1024x1024",
        "--param",
        "moderation=low",
    ];
    let done = rkat.args(words).env("OPENAI_API_KEY", "key-of-the-user").run();
    let (head, body) = served.join().unwrap();
    assert_eq!(format!("{done}"), "--- stderr\nimage/png · 3x2 · gpt-image-1\n--- exit 0");
    assert!(head.starts_with("POST /v1/images/generations HTTP/1.1"), "{head}");
    let expected = serde_json::json!({
        "size": "1024x1024", "output_format": "webp", "moderation": "low", "model": "gpt-image-1",
        "prompt": "a meerkat", "n": 1,
    });
    assert_eq!(body, expected);
    assert_eq!(std::fs::read(file).unwrap().len(), 26);
}

#[test]
fn image_without_a_key_fails() {
    let rkat = Rkat::new();
    let done = rkat.args(["image", "a meerkat"]).run();
    let expected = "--- stderr\nerror: cannot use model `gpt-image-2`: no API key for a provider that generates \
        images; set `OPENAI_API_KEY` or `GEMINI_API_KEY` [PROVIDER_ERROR]\n--- exit 1";
    assert_eq!(format!("{done}"), expected);
}
