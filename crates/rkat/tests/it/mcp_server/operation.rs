//! Operation of the HTTP server: probes, the access log, and stores that cannot be opened.

use std::fs;
use std::process::Stdio;

use meerkat_testkit::eventually;
use meerkat_testkit::web::Client;
use serde_json::json;

use super::support::{TestEnv, new_session};
use super::web::Web;

/// Sends a probe without a token and with a foreign host.
fn probe(web: &Web, path: &str) -> (u16, String) {
    let anyone = Client::new(web.address().to_owned(), None);
    let reply = anyone.send("GET", path, &[("host", "10.0.0.1:80")], b"");
    (reply.status, reply.body)
}

#[test]
fn probes_need_no_token() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    assert_eq!(probe(&web, "/healthz"), (200, "alive\n".to_owned()));
    assert_eq!(probe(&web, "/readyz"), (200, "ready\n".to_owned()));
    assert!(!env.state().join("test/sessions.sqlite3").exists(), "a probe creates no realm");
}

#[test]
fn unreadable_store_is_reported_at_start() {
    let env = TestEnv::new();
    let mut client = env.server();
    new_session(&mut client, "say hi");
    assert!(client.close().success());
    fs::write(env.state().join("test/sessions.sqlite3"), "this is not a database").expect("a file");
    let web = Web::start(&env);
    eventually("the log has the reason", || env.log().contains("error: cannot open the realm: "));
    assert_eq!(probe(&web, "/healthz"), (200, "alive\n".to_owned()));
    assert_eq!(probe(&web, "/readyz"), (503, "not ready\n".to_owned()));
}

#[test]
fn low_file_limit_is_reported_at_start() {
    let env = TestEnv::new();
    let start = |limit| env.limited(limit, &["--realm", "test", "--http", "127.0.0.1:0"]);
    let mut child = start("-n 20").stdin(Stdio::null()).spawn().expect("the server starts");
    assert!(!child.wait().expect("an exit status").success());
    assert!(env.log().contains("the system allows 20 open files, but a server needs at least 64"));
    for (limit, clients) in [("-n 100", 1), ("-n 1024", 896)] {
        let web = Web::spawn(&env, &mut start(limit));
        let warning = format!("at most {clients} clients can connect at a time instead of 16000");
        eventually("the log has a warning", || env.log().contains(&warning));
        assert_eq!(probe(&web, "/readyz").0, 200);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn server_out_of_files_recovers() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let env = TestEnv::new();
    let web = Web::start(&env);
    super::http_access::assert_serves(&web);
    let server = Pid::from_raw(web.id().try_into().expect("a process id"));
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let lowered = prlimit(server, Resource::Nofile, Rlimit { current: Some(3), maximum });
    let before = lowered.expect("the limit can be lowered");
    let waiting = web.connect();
    eventually("the log has the reason", || env.log().contains("warning: cannot accept connections: "));
    prlimit(server, Resource::Nofile, before).expect("the limit can be raised");
    drop(waiting);
    super::http_access::assert_serves(&web);
    assert_eq!(env.log().matches("cannot accept connections").count(), 1);
}

#[test]
fn output_schemas_cannot_block_the_server() {
    let env = TestEnv::new();
    let mut web = Web::start(&env);
    let mut defs = serde_json::Map::from_iter([("a0".to_owned(), json!({}))]);
    for level in 1..=40 {
        let below = json!({ "$ref": format!("#/$defs/a{}", level - 1) });
        defs.insert(format!("a{level}"), json!({ "allOf": [below, below] }));
    }
    let schema = json!({ "$defs": defs, "$ref": "#/$defs/a40" });
    for _ in 0..2 {
        let run = json!({ "prompt": "say hi", "output_schema": schema });
        let reply = web.modern("tools/call", json!({ "name": "meerkat_run", "arguments": run }), json!({}));
        assert!(reply.to_string().contains("`output_schema` is too large"), "{reply}");
    }
    super::http_access::assert_serves(&web);
    assert!(web.stop().success());
}

#[test]
fn access_log_has_one_line_per_request() {
    let env = TestEnv::new();
    let mut command = env.command(&["--realm", "test", "--http", "127.0.0.1:0"]);
    let web = Web::spawn(&env, command.env("RKAT_LOG", "info"));
    let session = web.session();
    web.tool(&session, 1, "meerkat_sessions", json!({}));
    web.modern("tools/call", json!({ "name": "meerkat_help", "arguments": { "question": "?" } }), json!({}));
    assert_eq!(web.send("GET", "/mcp", &[("authorization", "Bearer x")], b"").status, 401);
    let lines = |operation: &str| {
        let log = env.log();
        log.lines()
            .filter(|line| line.contains("a request was answered") && line.contains(operation))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for (operation, status) in [
        ("initialize", 200),
        ("notifications/initialized", 202),
        ("tools/call meerkat_sessions", 200),
        ("tools/call meerkat_help", 200),
        ("GET /mcp", 401),
    ] {
        eventually(operation, || !lines(&format!("operation=\"{operation}\"")).is_empty());
        let found = lines(&format!("operation=\"{operation}\""));
        let [line] = &found[..] else { panic!("{operation}: {found:?}") };
        assert!(line.contains("client=127.0.0.1:") && line.contains("duration_ms="), "{line}");
        assert!(line.contains(&format!("status={status}")), "{line}");
    }
}
