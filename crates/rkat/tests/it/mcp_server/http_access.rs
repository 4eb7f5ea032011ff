//! Access control and invalid input over HTTP: each case is rejected with a reason, and other clients are still
//! served.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use meerkat_testkit::eventually;
use meerkat_testkit::web::{call, legacy, payload};
use serde_json::json;

use super::support::{LONG, TestEnv, text_of};
use super::web::Web;

const JSON: (&str, &str) = ("content-type", "application/json");
const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

/// Asserts that the server still responds.
pub(crate) fn assert_serves(web: &Web) {
    let run = json!({ "name": "meerkat_run", "arguments": { "prompt": "say hello" } });
    assert_eq!(text_of(&payload(&web.modern("tools/call", run, json!({})))), "hello");
}

#[test]
fn foreign_hosts_and_origins_are_rejected() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (headers, reason) in [
        ([("host", "evil.example.com")], "this Host is not allowed"),
        ([("origin", "http://evil.example.com")], "this Origin is not allowed"),
        ([("origin", "null")], "this Origin is not allowed"),
    ] {
        assert_eq!(web.post(&headers, &ping).error(), (403, -32600, reason.to_owned()));
        assert_eq!(web.send("GET", "/", &headers, b"").status, 403);
    }
    assert_serves(&web);
}

#[test]
fn configured_token_is_required() {
    let env = TestEnv::new();
    let file = env.path("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let web = Web::start_with(&env, &["--token-file", file.to_str().unwrap()]);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let none = web.post(&[], &ping);
    assert_eq!(none.error(), (401, -32600, "a bearer token is required".to_owned()));
    assert_eq!(none.header("www-authenticate"), Some("Bearer realm=\"meerkat\""));
    let wrong = web.post(&[("authorization", "Bearer wrong")], &ping);
    assert_eq!(wrong.error(), (401, -32600, "invalid bearer token".to_owned()));
    assert_eq!(wrong.header("www-authenticate"), Some("Bearer realm=\"meerkat\", error=\"invalid_token\""));
    let right = web.post(&[("authorization", "Bearer s3cret")], &ping);
    assert_eq!(right.error(), (400, -32600, "Bad Request: Session ID is required".to_owned()));
    assert!(!env.log().contains("s3cret"));
}

#[test]
fn realm_token_is_private_printed_once_and_reused() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = TestEnv::new();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut tokens = Vec::new();
    for start in 1..=2 {
        let web = Web::start(&env);
        let token = web.token().unwrap().to_owned();
        for wrong in ["", "Bearer ", "Bearer wrong"] {
            assert_eq!(web.post(&[("authorization", wrong)], &ping).status, 401, "{wrong:?}");
        }
        let session = web.session();
        let run = json!({ "prompt": format!("say {token}"), "verbose": true });
        web.tool(&session, 1, "meerkat_run", run);
        eventually("the run is logged", || env.log().contains("run_completed"));
        assert_eq!(env.log().matches(&token).count(), start, "{}", env.log());
        tokens.push(token);
    }
    assert_eq!(tokens[0], tokens[1]);
    let file = env.state().join("test/token");
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), tokens[0]);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn unnamed_realm_gets_a_token_without_a_file() {
    let env = TestEnv::new();
    let web = Web::spawn(&env, &mut env.command(&["--http", "127.0.0.1:0"]));
    assert_eq!(web.post(&[("authorization", "")], &json!({})).status, 401);
    assert!(!env.state().exists());
    assert_serves(&web);
}

#[test]
fn clients_without_token_cannot_reduce_safety() {
    let env = TestEnv::new();
    let web = Web::start_with(&env, &["--no-token"]);
    assert_serves(&web);
    let call = |name: &str, arguments: serde_json::Value| {
        let params = json!({ "name": name, "arguments": arguments });
        web.modern("tools/call", params, json!({}))["result"].to_string()
    };
    let patch =
        |patch: serde_json::Value| call("meerkat_config", json!({ "action": "patch", "patch": patch }));
    let shell = json!({ "enable_shell": true });
    for (reply, what) in [
        (patch(json!({ "tools": { "shell_enabled": true } })), "changing `tools.shell_enabled`"),
        (patch(json!({ "registry": { "tools": ["*"] } })), "changing `registry.tools`"),
        (
            call("meerkat_run", json!({ "prompt": "x", "enable_builtins": true, "builtin_config": shell })),
            "a session with shell tools (`builtin_config.enable_shell`)",
        ),
    ] {
        assert!(reply.contains(&format!("{what} needs a token")), "{reply}");
    }
    assert!(patch(json!({ "agent": { "max_tokens_per_turn": 8192 } })).contains("8192"));
    assert!(!env.state().join("test/token").exists());
}

#[test]
fn non_loopback_server_needs_a_token() {
    let env = TestEnv::new();
    let mut child = env.command(&["--http", "0.0.0.0:0", "--no-token"]).stdin(Stdio::null()).spawn().unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(env.log().contains("can be reached from other machines and needs a token"), "{}", env.log());
}

#[test]
fn address_in_use_is_reported() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let mut child = env.command(&["--http", web.address()]).stdin(Stdio::null()).spawn().unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(env.log().contains(&format!("cannot listen on `{}`", web.address())), "{}", env.log());
}

