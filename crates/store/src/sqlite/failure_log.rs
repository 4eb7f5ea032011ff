//! Limits log lines about failing storage: the log may be on the same full disk.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum interval between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Failures of one kind of operation.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureLog(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    logged: Option<Instant>,
    omitted: u64,
}

impl FailureLog {
    /// Logs a failure, unless the last line is recent.
    pub(super) fn add(&self, path: &Path, error: &impl Display, failed: &str) {
        if let Some(omitted) = self.next(Instant::now()) {
            tracing::error!(path = %path.display(), %error, omitted, "{failed}");
        }
    }

    /// Counts a failure. Returns the number of failures without a line if this one needs a line.
    fn next(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.logged.is_some_and(|logged| now.saturating_duration_since(logged) < INTERVAL) {
            state.omitted += 1;
            return None;
        }
        state.logged = Some(now);
        Some(std::mem::take(&mut state.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureLog, INTERVAL};
    use std::time::{Duration, Instant};

    #[test]
    fn repeated_failures_are_logged_once_a_minute() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let at = |millis| log.next(start + Duration::from_millis(millis));
        assert_eq!(at(0), Some(0));
        let lines: Vec<_> = (1..600).filter_map(|tick| at(tick * 200)).collect();
        assert_eq!((lines, INTERVAL.as_secs()), (vec![299], 60));
        assert_eq!(at(120_000), Some(299));
    }
}
