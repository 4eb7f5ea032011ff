//! Active runs of this process, and renewal of their leases.
//!
//! One task runs while any run is active: it renews the leases, releases those that could not be released at the end of
//! their runs, and delivers interrupts requested by other processes.
//! Only the lease rows decide which process may run a session, never this map.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meerkat_core::{Clock, RunId, SessionId, Timestamp};
use meerkat_store::{Change, Guard, Store, Transaction};
use tokio_util::sync::CancellationToken;

use crate::Error;

/// Lifetime of a lease that is not renewed.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(30);
/// Interval between lease renewals.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between checks for interrupts from other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Adds a duration to a timestamp, saturating at the maximum.
pub(crate) fn saturating_add(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Active runs of this process.
#[derive(Clone)]
pub(crate) struct ActiveRuns {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: HashMap<SessionId, (RunId, CancellationToken)>,
    /// Number of admitted runs, including those without a lease yet.
    admitted: usize,
    /// Leases of runs that ended but could not be released, with their fences.
    unreleased: HashMap<SessionId, u64>,
    /// Whether the realm's files were deleted or replaced, so that releasing a lease is not retried.
    store_replaced: bool,
    /// Sessions that are being archived, with the number of callers archiving each.
    archiving: HashMap<SessionId, usize>,
    renewing: bool,
    closing: bool,
}

/// Marks a session as being archived until dropped.
pub(crate) struct ArchiveGuard {
    runs: ActiveRuns,
    session: SessionId,
}

/// One of the process-wide run slots; dropping it frees the slot.
pub(crate) struct RunSlot {
    runs: ActiveRuns,
}

/// An active run; dropping it removes the run from the list.
pub(crate) struct ActiveRun {
    runs: ActiveRuns,
    session: SessionId,
    run: RunId,
}

impl ActiveRuns {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { store, clock, state: Mutex::default() }) }
    }

    /// Admits a run unless `limit` runs are already admitted or the runtime is shutting down.
    pub(crate) fn admit(&self, limit: usize) -> Result<RunSlot, Error> {
        let mut state = self.state();
        if state.closing {
            return Err(Error::ShuttingDown);
        }
        if state.admitted >= limit {
            return Err(Error::TooManySessions { limit });
        }
        state.admitted += 1;
        drop(state);
        Ok(RunSlot { runs: self.clone() })
    }

    /// Adds a run to the list once it has its lease.
    pub(crate) fn add(&self, session: SessionId, run: RunId, interrupt: CancellationToken) -> ActiveRun {
        let mut state = self.state();
        if state.closing {
            interrupt.cancel();
        }
        state.runs.insert(session, (run, interrupt));
        self.start_renewal(&mut state);
        drop(state);
        ActiveRun { runs: self.clone(), session, run }
    }

    fn start_renewal(&self, state: &mut State) {
        if !std::mem::replace(&mut state.renewing, true) {
            tokio::spawn(self.clone().renew_leases());
        }
    }

    /// Releases the lease of a run that ended. If the store fails, this is retried until it succeeds.
    pub(crate) async fn release(&self, session: SessionId, fence: u64) {
        self.state().unreleased.insert(session, fence);
        if self.release_ended(session).await.is_err() {
            self.start_renewal(&mut self.state());
        }
    }

    /// Releases the lease of a session if its run ended without releasing it.
    pub(crate) async fn release_ended(&self, session: SessionId) -> Result<(), meerkat_store::Error> {
        let Some(fence) = self.state().unreleased.get(&session).copied() else { return Ok(()) };
        let guards = vec![Guard::HoldsLease { session, fence }];
        let changes = vec![Change::ReleaseLease(session)];
        let released = self.inner.store.commit(Transaction { guards, changes }).await;
        let is_replaced = matches!(released, Err(meerkat_store::Error::StoreReplaced { .. }));
        self.state().store_replaced = is_replaced;
        match released {
            Ok(_) | Err(meerkat_store::Error::LeaseLost(_)) => {}
            Err(error) => return Err(error),
        }
        self.state().unreleased.retain(|ended, known| (*ended, *known) != (session, fence));
        Ok(())
    }

    /// Returns `true` if the run of a session's lease has ended.
    pub(crate) fn is_ended(&self, session: SessionId, fence: u64) -> bool {
        self.state().unreleased.get(&session) == Some(&fence)
    }

    /// Interrupts a run of this process; returns `false` if it does not run here.
    pub(crate) fn interrupt(&self, session: SessionId) -> bool {
        let token = self.state().runs.get(&session).map(|(_, token)| token.clone());
        token.inspect(CancellationToken::cancel).is_some()
    }

    /// Marks a session as being archived.
    pub(crate) fn begin_archive(&self, session: SessionId) -> ArchiveGuard {
        *self.state().archiving.entry(session).or_default() += 1;
        ArchiveGuard { runs: self.clone(), session }
    }

    /// Returns `true` if a session is being archived.
    pub(crate) fn is_archiving(&self, session: SessionId) -> bool {
        self.state().archiving.contains_key(&session)
    }

    /// Interrupts every run, including those that are just starting.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        for (_, token) in state.runs.values() {
            token.cancel();
        }
    }

    /// Returns `true` once [`Self::close`] was called.
    pub(crate) fn is_closing(&self) -> bool {
        self.state().closing
    }

    /// Returns the number of admitted runs.
    pub(crate) fn count(&self) -> usize {
        self.state().admitted
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the sessions to renew and those to release; if there are none, clears the flag so that the renewal task
    /// can end.
    fn leases(&self) -> Option<(Vec<SessionId>, Vec<SessionId>)> {
        let mut state = self.state();
        let is_retried = !state.closing && !state.store_replaced;
        let ended: Vec<_> = state.unreleased.keys().copied().filter(|_| is_retried).collect();
        state.renewing = !state.runs.is_empty() || !ended.is_empty();
        state.renewing.then(|| (state.runs.keys().copied().collect(), ended))
    }

    async fn renew_leases(self) {
        let mut guard = RenewalGuard { runs: self.clone(), finished: false };
        let mut renewed = self.inner.clock.now();
        let mut retry = Retry { due: renewed, delay: POLL_INTERVAL };
        loop {
            self.inner.clock.sleep(POLL_INTERVAL).await;
            let Some((sessions, ended)) = self.leases() else {
                guard.finished = true;
                return;
            };
            let (now, is_running) = (self.inner.clock.now(), !sessions.is_empty());
            // If the store fails here, the runs fail at their next commit and report the reason.
            if is_running && now >= saturating_add(renewed, RENEWAL_INTERVAL) {
                renewed = now;
                let changes =
                    vec![Change::RenewLeases { sessions, expires_at: saturating_add(now, LEASE_DURATION) }];
                let _ = self.inner.store.commit(Transaction { guards: Vec::new(), changes }).await;
            }
            if !ended.is_empty() && now >= retry.due {
                let mut is_failed = false;
                for session in ended {
                    is_failed |= self.release_ended(session).await.is_err();
                }
                retry = retry.after(now, is_failed);
            }
            if is_running {
                for session in self.inner.store.interrupts().await.unwrap_or_default() {
                    self.interrupt(session);
                }
            }
        }
    }
}

