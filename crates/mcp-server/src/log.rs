//! The program's log on stderr. Nobody may read it, or nobody any more; neither holds the server up.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{SyncSender, sync_channel};

use meerkat::{Redactor, escape_text};
use meerkat_mcp_server::lifetime::LAST_LINES;

/// How many lines wait for a slow reader; what comes on top is lost.
const WAITING: usize = 4096;

/// Takes lines from anywhere and writes them from a thread of its own.
#[derive(Clone)]
pub(crate) struct Log {
    entries: SyncSender<Entry>,
    redactor: Redactor,
}

enum Entry {
    Line(String),
    /// Tells the sender that all lines before it are written.
    Mark(SyncSender<()>),
}

impl Log {
    pub(crate) fn start(redactor: Redactor) -> Self {
        let (sender, entries) = sync_channel(WAITING);
        std::thread::spawn(move || {
            for entry in entries {
                match entry {
                    Entry::Line(line) => write(&line),
                    Entry::Mark(reached) => drop(reached.send(())),
                }
            }
        });
        Self { entries: sender, redactor }
    }

    pub(crate) fn line(&self, line: &str) {
        let _ = self.entries.try_send(Entry::Line(self.redactor.redact(line).into_owned()));
    }

    /// Waits a moment for what was logged to be written.
    pub(crate) fn finish(&self) {
        let (mark, reached) = sync_channel(1);
        if self.entries.try_send(Entry::Mark(mark)).is_ok() {
            let _ = reached.recv_timeout(LAST_LINES);
        }
    }
}

/// Writes a line now. A terminal gets no control characters of clients, servers or models.
pub(crate) fn write(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let line = if stderr.is_terminal() { escape_text(line) } else { line.into() };
    let _ = stderr.write_all(format!("{line}\n").as_bytes());
}
