//! A watchdog for the fuzzer: an input that takes too long or too much memory is saved, and the process exits.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Maximum time for one input, with a margin for a busy machine.
const MAX_INPUT_TIME: Duration = Duration::from_secs(20);
/// Maximum memory of the fuzzer, in KiB.
const MAX_MEMORY_KIB: u64 = 2 * 1024 * 1024;
/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

type Current = Mutex<Option<(Instant, Vec<u8>)>>;

/// The running input; the watchdog stops when this is dropped.
pub(crate) struct Watch {
    current: Arc<Current>,
}

impl Watch {
    /// Starts the watchdog; `path` receives an input that exceeds a limit.
    pub(crate) fn start(name: &'static str, path: PathBuf) -> Self {
        let current = Arc::new(Current::default());
        let seen = Arc::downgrade(&current);
        std::thread::spawn(move || watch(name, &path, &seen));
        Self { current }
    }

    /// Sets the running input.
    pub(crate) fn begin(&self, input: &[u8]) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), input.to_owned()));
    }

    /// Clears the running input.
    pub(crate) fn end(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn watch(name: &str, path: &std::path::Path, seen: &Weak<Current>) {
    loop {
        std::thread::sleep(CHECK_INTERVAL);
        let Some(current) = seen.upgrade() else { return };
        let current = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((since, input)) = current else { continue };
        let what = if since.elapsed() > MAX_INPUT_TIME {
            "it takes too long"
        } else if resident().is_some_and(|memory| memory > MAX_MEMORY_KIB) {
            "it takes too much memory"
        } else {
            continue;
        };
        println!("{name}: FOUND {what}");
        match std::fs::write(path, input) {
            Ok(()) => println!("  cargo xtask fuzz {name} --input {}", path.display()),
            Err(error) => eprintln!("error: {}: {error}", path.display()),
        }
        std::process::exit(1);
    }
}

/// Returns the memory of this process in KiB, where the system reports it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
