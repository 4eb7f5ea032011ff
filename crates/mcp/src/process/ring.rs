//! What is remembered of a server's process: its id, how it ended, and the last it wrote to its error stream.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::spawn::Started;
use meerkat_process::program_of;

/// How many bytes of a server's error stream are kept.
const KEPT: usize = 16 * 1024;

/// The log of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessLog {
    /// The id of the process that was started.
    started: Option<u32>,
    /// Whether that is a supervisor, which started the server.
    supervised: bool,
    tail: Mutex<VecDeque<u8>>,
    ending: Mutex<Option<String>>,
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
        // Half a line may have half a secret, which nobody would recognise.
        let whole = match text.split_once('\n') {
            Some((_, rest)) if bytes.len() >= KEPT && !rest.trim().is_empty() => rest,
            _ => &text,
        };
        whole.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, ProcessLog};

    #[test]
    fn only_the_end_of_a_long_stream_is_kept() {
        let log = ProcessLog::default();
        log.append(&vec![b'a'; KEPT * 3]);
        log.append(b"the end\n");
        let tail = log.stderr_tail();
        assert_eq!((tail.len(), tail.ends_with("athe end")), (KEPT - 1, true));
    }

    #[test]
    fn a_line_whose_beginning_is_lost_is_lost() {
        let log = ProcessLog::default();
        log.append(format!("{}half a secret\nthe end\n", "a".repeat(KEPT)).as_bytes());
        assert_eq!(log.stderr_tail(), "the end");
    }
}
