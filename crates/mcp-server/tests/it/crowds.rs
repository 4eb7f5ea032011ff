//! More clients than there is room for: those who are idle give way, and a new one is served.

use std::io::Write as _;
use std::process::{Command, Stdio};

use meerkat_mcp_server::http::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::guarded::{Serving, assert_serves};
use crate::support::{LONG, Place, eventually};
use crate::web::{Web, call, legacy};

/// As many idle clients as anybody should have to bear.
const MANY: u64 = 10_000;
/// What this process and the server need beside connections, and what other tests use at the same time.
const OTHER_FILES: u64 = 2_000;

#[test]
fn ten_thousand_idle_connections_keep_nobody_out() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let count = maximum.unwrap_or(u64::MAX).saturating_sub(OTHER_FILES).min(MANY);
    let place = Place::new();
    // The server starts with as few files as many systems give it, and must take more.
    let server = place.command(&["--realm", "test", "--http", "127.0.0.1:0"]);
    let arguments = server.get_args().map(|argument| format!("'{}'", argument.to_str().unwrap()));
    let script = format!(
        "ulimit -Sn 256; exec '{}' {}",
        server.get_program().to_str().unwrap(),
        arguments.collect::<Vec<_>>().join(" ")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null());
    shell.envs(server.get_envs().filter_map(|(key, value)| Some((key, value?))));
    shell.stderr(std::fs::File::options().append(true).create(true).open(place.beside("stderr")).unwrap());
    let web = Web::spawn(&place, &mut shell);
    let mut idle: Vec<_> = (0..count).map(|_| web.connect()).collect();
    // Some have begun to say something.
    for stream in idle.iter_mut().step_by(3) {
        // One that is idle for too long is closed, which is right too.
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ");
    }
    assert_serves(&web);
    drop(idle);
    assert_serves(&web);
}

#[test]
fn the_session_that_is_idle_for_the_longest_gives_way() {
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
fn a_session_too_many_is_told_so_when_all_are_in_use() {
    let serving = Serving::start(Limits { sessions: 2, ..Limits::default() });
    let web = Web::at(serving.address);
    let (listening, running) = (web.session(), web.session());
    let stream = web.listen(&listening, None);
    let run = web.open_post(&legacy(&running), &call(7, "meerkat_run", json!({ "prompt": LONG })));
    let refused = web.initialize();
    let reason = "too many sessions, and all of them in use; try later";
    assert_eq!(refused.error(), (503, -32000, reason.to_owned()));
    assert_eq!(refused.header("retry-after"), Some("30"));
    // A run goes on without its stream, and keeps its session; a stream that is closed does not.
    drop(run);
    drop(stream);
    eventually("there is room again", || web.initialize().status == 200);
    assert!(web.tool(&running, 8, "meerkat_sessions", json!({}))["sessions"].is_array());
    assert_eq!(web.post(&legacy(&listening), &call(1, "meerkat_sessions", json!({}))).status, 404);
}
