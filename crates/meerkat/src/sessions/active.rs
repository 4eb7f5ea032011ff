//! Active runs of this process, and renewal of their leases.
//!
//! One task runs while any run is active: it renews the leases and delivers interrupts requested by other processes.
//! Only the lease rows decide which process may run a session, never this map.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meerkat_core::{Clock, RunId, SessionId, Timestamp};
use meerkat_store::{Change, Store, Transaction};
use tokio_util::sync::CancellationToken;

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

    /// Admits a run unless `limit` runs are already admitted.
    pub(crate) fn admit(&self, limit: usize) -> Option<RunSlot> {
        let mut state = self.state();
        if state.admitted >= limit {
            return None;
        }
        state.admitted += 1;
        drop(state);
        Some(RunSlot { runs: self.clone() })
    }

    /// Adds a run to the list once it has its lease.
    pub(crate) fn add(&self, session: SessionId, run: RunId, interrupt: CancellationToken) -> ActiveRun {
        let mut state = self.state();
        if state.closing {
            interrupt.cancel();
        }
        state.runs.insert(session, (run, interrupt));
        if !std::mem::replace(&mut state.renewing, true) {
            tokio::spawn(self.clone().renew_leases());
        }
        drop(state);
        ActiveRun { runs: self.clone(), session, run }
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

    /// Returns the number of runs.
    pub(crate) fn count(&self) -> usize {
        self.state().runs.len()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the sessions to renew; if there are none, clears the flag so that the renewal task can end.
    fn sessions_to_renew(&self) -> Option<Vec<SessionId>> {
        let mut state = self.state();
        state.renewing = !state.runs.is_empty();
        state.renewing.then(|| state.runs.keys().copied().collect())
    }

    async fn renew_leases(self) {
        let mut guard = RenewalGuard { runs: self.clone(), finished: false };
        let mut renewed = self.inner.clock.now();
        loop {
            self.inner.clock.sleep(POLL_INTERVAL).await;
            let Some(sessions) = self.sessions_to_renew() else {
                guard.finished = true;
                return;
            };
            let now = self.inner.clock.now();
            // If the store fails here, the runs fail at their next commit and report the reason.
            if now >= saturating_add(renewed, RENEWAL_INTERVAL) {
                renewed = now;
                let changes =
                    vec![Change::RenewLeases { sessions, expires_at: saturating_add(now, LEASE_DURATION) }];
                let _ = self.inner.store.commit(Transaction { guards: Vec::new(), changes }).await;
            }
            for session in self.inner.store.interrupts().await.unwrap_or_default() {
                self.interrupt(session);
            }
        }
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
