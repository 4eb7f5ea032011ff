//! `rkat serve`: an MCP server over HTTP, until a signal ends it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use meerkat_testkit::SmallDisk;

use crate::support::Rkat;

/// A running `rkat serve`.
struct ServeProcess {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl ServeProcess {
    fn start(rkat: &Rkat, arguments: &[&str]) -> Self {
        let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
        let mut child = command
            .args(["serve", "--no-hub", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address =
            line.trim().rsplit_once("listening on http://").unwrap().1.strip_suffix("/mcp").unwrap();
        Self { child, stderr, address: address.to_owned() }
    }

    /// Reads the line that connects a client, and returns the token in it.
    fn token(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        let command = format!("claude mcp add --transport http meerkat http://{}/mcp --header", self.address);
        let start = format!("rkat: connect a client: {command} \"Authorization: Bearer ");
        line.trim().strip_prefix(&start).unwrap().strip_suffix('"').unwrap().to_owned()
    }

    /// Sends a stateless request and returns the response.
    fn request(&self, authorization: &str, method: &str, params: &str) -> String {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}"_meta":{meta}}}}}"#);
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.0\r\nhost: {}\r\naccept: application/json, text/event-stream\r\n{authorization}\
             content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n\
             mcp-name: meerkat_config\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Stops the server with a signal, and returns the rest of its stderr.
    fn stop(mut self) -> String {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert!(self.child.wait().unwrap().success());
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        rest
    }
}

#[test]
#[cfg(unix)]
fn realm_is_served_until_a_signal() {
    let rkat = Rkat::new();
    let session = rkat.session("say hello");
    let mut served = ServeProcess::start(&rkat, &[]);
    let token = format!("authorization: Bearer {}\r\n", served.token());
    let answer = served.request(&token, "resources/list", "");
    assert!(answer.contains(&format!("meerkat://session/{session}")), "{answer}");
    served.stop();
}

#[test]
#[cfg(unix)]
fn realm_token_is_required_and_reused() {
    let rkat = Rkat::new();
    let mut first = ServeProcess::start(&rkat, &[]);
    let token = first.token();
    for wrong in ["", "authorization: Bearer wrong\r\n"] {
        let answer = first.request(wrong, "resources/list", "");
        assert!(answer.starts_with("HTTP/1.0 401 ") && !answer.contains(&token), "{answer}");
    }
    assert!(!first.stop().contains(&token));
    let mut second = ServeProcess::start(&rkat, &[]);
    assert_eq!(second.token(), token);
    second.stop();
}

#[test]
#[cfg(unix)]
fn no_token_does_not_allow_config_changes() {
    let rkat = Rkat::new();
    let served = ServeProcess::start(&rkat, &["--no-token"]);
    let patch =
        r#""name":"meerkat_config","arguments":{"action":"patch","patch":{"tools":{"shell_enabled":true}}},"#;
    let answer = served.request("", "tools/call", patch);
    assert!(answer.contains("changing `tools.shell_enabled` needs a token"), "{answer}");
    assert_eq!(served.stop(), "");
}

#[test]
#[cfg(unix)]
fn greeting_describes_what_is_served_and_what_is_wrong() {
    let rkat = Rkat::new();
    rkat.session("say hello");
    rkat.args(["config", "patch", "--toml", "agent.model = \"claude-sonnet-4-5\""]).run().text();
    let started = |arguments: &[&str]| {
        let all = ["serve", "--no-hub", "--no-token", "--listen", "127.0.0.1:0"];
        let mut running = rkat.args(all.iter().chain(arguments).copied()).env("RKAT_LOG", "off").start();
        running.wait_for("listening on http://");
        running.signal("TERM");
        running.finish().stderr
    };
    let without_key = started(&[]);
    assert!(without_key.contains("warning: runs that name no model fail: "), "{without_key}");
    rkat.args(["config", "patch", "--toml", "agent.model = \"offline\""]).run().text();
    let ready = started(&[]);
    let data = rkat.data().join("meerkat/realms").display().to_string();
    for part in [
        "rkat: realm `",
        " (sqlite, `",
        &data,
        "), model `offline`, ",
        " tools, ",
        " skill",
        ", 0 MCP servers, ",
    ] {
        assert!(ready.contains(part), "no {part} in {ready}");
    }
    assert_eq!(ready.lines().count(), 1, "{ready}");
    std::fs::write(rkat.work().join("file"), "").unwrap();
    let unreadable = started(&["--state-root", "file", "--realm", "new"]);
    assert!(unreadable.contains("error: cannot open the realm: "), "{unreadable}");
    std::fs::create_dir(rkat.work().join("disk")).unwrap();
    let Some(disk) = SmallDisk::mount(&rkat.work().join("disk")) else { return };
    let _filler = disk.fill();
    let unwritable = started(&["--state-root", "disk", "--realm", "new"]);
    assert!(unwritable.contains("warning: runs fail, because they cannot be stored: "), "{unwritable}");
}

#[test]
#[cfg(unix)]
fn json_log_is_all_json_without_the_token() {
    let rkat = Rkat::new();
    rkat.args(["config", "patch", "--toml", "agent.model = \"claude-sonnet-4-5\""]).run().text();
    rkat.args(["mcp", "add", "gone", "--", "no-such-program"]).run().text();
    let realm =
        std::fs::read_dir(rkat.data().join("meerkat/realms")).unwrap().next().unwrap().unwrap().path();
    for hub in [&["--no-hub"][..], &["--hub", "127.0.0.1:0"], &["--hub", "nowhere"]] {
        let all = ["serve", "--listen", "127.0.0.1:0", "--log-format", "json"];
        let mut running = rkat.args(all.iter().chain(hub).copied()).start();
        if hub[1..] != ["nowhere"] {
            running.wait_for("clients send the token in `");
            running.signal("TERM");
        }
        let log = running.finish().stderr;
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let token = std::fs::read_to_string(realm.join("token")).unwrap();
        assert!(!lines.is_empty() && !log.contains(token.trim()), "{log}");
    }
}

#[test]
fn non_loopback_address_needs_a_token() {
    let rkat = Rkat::new();
    let done = rkat.args(["serve", "--no-token", "--listen", "0.0.0.0:0"]).run();
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("needs a token"), "{}", done.stderr);
    assert!(done.stderr.trim_end().ends_with("[INVALID_PARAMS]"), "{}", done.stderr);
}

#[test]
fn invalid_address_or_token_file_exits_2() {
    let rkat = Rkat::new();
    for arguments in [["--listen", "nowhere"], ["--token-file", "no-such-file"]] {
        let done = rkat.args(["serve", arguments[0], arguments[1]]).run();
        assert_eq!(done.code, Some(2), "{arguments:?}: {}", done.stderr);
        assert!(done.stderr.contains("[INVALID_PARAMS]"), "{arguments:?}: {}", done.stderr);
    }
}
