//! Operation of the HTTP server: probes, the access log, and stores that cannot be opened.

use std::fs;
use std::process::Stdio;

use meerkat_testkit::web::{Client, call};
use meerkat_testkit::{SmallDisk, checkpoint, eventually};
use serde_json::{Value, json};

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
fn store_that_cannot_be_opened_is_not_ready() {
    let env = TestEnv::new();
    let mut client = env.server();
    new_session(&mut client, "say hi");
    assert!(client.close().success());
    let database = env.state().join("test/sessions.sqlite3");
    checkpoint(&database);
    let intact = fs::read(&database).expect("a database");
    let mut newer = intact.clone();
    let pages = newer.chunks_mut(4096).filter(|page| page.len() == 4096);
    // The only row of the table with the version is the last thing on its page.
    let mut versions = pages.filter_map(|page| page.last_chunk_mut().filter(|row| row[..4] == [3, 1, 2, 1]));
    let [row, None] = [versions.next(), versions.next()] else { panic!("several rows") };
    let row: &mut [u8; 5] = row.expect("a row");
    row[4] = 99;
    for (damaged, reason) in [
        (newer, "has schema version 99; this build reads up to"),
        (intact[..intact.len() / 2].to_vec(), "is damaged"),
        (Vec::new(), "is missing or empty"),
    ] {
        fs::write(&database, &damaged).expect("the file can be written");
        fs::remove_file(env.path("stderr")).expect("the log can be deleted");
        let web = Web::start(&env);
        eventually(reason, || {
            env.log().contains("error: cannot open the realm: ") && env.log().contains(reason)
        });
        assert_eq!(probe(&web, "/healthz").0, 200, "{reason}");
        assert_eq!(probe(&web, "/readyz"), (503, "not ready\n".to_owned()), "{reason}");
        let page = web.send("GET", "/", &[], b"");
        assert_eq!(page.status, 503, "{reason}");
        assert!(
            page.body.contains("It cannot serve requests now") && !page.body.contains(reason),
            "{page:?}"
        );
        eventually("the log has the reason", || env.log().contains("the server is not ready"));
    }
    fs::write(&database, &intact).expect("the file can be written");
    let web = Web::start(&env);
    assert_eq!((probe(&web, "/readyz").0, web.send("GET", "/", &[], b"").status), (200, 200));
}

#[test]
fn new_realm_in_an_unwritable_state_root_is_not_ready() {
    let env = TestEnv::new();
    fs::write(env.state(), "not a directory").expect("a file");
    let web = Web::start_with(&env, &["--no-token"]);
    assert_eq!(probe(&web, "/readyz"), (503, "not ready\n".to_owned()));
    drop(web);
    fs::remove_file(env.state()).expect("the file can be deleted");
    fs::create_dir(env.state()).expect("a directory");
    let Some(disk) = SmallDisk::mount(&env.state()) else { return };
    assert_eq!(probe(&Web::start_with(&env, &["--no-token"]), "/readyz").0, 200);
    let _filler = disk.fill();
    assert_eq!(probe(&Web::start_with(&env, &["--no-token"]), "/readyz").0, 503, "a full disk");
    disk.make_read_only();
    assert_eq!(probe(&Web::start_with(&env, &["--no-token"]), "/readyz").0, 503, "a read-only disk");
}

#[test]
fn refused_requests_are_logged_once_per_minute() {
    let env = TestEnv::new();
    let web = Web::start(&env);
    for _ in 0..3 {
        assert_eq!(web.send("GET", "/mcp", &[("authorization", "Bearer canary")], b"").status, 401);
        assert_eq!(web.send("GET", "/mcp", &[("host", "evil.example")], b"").status, 403);
    }
    let lines = || {
        let log = env.log();
        let lines = log.lines().filter(|line| line.contains("requests were refused"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    eventually("both are logged", || lines().len() == 2);
    for (line, status) in lines().iter().zip(["status=401", "status=403"]) {
        let parts = [" WARN ", "client=127.0.0.1:", status, "count=1", "reason="];
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    assert!(!env.log().contains("canary"));
}

/// Asserts that every line of a log is a JSON object without the token, and returns the messages.
fn json_messages(log: &str, token: &str) -> Vec<String> {
    assert!(!log.contains(token), "{log}");
    let message = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["time"].is_string(), "{line}");
        line["message"].as_str().expect("a message").to_owned()
    };
    log.lines().map(message).collect()
}

#[test]
#[cfg(unix)]
fn json_log_is_all_json() {
    let env = TestEnv::new();
    fs::create_dir(env.path(".rkat")).expect("a directory");
    let file = "[[servers]]\nname = \"gone\"\ncommand = \"no-such-program\"\n\n[[servers]]\nname = 5\n";
    fs::write(env.path(".rkat/mcp.toml"), file).expect("a file");
    let arguments = ["--realm", "test", "--http", "127.0.0.1:0", "--log-format", "json"];
    for realm_is_damaged in [false, true] {
        let mut web = Web::spawn(&env, &mut env.limited("-n 250", &arguments));
        let token = fs::read_to_string(env.state().join("test/token")).expect("a token");
        let client = Client::new(web.address().to_owned(), Some(token.trim().to_owned()));
        assert_eq!(client.send("GET", "/mcp", &[("authorization", "Bearer x")], b"").status, 401);
        let last = match realm_is_damaged {
            true => "cannot open the realm: ",
            false => {
                let (session, failing) = (client.session(), json!({ "prompt": "fail auth" }));
                client.post(&[("mcp-session-id", session.as_str())], &call(1, "meerkat_run", failing));
                "the run failed"
            }
        };
        eventually(last, || env.log().contains(last));
        assert!(web.stop().success());
        let messages = json_messages(&env.log(), token.trim());
        let path = env.state().join("test/token").display().to_string();
        for part in ["listening on http://", &path, "open files", "requests were refused", last] {
            assert!(messages.iter().any(|message| message.contains(part)), "no {part} in {messages:#?}");
        }
        fs::write(env.state().join("test/sessions.sqlite3"), "this is not a database").expect("a file");
        fs::remove_file(env.path("stderr")).expect("the log can be deleted");
    }
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
