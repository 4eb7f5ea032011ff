//! Probes for supervisors: whether the process is alive, and whether it can serve requests. They need no token, and
//! their responses reveal nothing else.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Path of the probe that succeeds while the process is alive.
pub(super) const HEALTH: &str = "/healthz";
/// Path of the probe that succeeds while requests can be served.
pub(super) const READY: &str = "/readyz";
/// Time for which a result is used again, because anyone can send probes.
const RETENTION: Duration = Duration::from_secs(5);
/// Time that a check may take before the server counts as not ready.
const TIMEOUT: Duration = Duration::from_secs(1);

/// State of the server, for probes.
pub(super) struct Readiness {
    closing: CancellationToken,
    latest: Mutex<Option<Check>>,
}

/// A check, which ends even if no probe waits for it.
#[derive(Clone)]
struct Check {
    started: Instant,
    result: watch::Receiver<Option<bool>>,
}

impl Check {
    fn start(check: impl Future<Output = Result<(), String>> + Send + 'static, was_ready: bool) -> Self {
        let (sender, result) = watch::channel(None);
        tokio::spawn(async move {
            let checked = check.await;
            if let Some(reason) = checked.as_ref().err().filter(|_| was_ready) {
                tracing::error!(reason, "the server is not ready");
            }
            let _ = sender.send(Some(checked.is_ok()));
        });
        Self { started: Instant::now(), result }
    }

    /// Returns `true` while the check runs and while its result is recent.
    fn is_current(&self) -> bool {
        match *self.result.borrow() {
            Some(_) => self.started.elapsed() < RETENTION,
            // The sender is dropped if the check panics.
            None => self.result.has_changed().is_ok(),
        }
    }
}

impl Readiness {
    /// Creates the state of a server that is ready until `closing` is cancelled.
    pub(super) fn new(closing: CancellationToken) -> Self {
        Self { closing, latest: Mutex::new(None) }
    }

    /// Returns `true` if requests can be served, according to a recent result of `check`. At most one check runs at a
    /// time, because a check of a hung disk may never end.
    pub(super) async fn is_ready(
        &self,
        check: impl Future<Output = Result<(), String>> + Send + 'static,
    ) -> bool {
        let Check { started, mut result } = self.latest(check);
        let checked = timeout_at(started + TIMEOUT, result.wait_for(Option::is_some)).await;
        let is_ready = checked.is_ok_and(|result| result.is_ok_and(|result| *result == Some(true)));
        is_ready && !self.closing.is_cancelled()
    }

    fn latest(&self, check: impl Future<Output = Result<(), String>> + Send + 'static) -> Check {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = latest.as_ref().filter(|latest| latest.is_current()) {
            return current.clone();
        }
        let was_ready = latest.as_ref().is_none_or(|latest| *latest.result.borrow() != Some(false));
        latest.insert(Check::start(check, was_ready)).clone()
    }
}

/// Returns the response to the probe for readiness.
pub(super) fn response(is_ready: bool) -> (StatusCode, &'static str) {
    match is_ready {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;
    use tokio_util::sync::CancellationToken;

    use super::{RETENTION, Readiness};

    #[tokio::test(start_paused = true)]
    async fn check_ends_without_its_probe_and_only_one_runs() {
        let readiness = Readiness::new(CancellationToken::new());
        let (started, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let check = || {
            let (started, end) = (Arc::clone(&started), Arc::clone(&end));
            async move {
                started.fetch_add(1, Ordering::Relaxed);
                end.notified().await;
                Ok(())
            }
        };
        let impatient = Duration::from_millis(1);
        assert!(tokio::time::timeout(impatient, readiness.is_ready(check())).await.is_err());
        for _ in 0..10 {
            assert!(!readiness.is_ready(check()).await, "the disk hangs");
        }
        assert_eq!(started.load(Ordering::Relaxed), 1);
        end.notify_one();
        tokio::task::yield_now().await;
        assert!(readiness.is_ready(check()).await, "the result of the first check is used");
        assert_eq!(started.load(Ordering::Relaxed), 1);
        tokio::time::advance(RETENTION).await;
        end.notify_one();
        assert!(readiness.is_ready(check()).await);
        assert_eq!(started.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn crashed_check_is_repeated() {
        let readiness = Readiness::new(CancellationToken::new());
        assert!(!readiness.is_ready(async { panic!("a bug") }).await);
        assert!(readiness.is_ready(async { Ok(()) }).await);
    }

    #[tokio::test]
    async fn closing_server_is_not_ready() {
        let closing = CancellationToken::new();
        let readiness = Readiness::new(closing.clone());
        assert!(readiness.is_ready(async { Ok(()) }).await);
        closing.cancel();
        assert!(!readiness.is_ready(pending()).await);
    }
}
