//! How a server over stdio ends: within two seconds of the end of its input or of its parent, whatever still runs.

use std::time::Duration;

/// How long requests in flight may still take when the client has closed its side.
pub(crate) const FAREWELL: Duration = Duration::from_millis(1000);
/// How long interrupted runs may take to commit their end.
pub(crate) const LAST_COMMITS: Duration = Duration::from_millis(500);
/// How long the last answers may take to be made, and then to be written.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long threads that still work are waited for: those that matter have committed by then.
pub const LAST_THREADS: Duration = Duration::from_millis(100);
/// How long the last lines of the log may take.
pub const LAST_LINES: Duration = Duration::from_millis(100);
/// How long a collector of traces may take for the last of them, on top of all else; without one, it is no time.
pub const LAST_TRACES: Duration = Duration::from_millis(500);
/// How often is looked whether the process that started this one is still there.
pub const PARENT_ROUND: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::{FAREWELL, LAST_COMMITS, LAST_LINES, LAST_THREADS, LAST_WORDS, PARENT_ROUND};
    use std::time::Duration;

    const PROMISED: Duration = Duration::from_secs(2);

    #[test]
    fn everything_there_is_to_wait_for_takes_less_than_two_seconds() {
        let input_closed = FAREWELL + LAST_COMMITS + LAST_WORDS * 2 + LAST_THREADS + LAST_LINES;
        assert!(input_closed < PROMISED, "{input_closed:?} after the end of the input");
        let orphaned = PARENT_ROUND + LAST_COMMITS + LAST_THREADS + LAST_LINES;
        assert!(orphaned < PROMISED, "{orphaned:?} after the death of the parent");
    }
}
