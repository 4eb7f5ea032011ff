//! Log on stderr. A missing or slow reader never blocks the server.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{SyncSender, sync_channel};

use meerkat::{Redactor, escape_text};
use meerkat_mcp_server::lifetime::LOG_FLUSH_TIMEOUT;

/// Maximum number of queued lines; more lines are dropped until the reader catches up.
const MAX_QUEUED: usize = 4096;

/// Log that accepts lines from any thread and writes them on a dedicated one.
#[derive(Clone)]
pub(crate) struct Log {
    entries: SyncSender<Entry>,
    redactor: Redactor,
}

enum Entry {
    Line(String),
    /// Signals the sender once all earlier lines are written.
    Mark(SyncSender<()>),
}

impl Log {
    pub(crate) fn start(redactor: Redactor) -> Self {
        let (sender, entries) = sync_channel(MAX_QUEUED);
        std::thread::spawn(move || {
            for entry in entries {
                match entry {
                    Entry::Line(line) => write(&line),
                    Entry::Mark(done) => drop(done.send(())),
                }
            }
        });
        Self { entries: sender, redactor }
    }

    pub(crate) fn line(&self, line: &str) {
        let _ = self.entries.try_send(Entry::Line(self.redactor.redact(line).into_owned()));
    }

    /// Waits briefly until all lines are written.
    pub(crate) fn finish(&self) {
        let (mark, done) = sync_channel(1);
        if self.entries.try_send(Entry::Mark(mark)).is_ok() {
            let _ = done.recv_timeout(LOG_FLUSH_TIMEOUT);
        }
    }
}

/// Writes a line immediately. Control characters from clients, servers, or models are escaped on a terminal.
pub(crate) fn write(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let line = if stderr.is_terminal() { escape_text(line) } else { line.into() };
    let _ = stderr.write_all(format!("{line}\n").as_bytes());
}
