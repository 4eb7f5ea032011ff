//! Shutdown timeouts. A stdio server exits within two seconds of the end of its input or the exit of its parent,
//! even with active runs.

use std::time::Duration;

/// Time allowed for in-flight requests after stdin closes.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(1000);
/// Time allowed for interrupted runs to commit their final state.
pub(crate) const COMMIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time allowed for creating the last responses, and again for writing them.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_millis(100);
/// Time allowed for busy threads to finish; everything important is committed by then.
pub const THREAD_TIMEOUT: Duration = Duration::from_millis(100);
/// Time allowed for writing the last log lines.
pub const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(100);
/// Additional time allowed for sending the last traces; unused without a collector.
pub const TRACE_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between checks that the parent process is still running.
pub const PARENT_POLL_INTERVAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::{
        COMMIT_TIMEOUT, DRAIN_TIMEOUT, LOG_FLUSH_TIMEOUT, PARENT_POLL_INTERVAL, REPLY_TIMEOUT, THREAD_TIMEOUT,
    };
    use std::time::Duration;

    const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

    #[test]
    fn shutdown_timeouts_add_up_to_under_two_seconds() {
        let input_closed =
            DRAIN_TIMEOUT + COMMIT_TIMEOUT + REPLY_TIMEOUT * 2 + THREAD_TIMEOUT + LOG_FLUSH_TIMEOUT;
        assert!(input_closed < SHUTDOWN_LIMIT, "{input_closed:?} after the end of the input");
        let orphaned = PARENT_POLL_INTERVAL + COMMIT_TIMEOUT + THREAD_TIMEOUT + LOG_FLUSH_TIMEOUT;
        assert!(orphaned < SHUTDOWN_LIMIT, "{orphaned:?} after the parent exits");
    }
}
