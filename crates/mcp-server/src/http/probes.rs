//! Probes for supervisors: whether the process is alive, and whether it can serve requests. They need no token, and
//! their responses reveal nothing else.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::protocol::Service;

/// Path of the probe that succeeds while the process is alive.
pub(super) const HEALTH: &str = "/healthz";
/// Path of the probe that succeeds while requests can be served.
pub(super) const READY: &str = "/readyz";
/// Time for which a result is used again, because anyone can send probes.
const RETENTION: Duration = Duration::from_secs(5);
/// Time allowed for a check.
const TIMEOUT: Duration = Duration::from_secs(5);

/// State of the server, for probes.
pub(super) struct Readiness {
    closing: CancellationToken,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Readiness {
    /// Creates the state of a server that is ready until `closing` is cancelled.
    pub(super) fn new(closing: CancellationToken) -> Self {
        Self { closing, last: Mutex::new(None) }
    }

    /// Returns the status and the text for a probe.
    pub(super) async fn check(&self, service: &impl Service) -> (StatusCode, &'static str) {
        let mut last = self.last.lock().await;
        let is_ready = match *last {
            Some((at, is_ready)) if at.elapsed() < RETENTION => is_ready,
            _ => {
                let is_ready = tokio::time::timeout(TIMEOUT, service.is_ready()).await.unwrap_or(false);
                *last = Some((Instant::now(), is_ready));
                is_ready
            }
        };
        match is_ready && !self.closing.is_cancelled() {
            true => (StatusCode::OK, "ready\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        }
    }
}
