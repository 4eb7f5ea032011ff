//! Log of a server's process: its id, its exit status, and the end of its stderr.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::spawn::StartedProcess;
use crate::lock;
use meerkat_process::supervised_pid;

/// Maximum number of bytes retained of a server's stderr.
const MAX_TAIL: usize = 16 * 1024;
/// Maximum number of characters reported of a line that is not a message.
const MAX_STRAY_CHARS: usize = 120;

/// Log of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessLog {
    /// Id of the started process.
    started: Option<u32>,
    /// Whether that process is a supervisor, which started the server.
    supervised: bool,
    tail: Mutex<VecDeque<u8>>,
    ending: Mutex<Option<String>>,
    stray: Mutex<Option<StrayOutput>>,
    unanswered: Mutex<Option<String>>,
    ignored_discovery: AtomicBool,
}

/// Output of a server on stdout that is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StrayOutput {
    /// A message split over several lines.
    #[error("it writes JSON over several lines; MCP over stdio needs each message on one line")]
    SplitMessage,
    /// The start of other text.
    #[error("its stdout has text that is not MCP: `{0}`")]
    Text(String),
}

impl ProcessLog {
    pub(super) fn new(started: &StartedProcess) -> Self {
        Self { started: started.child.id(), supervised: started.supervised, ..Self::default() }
    }

    /// Returns the id of the server's process, or of its supervisor if the former is unknown.
    pub(crate) fn pid(&self) -> Option<u32> {
        let started = self.started?;
        self.supervised.then(|| supervised_pid(started)).flatten().or(Some(started))
    }

    pub(super) fn append(&self, bytes: &[u8]) {
        let mut tail = lock(&self.tail);
        let bytes = &bytes[bytes.len().saturating_sub(MAX_TAIL)..];
        let excess = (tail.len() + bytes.len()).saturating_sub(MAX_TAIL);
        tail.drain(..excess);
        tail.extend(bytes);
    }

    /// Records a line of stdout that is not a message.
    pub(super) fn note_stray(&self, line: &[u8]) {
        let line = line.trim_ascii();
        let split = match serde_json::from_slice::<Value>(line) {
            // A late response is still a message.
            Ok(message) if message["jsonrpc"] == "2.0" => return,
            Ok(_) => false,
            Err(error) => error.is_eof() && line.starts_with(b"{"),
        };
        let mut stray = lock(&self.stray);
        if split {
            *stray = Some(StrayOutput::SplitMessage);
        } else if stray.is_none() && !line.is_empty() {
            let text = String::from_utf8_lossy(line);
            *stray = Some(StrayOutput::Text(text.chars().take(MAX_STRAY_CHARS).collect()));
        }
    }

    /// Returns the output that is not a message.
    pub(crate) fn stray_output(&self) -> Option<StrayOutput> {
        lock(&self.stray).clone()
    }

    /// Records a request that awaits a response.
    pub(super) fn note_request(&self, method: &str) {
        *lock(&self.unanswered) = Some(method.to_owned());
    }

    /// Records a message of the server. Earlier stray output was harmless.
    pub(super) fn note_message(&self) {
        *lock(&self.stray) = None;
        *lock(&self.unanswered) = None;
    }

    /// Returns the method of the latest request, if the server has sent nothing since.
    pub(crate) fn unanswered(&self) -> Option<String> {
        lock(&self.unanswered).clone()
    }

    /// Records that the server did not respond to `server/discover`.
    pub(super) fn note_ignored_discovery(&self) {
        self.ignored_discovery.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the server did not respond to `server/discover`.
    pub(crate) fn ignored_discovery(&self) -> bool {
        self.ignored_discovery.load(Ordering::Relaxed)
    }

    pub(super) fn set_ending(&self, how: String) {
        *lock(&self.ending) = Some(how);
    }

    /// Returns the exit status of the process, if it has exited.
    pub(crate) fn ending(&self) -> Option<String> {
        lock(&self.ending).clone()
    }

    /// Returns the last lines of stderr.
    pub(crate) fn stderr_tail(&self) -> String {
        let bytes: Vec<u8> = lock(&self.tail).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // A partial line may contain part of a secret, which would not be recognized.
        let lines = match text.split_once('\n') {
            Some((_, rest)) if bytes.len() >= MAX_TAIL && !rest.trim().is_empty() => rest,
            _ => &text,
        };
        lines.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TAIL, ProcessLog, StrayOutput};

    #[test]
    fn only_the_end_of_stderr_is_retained() {
        let log = ProcessLog::default();
        log.append(&vec![b'a'; MAX_TAIL * 3]);
        log.append(b"the end\n");
        let tail = log.stderr_tail();
        assert_eq!((tail.len(), tail.ends_with("athe end")), (MAX_TAIL - 1, true));
    }

    #[test]
    fn stray_output_is_distinct_from_split_messages() {
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
        assert_eq!(log.stray_output(), None, "a message clears stray output");
    }

    #[test]
    fn tail_omits_a_partial_first_line() {
        let log = ProcessLog::default();
        log.append(format!("{}half a secret\nthe end\n", "a".repeat(MAX_TAIL)).as_bytes());
        assert_eq!(log.stderr_tail(), "the end");
    }
}
