//! The runs that are in flight in this process, and the keeper of their leases.
//!
//! The keeper is one task that lives while there is a run: it renews the leases and passes on interrupts that
//! other processes asked for. Who may run what is decided by the lease rows alone, never by this map.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meerkat_core::{Clock, SessionId, Timestamp};
use meerkat_store::{Change, Store, Transaction};
use tokio_util::sync::CancellationToken;

/// How long a lease lasts unless renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// How often leases are renewed.
const RENEWAL: Duration = Duration::from_secs(5);
/// How often interrupts of other processes are looked for.
const POLL: Duration = Duration::from_millis(200);

/// Adds a length of time to a time.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The runs in flight.
#[derive(Clone)]
pub(crate) struct LiveRuns {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: HashMap<SessionId, CancellationToken>,
    keeping: bool,
}

/// A run in flight; dropping it takes the run off the list.
pub(crate) struct LiveRun {
    runs: LiveRuns,
    session: SessionId,
}

impl LiveRuns {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { store, clock, state: Mutex::default() }) }
    }

    /// Puts a run on the list once it has its lease.
    pub(crate) fn add(&self, session: SessionId, interrupt: CancellationToken) -> LiveRun {
        let mut state = self.state();
        state.runs.insert(session, interrupt);
        if !std::mem::replace(&mut state.keeping, true) {
            tokio::spawn(self.clone().keep());
        }
        drop(state);
        LiveRun { runs: self.clone(), session }
    }

    /// Asks a run of this process to stop; false when it is not here.
    pub(crate) fn interrupt(&self, session: SessionId) -> bool {
        let token = self.state().runs.get(&session).cloned();
        token.inspect(CancellationToken::cancel).is_some()
    }

    /// Asks every run to stop.
    pub(crate) fn interrupt_all(&self) {
        for token in self.state().runs.values() {
            token.cancel();
        }
    }

    /// Counts the runs.
    pub(crate) fn count(&self) -> usize {
        self.state().runs.len()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the runs; when there is none, the keeper may go.
    fn kept(&self) -> Option<Vec<SessionId>> {
        let mut state = self.state();
        state.keeping = !state.runs.is_empty();
        state.keeping.then(|| state.runs.keys().copied().collect())
    }

    async fn keep(self) {
        let mut since_renewal = Duration::ZERO;
        loop {
            self.inner.clock.sleep(POLL).await;
            since_renewal += POLL;
            let Some(sessions) = self.kept() else { return };
            // A store that fails here fails the runs at their next commit, with the reason.
            for session in self.inner.store.interrupts().await.unwrap_or_default() {
                self.interrupt(session);
            }
            if since_renewal >= RENEWAL {
                since_renewal = Duration::ZERO;
                let expires_at = later(self.inner.clock.now(), LEASE);
                let changes = vec![Change::RenewLeases { sessions, expires_at }];
                let _ = self.inner.store.commit(Transaction { guards: Vec::new(), changes }).await;
            }
        }
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        self.runs.state().runs.remove(&self.session);
    }
}
