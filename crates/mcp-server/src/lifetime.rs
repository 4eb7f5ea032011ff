//! Shutdown timeouts. A stdio server exits within two seconds of the end of its input or the exit of its parent,
//! even with active runs.

use std::time::Duration;

/// Time allowed for in-flight requests after stdin closes.
pub(crate) const FAREWELL: Duration = Duration::from_millis(1000);
/// Time allowed for interrupted runs to commit their final state.
pub(crate) const LAST_COMMITS: Duration = Duration::from_millis(500);
/// Time allowed for creating the last responses, and again for writing them.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(100);
/// Time allowed for busy threads to finish; everything important is committed by then.
pub const LAST_THREADS: Duration = Duration::from_millis(100);
/// Time allowed for writing the last log lines.
pub const LAST_LINES: Duration = Duration::from_millis(100);
/// Additional time allowed for sending the last traces; unused without a collector.
pub const LAST_TRACES: Duration = Duration::from_millis(500);
/// Interval between checks that the parent process is still running.
pub const PARENT_ROUND: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::{FAREWELL, LAST_COMMITS, LAST_LINES, LAST_THREADS, LAST_WORDS, PARENT_ROUND};
    use std::time::Duration;

    const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

    #[test]
    fn shutdown_timeouts_add_up_to_under_two_seconds() {
        let input_closed = FAREWELL + LAST_COMMITS + LAST_WORDS * 2 + LAST_THREADS + LAST_LINES;
        assert!(input_closed < SHUTDOWN_LIMIT, "{input_closed:?} after the end of the input");
        let orphaned = PARENT_ROUND + LAST_COMMITS + LAST_THREADS + LAST_LINES;
        assert!(orphaned < SHUTDOWN_LIMIT, "{orphaned:?} after the parent exits");
    }
}
