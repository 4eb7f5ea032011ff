//! More clients than the limits allow: idle ones are evicted, and new ones are served.

use std::io::Write as _;
use std::process::{Command, Stdio};

use meerkat_mcp_server::http::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::http_access::{Serving, assert_serves};
use crate::support::{LONG, TestEnv, eventually};
use crate::web::{Web, call, legacy};

/// Number of idle connections that the server must handle.
const CONNECTIONS: u64 = 10_000;
/// Files that this process and the server need in addition to connections, and that concurrent tests use.
const OTHER_FILES: u64 = 2_000;

#[test]
fn idle_connections_do_not_lock_out_clients() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let count = maximum.unwrap_or(u64::MAX).saturating_sub(OTHER_FILES).min(CONNECTIONS);
    let env = TestEnv::new();
    // The server starts with a low file limit, as on many systems, and must raise it.
    let server = env.command(&["--realm", "test", "--http", "127.0.0.1:0"]);
    let arguments = server.get_args().map(|argument| format!("'{}'", argument.to_str().unwrap()));
    let script = format!(
        "ulimit -Sn 256; exec '{}' {}",
        server.get_program().to_str().unwrap(),
        arguments.collect::<Vec<_>>().join(" ")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null());
    shell.envs(server.get_envs().filter_map(|(key, value)| Some((key, value?))));
    shell.stderr(std::fs::File::options().append(true).create(true).open(env.path("stderr")).unwrap());
    let web = Web::spawn(&env, &mut shell);
    let mut idle: Vec<_> = (0..count).map(|_| web.connect()).collect();
    // Some have started to send a request.
    for stream in idle.iter_mut().step_by(3) {
        // A connection that has been idle for too long is closed, which is also correct.
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ");
    }
    assert_serves(&web);
    drop(idle);
    assert_serves(&web);
}

#[test]
fn longest_idle_session_is_evicted() {
    let serving = Serving::start(Limits { sessions: 3, ..Limits::default() });
    let web = Web::at(serving.address);
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
    let web = Web::at(serving.address);
    let (listening, running) = (web.session(), web.session());
    let stream = web.listen(&listening, None);
    let run = web.open_post(&legacy(&running), &call(7, "meerkat_run", json!({ "prompt": LONG })));
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
