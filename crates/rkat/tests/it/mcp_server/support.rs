//! Shared helpers of the `rkat-mcp` tests: directories for files, and common requests.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use meerkat_testkit::{McpClient, Scratch, eventually, redact};
use serde_json::{Value, json};

/// Well-formed id of no session.
pub(crate) const UNKNOWN_SESSION: &str = "01890000-0000-7000-8000-000000000000";

/// Prompt of a run that ends only when it is stopped.
pub(crate) const LONG: &str = "wait 60000";

/// Directories of one test.
pub(crate) struct TestEnv {
    scratch: Scratch,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        Self { scratch: Scratch::new() }
    }

    /// Returns the directory of stored realms.
    pub(crate) fn state(&self) -> PathBuf {
        self.scratch.join("state")
    }

    /// Returns the path of a file outside the realms.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Returns the command of a server, isolated from the user's own files and keys. Its log goes to a file.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rkat-mcp"));
        let log = File::options().create(true).append(true).open(self.scratch.join("stderr"));
        command
            .args(arguments)
            .arg("--state-root")
            .arg(self.state())
            .env_clear()
            .env("HOME", self.scratch.path())
            .current_dir(self.scratch.path())
            .stderr(log.expect("the log can be written"));
        command
    }

    /// Like [`command`](Self::command), with a limit set by `ulimit`.
    pub(crate) fn limited(&self, limit: &str, arguments: &[&str]) -> Command {
        let server = self.command(arguments);
        let arguments = server.get_args().map(|argument| format!("'{}'", argument.to_str().unwrap()));
        let script = format!(
            "ulimit {limit}; exec '{}' {}",
            server.get_program().to_str().unwrap(),
            arguments.collect::<Vec<_>>().join(" ")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]);
        shell.envs(server.get_envs().filter_map(|(key, value)| Some((key, value?))));
        shell.stderr(File::options().append(true).create(true).open(self.path("stderr")).unwrap());
        shell
    }

    /// Starts a server on the realm `test` and completes the handshake.
    pub(crate) fn server(&self) -> McpClient {
        self.server_on("test")
    }

    /// Starts a server on a realm and completes the handshake.
    pub(crate) fn server_on(&self, realm: &str) -> McpClient {
        McpClient::start(&mut self.command(&["--realm", realm]))
    }

    /// Starts a server on the realm `test` without a handshake.
    pub(crate) fn silent_server(&self) -> McpClient {
        McpClient::spawn(&mut self.command(&["--realm", "test"]))
    }

    /// Returns everything that servers have written to stderr so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.join("stderr")).expect("the log can be read")
    }
}

/// Builds the params of `initialize`.
pub(crate) fn hello(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "it", "version": "0" },
    })
}

/// Runs a prompt in a new session and returns its id.
pub(crate) fn new_session(client: &mut McpClient, prompt: &str) -> String {
    id_of(&client.expect_tool("meerkat_run", json!({ "prompt": prompt })))
}

/// Returns the session id in a payload.
pub(crate) fn id_of(payload: &Value) -> String {
    payload["session_id"].as_str().unwrap_or_else(|| panic!("no session_id: {payload}")).to_owned()
}

/// Returns the agent's answer in a payload.
pub(crate) fn text_of(payload: &Value) -> &str {
    payload["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no answer: {payload}"))
}

/// Starts a run that ends only when it is stopped. Returns the ids of its request and session.
pub(crate) fn long_run(client: &mut McpClient) -> (u64, String) {
    let request = client.begin_tool("meerkat_run", json!({ "prompt": LONG }));
    (request, running_session(client))
}

/// Waits until a session runs, and returns its id.
pub(crate) fn running_session(client: &mut McpClient) -> String {
    let mut found = None;
    eventually("a session runs", || {
        let listed = client.expect_tool("meerkat_sessions", json!({}));
        let sessions = listed["sessions"].as_array().expect("a list of sessions");
        found = sessions.iter().find(|session| session["is_active"] == true).map(id_of);
        found.is_some()
    });
    found.expect("a running session")
}

/// Waits until a session is idle.
pub(crate) fn until_idle(client: &mut McpClient, session: &str) {
    eventually("the session is idle", || {
        client.expect_tool("meerkat_read", json!({ "session_id": session }))["state"]["is_active"] == false
    });
}

/// Returns role and text of the messages in a session, oldest first.
pub(crate) fn read_messages(client: &mut McpClient, session: &str) -> Vec<(String, String)> {
    let history = client.expect_tool("meerkat_history", json!({ "session_id": session }));
    let messages = history["messages"].as_array().expect("a list of messages");
    assert_eq!(history["message_count"], messages.len(), "message_count of {history}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |message: &Value| match message["role"].as_str() {
        Some("user") => ("user".to_owned(), text(&message["content"])),
        Some("block_assistant") => {
            let blocks = message["blocks"].as_array().expect("blocks");
            ("assistant".to_owned(), blocks.iter().map(|block| text(&block["data"]["text"])).collect())
        }
        _ => (text(&message["role"]), message["results"].to_string()),
    };
    messages.iter().map(line).collect()
}

/// Builds a return value of [`talk`].
pub(crate) fn expected_messages(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// Replaces values that differ between runs, as [`redact`] does, in a full document.
pub(crate) fn redacted(value: &Value) -> Value {
    serde_json::from_str(&quote_unix(&redact(&value.to_string()))).expect("it is still JSON")
}

/// Quotes the placeholder of a number.
fn quote_unix(text: &str) -> String {
    text.replace("\":[unix]", "\":\"[unix]\"")
}

/// Asserts that the server still responds.
pub(crate) fn assert_answers(client: &mut McpClient) {
    let pong = client.request("ping", json!({}));
    assert_eq!(pong["result"], json!({}), "the server no longer answers: {pong}");
    let listed = client.request("tools/list", json!({}));
    assert!(listed["result"]["tools"].is_array(), "the server no longer lists its tools: {listed}");
}
