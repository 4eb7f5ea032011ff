//! The program's log on stderr. Nobody may read it, or nobody any more; neither holds the server up.

use std::io::Write as _;
use std::sync::mpsc::{SyncSender, sync_channel};

/// How many lines wait for a slow reader; what comes on top is lost.
const WAITING: usize = 4096;

/// Takes lines from anywhere and writes them from a thread of its own.
#[derive(Clone)]
pub(crate) struct Log(SyncSender<String>);

impl Log {
    pub(crate) fn start() -> Self {
        let (sender, lines) = sync_channel::<String>(WAITING);
        std::thread::spawn(move || {
            for line in lines {
                write(&line);
            }
        });
        Self(sender)
    }

    pub(crate) fn line(&self, line: &str) {
        let _ = self.0.try_send(line.to_owned());
    }
}

/// Writes a line now.
pub(crate) fn write(line: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}
