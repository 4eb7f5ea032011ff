//! Startup and shutdown of the process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use meerkat_testkit::{McpClient, eventually};
use serde_json::{Value, json};

use super::support::{
    LONG, TestEnv, UNKNOWN_SESSION, expected_messages, hello, long_run, new_session, read_messages, text_of,
};

/// Time allowed for a server to exit: far less than its run would take, but enough on a busy machine.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time allowed for a server to exit if a run must be stopped first.
const EXIT_TIMEOUT_WITH_RUN: Duration = Duration::from_secs(15);

#[test]
fn first_stderr_line_names_realm_and_backend() {
    let env = TestEnv::new();
    let mut client = McpClient::spawn(&mut env.command(&["--realm", "team-alpha"]));
    client.close_input();
    assert!(client.wait().success());
    let log = env.log();
    let first = log.lines().next().unwrap_or_default();
    assert!(first.contains("`team-alpha`") && first.contains("sqlite"), "the log is {log:?}");
    assert_eq!(log.lines().count(), 1, "the log is {log:?}");
}

#[test]
fn nothing_is_written_before_the_first_call() {
    let env = TestEnv::new();
    let mut client = env.server();
    client.request("tools/list", json!({}));
    assert!(!env.state().exists(), "listing the tools created the realm");
    client.expect_tool("meerkat_sessions", json!({}));
    assert!(env.state().join("test").is_dir());
}

#[test]
fn server_exits_when_input_ends() {
    let env = TestEnv::new();
    let openings: [fn(&mut McpClient); 3] = [
        |_| {},
        |client| drop(client.request("initialize", hello("2025-11-25"))),
        |client| {
            client.request("initialize", hello("2025-11-25"));
            client.notify("notifications/initialized", json!({}));
            client.expect_tool("meerkat_run", json!({ "prompt": "say hi" }));
        },
    ];
    for (case, open) in openings.into_iter().enumerate() {
        let mut client = env.silent_server();
        open(&mut client);
        let (status, time) = stop(&mut client, McpClient::close_input);
        assert!(status.success(), "case {case}: {status}");
        assert!(time < EXIT_TIMEOUT, "case {case}: it took {time:?}");
    }
}

#[test]
fn in_flight_requests_are_answered_before_exit() {
    let env = TestEnv::new();
    let mut client = env.server();
    // Open the store first: on a busy machine, opening it takes a part of the allowed time.
    new_session(&mut client, "say early");
    let slow = client.begin_tool("meerkat_run", json!({ "prompt": "wait 300\nsay late" }));
    let pings: Vec<_> = (0..20).map(|_| client.begin("ping", json!({}))).collect();
    client.close_input();
    let replies = client.read_to_end();
    assert!(client.wait().success());
    let reply = |id: u64| replies.iter().find(|reply| reply["id"] == id);
    let run = reply(slow).unwrap_or_else(|| panic!("the run was not answered: {replies:?}"));
    assert_eq!(text_of(&run["result"]["structuredContent"]), "late");
    for id in pings {
        assert!(reply(id).is_some(), "ping {id} was not answered: {replies:?}");
    }
}

