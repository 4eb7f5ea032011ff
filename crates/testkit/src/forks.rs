//! An MCP server that starts child processes, and a check for those that outlive it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::ShellServer;

/// Starts one process in the server's process group, one outside it, and one that is orphaned immediately.
const SPAWN_CHILDREN: &str = "sleep $1 &\nsetsid sleep $1 &\n(sleep $1 &)\n";
/// Number of processes that [`SPAWN_CHILDREN`] starts.
const CHILDREN: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(60);

/// The server. It and every process it starts carry a mark in their arguments.
#[derive(Debug)]
pub struct ForkingServer {
    script: PathBuf,
    mark: String,
}

impl ForkingServer {
    /// Writes the server's script into a directory, with a mark that no other process carries.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let script = dir.join("forks.sh");
        std::fs::write(&script, format!("{SPAWN_CHILDREN}{}", ShellServer::SCRIPT))
            .expect("the script can be written");
        Self { script, mark: mark() }
    }

    /// Returns its entry for an MCP config file.
    #[must_use]
    pub fn toml(&self, name: &str) -> String {
        let (script, mark) = (&self.script, &self.mark);
        format!(
            "[[servers]]\nname = \"{name}\"\ncommand = \"/bin/sh\"\nargs = [{script:?}, \"{mark}\"]\n\
             env = {{ PATH = \"/usr/bin:/bin\" }}\n"
        )
    }

    /// Waits until all its child processes are running.
    pub fn await_all(&self) {
        let started =
            || processes_with_mark(&self.mark).iter().filter(|line| line.starts_with("sleep")).count();
        let deadline = Instant::now() + TIMEOUT;
        while started() < CHILDREN {
            assert!(Instant::now() < deadline, "only {:?} are running", processes_with_mark(&self.mark));
        }
    }

    /// Waits until none of its processes is left.
    pub fn assert_none_left(&self) {
        assert_no_process_with_mark(&self.mark);
    }
}

/// Returns a sleep duration that no other process uses, which identifies a process.
#[must_use]
pub fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("86{:03}.{}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id())
}

/// Returns the command lines of the processes that carry a mark in their arguments.
#[must_use]
pub fn processes_with_mark(mark: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("/proc can be read").flatten();
    let lines = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(mark)).map(|line| line.replace('\0', " ")).collect()
}

/// Waits until no process carries a mark.
pub fn assert_no_process_with_mark(mark: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while !processes_with_mark(mark).is_empty() {
        assert!(Instant::now() < deadline, "still alive: {:?}", processes_with_mark(mark));
        std::thread::sleep(Duration::from_millis(10));
    }
}
