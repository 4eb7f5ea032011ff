//! Writing results to stdout and everything else to stderr. A closed pipe (`rkat … | head`) is not an error.
//!
//! All output goes through this module. Secrets are masked, and control characters from servers, skills, sessions, or
//! models are escaped if a terminal would interpret them. Output to a file or pipe keeps its bytes.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{LazyLock, OnceLock};

use meerkat::{Redactor, escape_text};
use meerkat_mcp_server::lifetime::LOG_FLUSH_TIMEOUT;
use meerkat_telemetry::{Level, json_message};

use crate::env;

/// Secrets that are masked in all output.
static SECRETS: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// Maximum number of lines queued for a slow reader of stderr; further lines are dropped.
const QUEUE_CAPACITY: usize = 4096;

/// Whether every line on stderr is a JSON object, for servers with a JSON log.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Queue of the thread that writes lines to stderr for code that must not block.
static QUEUE: OnceLock<SyncSender<Entry>> = OnceLock::new();

/// First error of a streamed answer.
static STREAM_ERROR: OnceLock<std::io::Error> = OnceLock::new();

enum Entry {
    Line(String),
    /// Formatted by the log.
    LogLine(String),
    /// Signals the sender once all earlier lines are written.
    Mark(SyncSender<()>),
}

/// Destination of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Terminal,
    /// A file, a pipe, or a device.
    Other,
}

impl Destination {
    fn stdout() -> Self {
        if env::stdout_is_terminal() { Self::Terminal } else { Self::Other }
    }

    fn stderr() -> Self {
        if env::stderr_is_terminal() { Self::Terminal } else { Self::Other }
    }

    /// Returns the text with secrets masked, and escaped for a terminal.
    fn printable(self, text: &str) -> Cow<'_, str> {
        let text = SECRETS.redact(text);
        match self {
            Self::Terminal => Cow::Owned(escape_text(&text).into_owned()),
            Self::Other => text,
        }
    }
}

/// Returns the redactor of this process, to which secrets can be added.
pub(crate) fn secrets() -> Redactor {
    SECRETS.clone()
}

/// Adds the secrets in the environment to the redactor.
pub(crate) fn register_secrets() {
    env::all().iter().for_each(|(name, value)| SECRETS.add_named(name, value));
}

/// Writes text; exits quietly if stdout is closed.
pub(crate) fn print(text: &str) {
    write(Destination::stdout().printable(text).as_bytes());
}

/// Writes the bytes of a document like [`print`]. A terminal gets them as escaped text.
pub(crate) fn bytes(bytes: &[u8]) {
    match Destination::stdout() {
        Destination::Terminal => write(escape_text(&String::from_utf8_lossy(bytes)).as_bytes()),
        Destination::Other => write(bytes),
    }
}

fn write(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            stderr_line(&format!("error: cannot write the result: {error}"));
        }
        std::process::exit(i32::from(error.kind() != ErrorKind::BrokenPipe));
    }
}

/// Writes a line like [`print`].
pub(crate) fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// From here on, writes every line to stderr as a JSON object.
pub(crate) fn set_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Returns `true` if every line on stderr is a JSON object.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Writes a line to stderr, ignoring errors.
pub(crate) fn stderr_line(text: &str) {
    if is_json() {
        return log_line(&json_object(&SECRETS.redact(text)));
    }
    log_line(text);
}

/// Converts a line to a JSON object with the level that the line starts with.
fn json_object(text: &str) -> String {
    let levels = [("error: ", Level::ERROR), ("warning: ", Level::WARN), ("", Level::INFO)];
    let mut found = levels.iter().filter_map(|(start, level)| Some((*level, text.strip_prefix(start)?)));
    let (level, message) = found.next().unwrap_or((Level::INFO, text));
    json_message(level, "rkat", message)
}

/// Writes a line of the log to stderr.
pub(crate) fn log_line(text: &str) {
    write_error(&format!("{}\n", Destination::stderr().printable(text)));
}

/// Writes a warning to stderr.
pub(crate) fn warn(text: impl Display) {
    stderr_line(&format!("warning: {text}"));
}

/// Queues a line for stderr without blocking, for long-running servers.
pub(crate) fn queue(text: &str) {
    enqueue(Entry::Line(text.to_owned()));
}

/// Queues a line of the log like [`queue`].
pub(crate) fn queue_log_line(text: &str) {
    enqueue(Entry::LogLine(text.to_owned()));
}

fn enqueue(entry: Entry) {
    let _ = QUEUE.get_or_init(start_queue).try_send(entry);
}

fn start_queue() -> SyncSender<Entry> {
    let (queue, entries) = sync_channel(QUEUE_CAPACITY);
    let write = move || {
        for entry in entries {
            match entry {
                Entry::Line(line) => stderr_line(&line),
                Entry::LogLine(line) => log_line(&line),
                Entry::Mark(done) => drop(done.send(())),
            }
        }
    };
    // Without the thread, lines are dropped.
    let _ = std::thread::Builder::new().name("stderr".to_owned()).spawn(write);
    queue
}

/// Waits briefly until all queued lines are written.
pub(crate) fn flush_queue() {
    let (mark, done) = sync_channel(1);
    if QUEUE.get().is_some_and(|queue| queue.try_send(Entry::Mark(mark)).is_ok()) {
        let _ = done.recv_timeout(LOG_FLUSH_TIMEOUT);
    }
}

/// Writes a less important line to stderr, dimmed if colors are enabled.
pub(crate) fn note(text: &str) {
    if env::stderr_has_colors() {
        write_error(&format!("\u{1b}[2m{}\u{1b}[0m\n", Destination::stderr().printable(text)));
    } else {
        stderr_line(text);
    }
}

/// Writes the line with the realm's token to stderr, for the user to pass to clients. No other output contains it.
pub(crate) fn print_token(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Writes a question to stderr; the user types the answer on the same line.
pub(crate) fn ask(text: &str) {
    write_error(&Destination::stderr().printable(text));
}

fn write_error(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a piece of a streamed answer. The run continues after an error, which [`stream_error`] returns at its end.
pub(crate) fn stream(text: &str) {
    let text = Destination::stdout().printable(text);
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        let _ = STREAM_ERROR.set(error);
    }
}

/// Returns the first error of [`stream`], unless the reader has closed the pipe.
pub(crate) fn stream_error() -> Option<std::io::Error> {
    let error = STREAM_ERROR.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)?;
    Some(std::io::Error::new(error.kind(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{Destination, json_object};
    use serde_json::{Value, json};

    #[test]
    fn only_terminals_get_escaped_text() {
        let hostile = "\u{1b}[2Jhi\n";
        assert_eq!(Destination::Terminal.printable(hostile), "\\u001b[2Jhi\n");
        assert_eq!(Destination::Other.printable(hostile), hostile);
    }

    #[test]
    fn json_line_has_the_level_of_its_text() {
        for (text, level, message) in [
            ("error: no\nway", "error", "no\nway"),
            ("warning: slow", "warn", "slow"),
            ("rkat: error: hello", "info", "rkat: error: hello"),
        ] {
            let line: Value = serde_json::from_str(&json_object(text)).unwrap();
            assert_eq!((&line["level"], &line["message"]), (&json!(level), &json!(message)));
        }
    }
}
