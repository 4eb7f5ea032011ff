//! What is remembered of a server's process: its id, how it ended, and the last it wrote to its error stream.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::spawn::Started;
use meerkat_process::program_of;

/// How many bytes of a server's error stream are kept.
const KEPT: usize = 16 * 1024;
/// Number of characters shown of a line that is not a message.
const SHOWN_STRAY: usize = 120;

/// The log of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessLog {
    /// The id of the process that was started.
    started: Option<u32>,
    /// Whether that is a supervisor, which started the server.
    supervised: bool,
    tail: Mutex<VecDeque<u8>>,
    ending: Mutex<Option<String>>,
    stray: Mutex<Option<StrayOutput>>,
    unanswered: Mutex<Option<String>>,
    ignored_discovery: AtomicBool,
}

/// What a server wrote to its output that is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StrayOutput {
    /// A message that does not end on its line.
    SplitMessage,
    /// Text, of which this is the beginning.
    Text(String),
}

impl std::fmt::Display for StrayOutput {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SplitMessage => formatter.write_str(
                "it writes JSON over several lines; MCP over stdio needs each message on one line",
            ),
            Self::Text(text) => write!(formatter, "its stdout has text that is not MCP: `{text}`"),
        }
    }
}

impl ProcessLog {
    pub(super) fn of(started: &Started) -> Self {
        Self { started: started.child.id(), supervised: started.supervised, ..Self::default() }
    }

    /// The id of the server's process; that of its supervisor where nobody can tell.
    pub(crate) fn pid(&self) -> Option<u32> {
        let started = self.started?;
        self.supervised.then(|| program_of(started)).flatten().or(Some(started))
    }

    pub(super) fn append(&self, bytes: &[u8]) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (tail.len() + bytes.len()).saturating_sub(KEPT);
        tail.drain(..excess);
        tail.extend(bytes);
    }

    /// Notes a line of the output that is not a message.
    pub(super) fn note_stray(&self, line: &[u8]) {
        let line = line.trim_ascii();
        let split = match serde_json::from_slice::<Value>(line) {
            // An answer that came too late is a message all the same.
            Ok(message) if message["jsonrpc"] == "2.0" => return,
            Ok(_) => false,
            Err(error) => error.is_eof() && line.starts_with(b"{"),
        };
        let mut stray = self.stray.lock().unwrap_or_else(PoisonError::into_inner);
        if split {
            *stray = Some(StrayOutput::SplitMessage);
        } else if stray.is_none() && !line.is_empty() {
            let text = String::from_utf8_lossy(line);
            *stray = Some(StrayOutput::Text(text.chars().take(SHOWN_STRAY).collect()));
        }
    }

    /// Returns what the server wrote that is not a message.
    pub(crate) fn stray_output(&self) -> Option<StrayOutput> {
        self.stray.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a request that the server is to answer.
    pub(super) fn note_request(&self, method: &str) {
        *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(method.to_owned());
    }

    /// Notes that the server sent a message. Whatever it wrote before did it no harm.
    pub(super) fn note_message(&self) {
        *self.stray.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the method of the latest request, if the server has sent nothing since.
    pub(crate) fn unanswered(&self) -> Option<String> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the server was asked `server/discover` and stayed silent.
    pub(super) fn note_ignored_discovery(&self) {
        self.ignored_discovery.store(true, Ordering::Relaxed);
    }

    /// Returns true if the server was asked `server/discover` and stayed silent.
    pub(crate) fn ignored_discovery(&self) -> bool {
        self.ignored_discovery.load(Ordering::Relaxed)
    }

    pub(super) fn ended(&self, how: String) {
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
    }

    /// How the process ended, if it did.
    pub(crate) fn ending(&self) -> Option<String> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last lines of the error stream.
    pub(crate) fn stderr_tail(&self) -> String {
        let bytes: Vec<u8> =
            self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // Half a line may have half a secret, which nobody would recognize.
        let whole = match text.split_once('\n') {
            Some((_, rest)) if bytes.len() >= KEPT && !rest.trim().is_empty() => rest,
            _ => &text,
        };
        whole.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, ProcessLog, StrayOutput};

    #[test]
    fn only_the_end_of_a_long_stream_is_kept() {
        let log = ProcessLog::default();
        log.append(&vec![b'a'; KEPT * 3]);
        log.append(b"the end\n");
        let tail = log.stderr_tail();
        assert_eq!((tail.len(), tail.ends_with("athe end")), (KEPT - 1, true));
    }

    #[test]
    fn stray_output_is_told_apart_from_split_messages() {
        let log = ProcessLog::default();
        log.note_stray(b"");
        log.note_stray(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(log.stray_output(), None);
        log.note_stray(b"Listening on stdio");
        log.note_stray(b"again");
        assert_eq!(log.stray_output(), Some(StrayOutput::Text("Listening on stdio".to_owned())));
        log.note_stray(b"{ \"level\": \"info\" }");
        assert_eq!(log.stray_output(), Some(StrayOutput::Text("Listening on stdio".to_owned())));
        log.note_stray(b"{\r");
        assert_eq!(log.stray_output(), Some(StrayOutput::SplitMessage));
        log.note_message();
        assert_eq!(log.stray_output(), None, "a server that answers is well");
    }

    #[test]
    fn a_line_whose_beginning_is_lost_is_lost() {
        let log = ProcessLog::default();
        log.append(format!("{}half a secret\nthe end\n", "a".repeat(KEPT)).as_bytes());
        assert_eq!(log.stderr_tail(), "the end");
    }
}
