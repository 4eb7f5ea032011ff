//! `rkat` under test, in a separate directory and with a clean environment.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use meerkat_testkit::{Scratch, redact};
use serde_json::Value;

/// Time limit for an expected output or exit.
const TIMEOUT: Duration = Duration::from_secs(60);

/// `rkat` with a temporary home, data, and working directory.
pub(crate) struct Rkat {
    scratch: Scratch,
}

impl Rkat {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        for dir in ["home", "data", "work"] {
            std::fs::create_dir(scratch.join(dir)).unwrap();
        }
        Self { scratch }
    }

    /// Returns the working directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    /// Returns the user's home directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.scratch.join("home")
    }

    /// Returns the user's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.join("data")
    }

    /// Creates a command line.
    pub(crate) fn args<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Invocation<'_> {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
        command.args(args);
        Invocation { rkat: self, command, stdin: Input::None }
    }

    /// Runs a prompt and returns the session's id.
    pub(crate) fn session(&self, prompt: &str) -> String {
        let done = self.args(["run", "--json", prompt]).run();
        done.json()["session_id"].as_str().unwrap().to_owned()
    }

    /// Creates a command for another program in the same environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.scratch.join("home")).env("NO_COLOR", "1");
        command.env("XDG_DATA_HOME", self.scratch.join("data")).current_dir(self.work());
        command
    }

    /// Replaces the parts of a text that differ from run to run.
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = redact(text).replace(&self.scratch.path().display().to_string(), "[dir]");
        let mut parts = text.split("ws-");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |done, part| match part.split_at_checked(16) {
            Some((hash, rest)) if hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
                format!("{done}[workspace]{rest}")
            }
            _ => format!("{done}ws-{part}"),
        })
    }
}

enum Input {
    None,
    Text(String),
    Open,
}

/// A command line, ready to run.
pub(crate) struct Invocation<'a> {
    rkat: &'a Rkat,
    command: Command,
    stdin: Input,
}

impl<'a> Invocation<'a> {
    /// Sets the text on stdin.
    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.stdin = Input::Text(text.to_owned());
        self
    }

    /// Connects stdin to a pipe that stays open and silent.
    pub(crate) fn open_stdin(mut self) -> Self {
        self.stdin = Input::Open;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn current_dir(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Starts the process.
    pub(crate) fn start(mut self) -> Running<'a> {
        let stdin = if matches!(self.stdin, Input::None) { Stdio::null() } else { Stdio::piped() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let mut stdin = child.stdin.take();
        if let Input::Text(text) = &self.stdin {
            // A process that does not read its input may exit before the input is written.
            let _ = stdin.take().unwrap().write_all(text.as_bytes());
        }
        let stdout = child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || read_all(stdout));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Running { rkat: self.rkat, child, stdin, stdout: Some(stdout), lines, seen: Vec::new() }
    }

    /// Runs the process until it exits.
    pub(crate) fn run(self) -> Output {
        self.start().finish()
    }
}

/// A running process.
pub(crate) struct Running<'a> {
    rkat: &'a Rkat,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<JoinHandle<String>>,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Running<'_> {
    /// Waits for a line of stderr that contains a text, and returns the line.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|error| panic!("no `{text}` ({error}): {:?}", self.seen));
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits until a run with `--verbose` calls its model, and returns the session.
    pub(crate) fn wait_for_step(&mut self) -> String {
        let started: Value = serde_json::from_str(&self.wait_for("\"run_started\"")).unwrap();
        self.wait_for("\"turn_started\"");
        started["session_id"].as_str().unwrap().to_owned()
    }

    /// Writes to the open stdin and closes it.
    pub(crate) fn write_stdin(&mut self, text: &str) {
        self.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Sends a signal to the process.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }

    /// Waits for the process to exit.
    pub(crate) fn finish(mut self) -> Output {
        let status = self.wait();
        drop(self.stdin.take());
        let stdout = self.stdout.take().unwrap().join().unwrap();
        self.seen.extend(self.lines.iter());
        let stderr: String = self.seen.iter().map(|line| format!("{line}\n")).collect();
        let output = Output { stdout, stderr, code: status.code(), redacted: String::new() };
        Output { redacted: self.rkat.redact(&output.snapshot()), ..output }
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the process does not exit: {:?}", self.seen);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // The process has already exited, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

/// Output and exit code of a process. Its `Display` form is suitable for snapshots.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
    redacted: String,
}

impl Output {
    /// Parses stdout as JSON; the command must have succeeded.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Returns stdout; the command must have succeeded.
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self}");
        &self.stdout
    }

    fn snapshot(&self) -> String {
        let code = self.code.map_or("by a signal".to_owned(), |code| code.to_string());
        format!("{}--- stderr\n{}--- exit {code}", self.stdout, self.stderr)
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted)
    }
}