/// Time of the next attempt to release leases, with the delay after another failure.
struct Retry {
    due: Timestamp,
    delay: Duration,
}

impl Retry {
    /// Returns the next attempt. After each failure it is later, because the cause may be a full disk.
    fn after(self, now: Timestamp, is_failed: bool) -> Self {
        if !is_failed {
            return Self { due: now, delay: POLL_INTERVAL };
        }
        Self { due: saturating_add(now, self.delay), delay: (self.delay * 2).min(RENEWAL_INTERVAL) }
    }
}

/// Clears the renewal flag even if the task is dropped with the tokio runtime.
struct RenewalGuard {
    runs: ActiveRuns,
    finished: bool,
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        if !self.finished {
            self.runs.state().renewing = false;
        }
    }
}

impl Drop for ArchiveGuard {
    fn drop(&mut self) {
        let mut state = self.runs.state();
        if let Some(callers) = state.archiving.get_mut(&self.session) {
            *callers -= 1;
            if *callers == 0 {
                state.archiving.remove(&self.session);
            }
        }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.runs.state().admitted -= 1;
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        let mut state = self.runs.state();
        // The session's next run may already be on the list.
        if state.runs.get(&self.session).is_some_and(|(run, _)| *run == self.run) {
            state.runs.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RENEWAL_INTERVAL, Retry};
    use meerkat_core::Timestamp;
    use std::time::Duration;

    #[test]
    fn releases_are_retried_ever_later() {
        let start = Timestamp::UNIX_EPOCH;
        let mut retry = Retry { due: start, delay: super::POLL_INTERVAL };
        let mut delays = Vec::new();
        for _ in 0..7 {
            let now = retry.due;
            retry = retry.after(now, true);
            delays.push(Duration::try_from(retry.due.duration_since(now)).unwrap());
        }
        let expected = [200, 400, 800, 1600, 3200, 5000, 5000].map(Duration::from_millis);
        assert_eq!((delays.as_slice(), delays[6]), (&expected[..], RENEWAL_INTERVAL));
        let now = retry.due;
        let retry = retry.after(now, false);
        assert_eq!((retry.due, retry.delay), (now, super::POLL_INTERVAL));
    }
}
