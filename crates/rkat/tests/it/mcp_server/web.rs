//! Server over HTTP, with a client for it.

use std::ops::Deref;
use std::process::{Child, Command, ExitStatus, Stdio};

use meerkat_testkit::eventually;
use meerkat_testkit::web::Client;

use super::support::TestEnv;

/// Running server.
pub(crate) struct Web {
    child: Child,
    /// Client that sends the token that the server printed.
    client: Client,
}

impl Web {
    /// Starts a server on the realm `test`.
    pub(crate) fn start(env: &TestEnv) -> Self {
        Self::start_with(env, &[])
    }

    pub(crate) fn start_with(env: &TestEnv, arguments: &[&str]) -> Self {
        let mut all = vec!["--realm", "test", "--http", "127.0.0.1:0"];
        all.extend(arguments);
        Self::spawn(env, &mut env.command(&all))
    }

    /// Starts a server with this command, which must log to the file of `env`.
    pub(crate) fn spawn(env: &TestEnv, command: &mut Command) -> Self {
        let before = if env.path("stderr").exists() { env.log().len() } else { 0 };
        let child = command.stdin(Stdio::null()).spawn().expect("the server starts");
        let chooses = |argument: &std::ffi::OsStr| {
            let argument = argument.to_string_lossy();
            // A JSON log does not contain the token.
            ["--token-file", "--no-token", "json"].iter().any(|option| argument.contains(option))
        };
        let prints_token = !command.get_args().any(chooses);
        let (mut address, mut token) = (None, None);
        eventually("the server listens", || {
            let log = env.log();
            let find = |start: &str, end: &str| {
                let found = log[before..].lines().find_map(|line| line.split_once(start));
                found.and_then(|(_, rest)| rest.split_once(end)).map(|(value, _)| value.to_owned())
            };
            address = find("listening on http://", "/mcp");
            token = find("Authorization: Bearer ", "\"");
            address.is_some() && (token.is_some() || !prints_token)
        });
        Self { child, client: Client::new(address.expect("an address"), token) }
    }

    /// Returns the id of the server's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to shut down and waits until it has exited.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.expect("the signal can be sent").success());
        self.child.wait().expect("the server ends")
    }
}

impl Deref for Web {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
