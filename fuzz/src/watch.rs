//! A watch over the fuzzer: an input that takes too long or too much memory is written down, and all ends.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long one input may take, with room for a machine that is busy with other things.
const LONGEST: Duration = Duration::from_secs(20);
/// How much memory the fuzzer may have, in KiB.
const MOST: u64 = 2 * 1024 * 1024;
/// How often to look.
const PERIOD: Duration = Duration::from_millis(500);

type Current = Mutex<Option<(Instant, Vec<u8>)>>;

/// Knows what is running; the watching ends with it.
pub(crate) struct Watch {
    current: Arc<Current>,
}

impl Watch {
    /// Begins to watch; `path` is where an input goes that does not end.
    pub(crate) fn start(name: &'static str, path: PathBuf) -> Self {
        let current = Arc::new(Current::default());
        let seen = Arc::downgrade(&current);
        std::thread::spawn(move || watch(name, &path, &seen));
        Self { current }
    }

    /// An input begins.
    pub(crate) fn begin(&self, input: &[u8]) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), input.to_owned()));
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn watch(name: &str, path: &std::path::Path, seen: &Weak<Current>) {
    loop {
        std::thread::sleep(PERIOD);
        let Some(current) = seen.upgrade() else { return };
        let current = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((since, input)) = current else { continue };
        let what = if since.elapsed() > LONGEST {
            "it takes too long"
        } else if resident().is_some_and(|memory| memory > MOST) {
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

/// Returns the memory of this process in KiB, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