#[test]
fn piped_requests_are_all_answered() {
    let env = TestEnv::new();
    let mut client = env.silent_server();
    let request = |id: u64, method: &str, params: Value| {
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    };
    let call = json!({ "name": "meerkat_run", "arguments": { "prompt": "say hi" } });
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let lines = [
        request(1, "initialize", hello("2025-06-18")),
        format!("{initialized}\n"),
        request(2, "tools/list", json!({})),
        request(3, "tools/call", call),
    ];
    client.send_raw(lines.concat().as_bytes());
    client.close_input();
    let mut ids: Vec<_> = client.read_to_end().iter().filter_map(|reply| reply["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    assert!(client.wait().success());
}

#[test]
fn last_request_without_newline_is_answered() {
    let env = TestEnv::new();
    let mut client = env.server();
    client.send_raw(br#"{"jsonrpc":"2.0","id":77,"method":"ping"}"#);
    client.close_input();
    assert_eq!(client.read_to_end(), [json!({ "jsonrpc": "2.0", "id": 77, "result": {} })]);
    assert!(client.wait().success());
}

#[test]
fn incomplete_last_line_is_not_fatal() {
    let env = TestEnv::new();
    let mut client = env.server();
    client.send_raw(br#"{"jsonrpc":"2.0","id":77,"meth"#);
    client.close_input();
    let replies = client.read_to_end();
    let codes: Vec<_> = replies.iter().map(|reply| &reply["error"]["code"]).collect();
    assert_eq!(codes, [-32700], "{replies:?}");
    assert!(client.wait().success());
}

#[test]
fn run_interrupted_by_end_of_input_can_resume() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (_, session) = long_run(&mut client);
    let (status, time) = stop(&mut client, McpClient::close_input);
    assert!(status.success(), "{status}");
    assert!(time < EXIT_TIMEOUT_WITH_RUN, "it took {time:?}");
    assert_resumes(&env, &session, &INTERRUPTED);
}

#[test]
fn termination_signal_stops_the_server() {
    let env = TestEnv::new();
    for signal in ["TERM", "INT", "HUP"] {
        let mut client = env.server();
        client.expect_tool("meerkat_sessions", json!({}));
        let (status, time) = stop(&mut client, |client| send_signal(signal, client));
        assert!(status.success(), "{signal}: {status}");
        assert!(time < EXIT_TIMEOUT, "{signal}: it took {time:?}");
    }
}

#[test]
fn run_interrupted_by_signal_can_resume() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (_, session) = long_run(&mut client);
    let (status, time) = stop(&mut client, |client| send_signal("TERM", client));
    assert!(status.success(), "{status}");
    assert!(time < EXIT_TIMEOUT, "it took {time:?}");
    assert_resumes(&env, &session, &INTERRUPTED);
}

#[test]
fn session_of_killed_server_resumes_immediately() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (_, session) = long_run(&mut client);
    client.kill();
    assert_resumes(&env, &session, &[("user", LONG)]);
}

#[test]
fn many_active_runs_stop_without_data_loss() {
    let env = TestEnv::new();
    let mut client = env.server();
    let prompts = 30;
    for _ in 0..prompts {
        client.begin_tool("meerkat_run", json!({ "prompt": LONG }));
    }
    let active = |client: &mut McpClient| {
        let listed = client.expect_tool("meerkat_sessions", json!({}));
        let sessions = listed["sessions"].as_array().cloned().unwrap_or_default();
        sessions.into_iter().filter(|session| session["is_active"] == true).count()
    };
    eventually("all of them run", || active(&mut client) == prompts);
    let (status, time) = stop(&mut client, McpClient::close_input);
    assert!(status.success(), "{status}");
    assert!(time < EXIT_TIMEOUT_WITH_RUN, "it took {time:?}");
    let mut client = env.server();
    assert_eq!(active(&mut client), 0, "runs still active");
    let listed = client.expect_tool("meerkat_sessions", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(prompts), "{listed}");
}

#[test]
fn client_that_does_not_read_cannot_block_exit() {
    let env = TestEnv::new();
    // When the input ends, more output is pending than the pipe and the queues can hold.
    let list = json!({ "jsonrpc": "2.0", "method": "tools/list" });
    let lists: String = (0..200).map(|id| format!("{}\n", with_id(&list, id))).collect();
    let nonsense = "nonsense\n".repeat(2000);
    let cases = [(Output::Unread, &lists), (Output::Closed, &lists), (Output::Unread, &nonsense)];
    for (output, lines) in cases {
        let mut child = env
            .command(&["--realm", "test"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        if output == Output::Closed {
            drop(child.stdout.take());
        }
        let hello =
            with_id(&json!({ "jsonrpc": "2.0", "method": "initialize", "params": hello("2025-11-25") }), 900);
        // Writing fails if the server has already exited.
        let _ = stdin.write_all(format!("{hello}\n{lines}").as_bytes());
        drop(stdin);
        let start = Instant::now();
        while child.try_wait().expect("it can be waited for").is_none() {
            if start.elapsed() > EXIT_TIMEOUT_WITH_RUN {
                child.kill().expect("it can be killed");
                child.wait().expect("it ends");
                panic!("{output:?}: the server did not end");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn server_exits_with_its_parent() {
    let env = TestEnv::new();
    let server = env.command(&["--realm", "test"]);
    // The shell exits, but another process keeps the server's input open.
    let fifo = env.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let holder = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::File::options().write(true).open(fifo).unwrap()
    });
    let script = format!(
        "'{}' {} < '{}' > /dev/null & echo $!; wait",
        server.get_program().to_str().unwrap(),
        server
            .get_args()
            .map(|argument| format!("'{}'", argument.to_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" "),
        fifo.display(),
    );
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .envs(server.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .current_dir(server.get_current_dir().unwrap())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::options().append(true).create(true).open(env.path("stderr")).unwrap())
        .spawn()
        .unwrap();
    let _input = holder.join().unwrap();
    let mut pid = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut pid)
        .unwrap();
    eventually("the server has started", || env.log().contains("rkat-mcp"));
    shell.kill().unwrap();
    shell.wait().unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    // A process without a waiting parent stays as a zombie, which counts as exited.
    let ended = || !std::fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z "));
    eventually("the server has ended", ended);
}

#[test]
fn invalid_arguments_are_rejected_at_startup() {
    let env = TestEnv::new();
    let cases: [(&[&str], &str); 5] = [
        (&["--realm", "a/../b"], "a/../b"),
        (&["--realm", UNKNOWN_SESSION], UNKNOWN_SESSION),
        (&["--realm", "a", "--isolated"], "--isolated"),
        (&["--realm-backend", "paper"], "paper"),
        (&["--no-such-flag"], "--no-such-flag"),
    ];
    for (arguments, named) in cases {
        let output = env.command(arguments).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?} were accepted");
        assert!(output.stdout.is_empty(), "{arguments:?}: stdout has {:?}", output.stdout);
        assert!(stderr.contains("error:") && stderr.contains(named), "{arguments:?}: {stderr}");
    }
}

/// Misuse of the server's output by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Unread,
    Closed,
}

fn with_id(request: &Value, id: u64) -> Value {
    let mut request = request.clone();
    request["id"] = json!(id);
    request
}

/// Stops a server with `end`. Returns its exit status and the time it took.
fn stop(client: &mut McpClient, end: impl FnOnce(&mut McpClient)) -> (ExitStatus, Duration) {
    let start = Instant::now();
    end(client);
    (client.wait(), start.elapsed())
}

fn send_signal(signal: &str, client: &mut McpClient) {
    let sent = Command::new("kill").args(["-s", signal, &client.pid().to_string()]).status();
    assert!(sent.expect("kill runs").success(), "{signal} could not be sent");
}

/// Messages of an interrupted long run: its prompt, and a response without text.
const INTERRUPTED: [(&str, &str); 2] = [("user", LONG), ("assistant", "")];

/// Reopens the realm and asserts that the long run has left these messages and that its session can be resumed.
fn assert_resumes(env: &TestEnv, session: &str, left: &[(&str, &str)]) {
    let mut client = env.server();
    assert_eq!(read_messages(&mut client, session), expected_messages(left), "messages of the stopped run");
    let resumed =
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say back" }));
    assert_eq!(text_of(&resumed), "back");
}

#[test]
fn signal_right_after_startup_exits_cleanly() {
    let env = TestEnv::new();
    for signal in ["TERM", "INT", "HUP"].repeat(4) {
        let mut command = env.command(&["--realm", "test", "--http", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
        log.read_line(&mut line).expect("a line");
        assert!(line.contains("listening on"), "{line}");
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "{signal} could not be sent");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "after {signal}");
    }
}