#[test]
fn invalid_messages_are_answered_with_errors() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let post = |headers: &[(&str, &str)], body: &[u8]| web.send("POST", "/mcp", headers, body).error();
    let (status, code, reason) = post(&[JSON, BOTH], b"{ \"jsonrpc\": ");
    assert_eq!((status, code), (400, -32700));
    assert!(reason.starts_with("not JSON: "), "{reason}");
    let (status, code, reason) = post(&[JSON, BOTH], b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]");
    assert_eq!((status, code), (400, -32600));
    assert!(reason.starts_with("batches need protocol revision 2025-03-26"), "{reason}");
    for body in ["7", "\"x\"", "{}", "{\"id\":1}", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"] {
        let (status, code, reason) = post(&[JSON, BOTH], body.as_bytes());
        assert_eq!((status, code), (400, -32600), "{body}");
        assert!(reason.starts_with("not a JSON-RPC 2.0 request or notification"), "{reason}");
    }
    let deep = "[".repeat(5000) + &"]".repeat(5000);
    for value in [r#""\ud800""#, "1e400", "NaN", &deep] {
        let call = format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":{value}}},"id":9}}"#);
        let reply = web.send("POST", "/mcp", &[JSON, BOTH], call.as_bytes());
        let body: serde_json::Value = serde_json::from_str(&reply.body).expect("JSON");
        assert_eq!(
            (reply.status, &body["id"], &body["error"]["code"]),
            (400, &9.into(), &(-32700).into()),
            "{value:.20}"
        );
    }
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(post(&[BOTH, ("content-type", "text/plain")], ping).0, 415);
    assert_eq!(post(&[JSON, ("accept", "text/html")], ping).0, 406);
    assert_eq!(post(&[JSON, BOTH, ("mcp-session-id", "unknown")], ping).0, 404);
    assert_eq!(web.send("PUT", "/mcp", &[], b"").error().0, 405);
    assert_eq!(web.send("GET", "/else", &[], b"").error().0, 404);
    assert_eq!(web.send("GET", "/mcp", &[("accept", "text/event-stream")], b"").error().0, 400);
    assert_serves(&web);
}

#[test]
fn oversized_body_is_rejected() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let big = vec![b' '; 16 * 1024 * 1024 + 1];
    let reply = web.send("POST", "/mcp", &[JSON, BOTH], &big);
    assert_eq!((reply.status, reply.error().1), (413, -32600));
    assert_serves(&web);
}

#[test]
fn incomplete_body_is_reported_as_incomplete() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n",
        web.address(),
        web.token().unwrap()
    );
    for rest in ["content-length: 100\r\n\r\n{\"jsonrpc\"", "transfer-encoding: chunked\r\n\r\nnonsense\r\n"]
    {
        let mut stream = web.connect();
        stream.write_all(format!("{head}{rest}").as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{rest:?}: {answer}");
        assert!(answer.contains("the body is incomplete"), "{rest:?}: {answer}");
    }
    assert_serves(&web);
}

/// Sends a raw request and returns the response.
fn raw(web: &Web, request: &str) -> String {
    let mut stream = web.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn absolute_uri_or_second_host_is_rejected() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let host = format!("host: {}\r\n", web.address());
    for (target, hosts, reason) in [
        (format!("http://{}/", web.address()), host.clone(), "send only the path"),
        ("http://evil.example.com/".to_owned(), host.clone(), "send only the path"),
        ("/".to_owned(), format!("{host}{host}"), "send one Host header"),
        ("/".to_owned(), format!("{host}host: evil.example.com\r\n"), "send one Host header"),
    ] {
        let answer = raw(&web, &format!("GET {target} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(reason), "{target}: {answer}");
    }
    assert_serves(&web);
}

#[test]
fn ten_megabyte_prompt_is_served() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let prompt = format!("say ok\nthen\n{}", "x".repeat(10 * 1024 * 1024));
    let reply = web.modern(
        "tools/call",
        json!({ "name": "meerkat_run", "arguments": { "prompt": prompt } }),
        json!({}),
    );
    assert!(payload(&reply)["session_id"].is_string());
}

#[test]
fn unknown_methods_and_tools_have_distinct_errors() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let unknown = web.open_modern("no/such", json!({}), json!({})).rest();
    assert_eq!(unknown.error(), (404, -32601, "unknown method `no/such`".to_owned()));
    let tool = web.modern("tools/call", json!({ "name": "nope", "arguments": {} }), json!({}));
    assert_eq!(tool["error"]["code"], -32602);
    let session = web.session();
    let tool = web.post(&legacy(&session), &call(1, "nope", json!({}))).message();
    assert_eq!(tool["error"]["code"], -32602);
}

#[test]
fn clients_that_never_read_do_not_block_others() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    let session = web.session();
    let standing = [("accept", "text/event-stream"), ("mcp-session-id", session.as_str())];
    let unread_stream = web.open("GET", "/mcp", &standing, b"");
    let streamed = json!({ "prompt": format!("say {}", "x".repeat(100_000)), "stream": true });
    let unread: Vec<_> = (0..30)
        .map(|id| web.open_post(&legacy(&session), &call(id, "meerkat_run", streamed.clone())))
        .collect();
    let waiting = web.open_post(&legacy(&session), &call(99, "meerkat_run", json!({ "prompt": LONG })));
    assert_serves(&web);
    let other = web.session();
    assert!(web.tool(&other, 1, "meerkat_sessions", json!({}))["sessions"].is_array());
    drop((unread_stream, unread, waiting));
    assert_serves(&web);
}
