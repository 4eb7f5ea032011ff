//! Log lines about refused requests, at most one per status and minute, because anyone can cause them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

/// Minimum interval between two lines about a status.
const INTERVAL: Duration = Duration::from_secs(60);

/// Refused requests by status: time of the last line, and number of requests since then.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<StatusCode, (Instant, u64)>>);

impl Refusals {
    /// Adds a response, if it refuses a request. A line names the latest client.
    pub(super) fn add(&self, status: StatusCode, client: Option<SocketAddr>) {
        let reason = match status {
            StatusCode::UNAUTHORIZED => "no valid token",
            StatusCode::FORBIDDEN => "a Host or Origin that is not allowed",
            StatusCode::PAYLOAD_TOO_LARGE => "too large",
            StatusCode::SERVICE_UNAVAILABLE => "too many connections, sessions, or bytes at a time",
            _ => return,
        };
        if let Some(count) = self.count(status, Instant::now()) {
            let (client, status) = (client.map(tracing::field::display), status.as_u16());
            tracing::warn!(client, status, count, reason, "requests were refused");
        }
    }

    /// Counts a request. Returns the number of requests since the last line, if it is time for another.
    fn count(&self, status: StatusCode, now: Instant) -> Option<u64> {
        let mut statuses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((logged, count)) = statuses.get_mut(&status) else {
            statuses.insert(status, (now, 0));
            return Some(1);
        };
        *count += 1;
        let is_due = now.saturating_duration_since(*logged) >= INTERVAL;
        is_due.then(|| {
            *logged = now;
            std::mem::take(count)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use axum::http::StatusCode;

    use super::Refusals;

    #[test]
    fn each_status_has_one_line_per_minute() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let count = |status, seconds| refusals.count(status, start + Duration::from_secs(seconds));
        assert_eq!(count(StatusCode::UNAUTHORIZED, 0), Some(1));
        assert_eq!((1..60).find_map(|second| count(StatusCode::UNAUTHORIZED, second)), None);
        assert_eq!(count(StatusCode::FORBIDDEN, 59), Some(1));
        assert_eq!(count(StatusCode::UNAUTHORIZED, 60), Some(60));
        assert_eq!(count(StatusCode::UNAUTHORIZED, 120), Some(1));
    }
}
