//! An MCP server that starts programs of its own, and a look at what is left of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::ShellServer;

/// One program stays in the server's group, one leaves it, and one has lost its parent already.
const BEGINNING: &str = "sleep $1 &\nsetsid sleep $1 &\n(sleep $1 &)\n";
/// How many programs that makes.
const PROGRAMS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// The server. Everything it starts carries a mark in its arguments, and so does everything that starts it.
#[derive(Debug)]
pub struct Forks {
    script: PathBuf,
    mark: String,
}

impl Forks {
    /// Writes the server's script into a directory, with a mark that no other process carries.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let script = folder.join("forks.sh");
        std::fs::write(&script, format!("{BEGINNING}{}", ShellServer::SCRIPT)).expect("it can be written");
        Self { script, mark: mark() }
    }

    /// Its entry as it stands in a file.
    #[must_use]
    pub fn toml(&self, name: &str) -> String {
        let (script, mark) = (&self.script, &self.mark);
        format!(
            "[[servers]]\nname = \"{name}\"\ncommand = \"/bin/sh\"\nargs = [{script:?}, \"{mark}\"]\n\
             env = {{ PATH = \"/usr/bin:/bin\" }}\n"
        )
    }

    /// Waits until everything that it starts is there.
    pub fn await_all(&self) {
        let started = || carrying(&self.mark).iter().filter(|line| line.starts_with("sleep")).count();
        let deadline = Instant::now() + PATIENCE;
        while started() < PROGRAMS {
            assert!(Instant::now() < deadline, "only {:?} are there", carrying(&self.mark));
        }
    }

    /// Waits until nothing of it is there.
    pub fn assert_none_left(&self) {
        assert_none_carries(&self.mark);
    }
}

/// Makes up a number that no other process sleeps for.
#[must_use]
pub fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("86{:03}.{}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id())
}

/// Returns the command lines of the processes that carry a mark in their arguments.
#[must_use]
pub fn carrying(mark: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("there is a list of processes").flatten();
    let lines = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(mark)).map(|line| line.replace('\0', " ")).collect()
}

/// Waits until no process carries a mark.
pub fn assert_none_carries(mark: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !carrying(mark).is_empty() {
        assert!(Instant::now() < deadline, "still alive: {:?}", carrying(mark));
        std::thread::sleep(Duration::from_millis(10));
    }
}
