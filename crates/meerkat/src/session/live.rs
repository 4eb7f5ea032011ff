//! The runs that are in flight in this process, and the keeper of their leases.
//!
//! The keeper is one task that lives while there is a run: it renews the leases and passes on interrupts that
//! other processes asked for. Who may run what is decided by the lease rows alone, never by this map.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meerkat_core::{Clock, RunId, SessionId, Timestamp};
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
    runs: HashMap<SessionId, (RunId, CancellationToken)>,
    /// Runs that were admitted, including those without a lease so far.
    admitted: usize,
    /// Sessions that are being archived, and by how many callers.
    retiring: HashMap<SessionId, usize>,
    keeping: bool,
    closing: bool,
}

/// A session that is being archived, until it is dropped.
pub(crate) struct Retiring {
    runs: LiveRuns,
    session: SessionId,
}

/// One of the runs that this process may have at once; dropping it makes room for another.
pub(crate) struct RunSlot {
    runs: LiveRuns,
}

/// A run in flight; dropping it takes the run off the list.
pub(crate) struct LiveRun {
    runs: LiveRuns,
    session: SessionId,
    run: RunId,
}

impl LiveRuns {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { store, clock, state: Mutex::default() }) }
    }

    /// Admits a run unless `limit` of them are admitted already.
    pub(crate) fn admit(&self, limit: usize) -> Option<RunSlot> {
        let mut state = self.state();
        if state.admitted >= limit {
            return None;
        }
        state.admitted += 1;
        drop(state);
        Some(RunSlot { runs: self.clone() })
    }

    /// Puts a run on the list once it has its lease.
    pub(crate) fn add(&self, session: SessionId, run: RunId, interrupt: CancellationToken) -> LiveRun {
        let mut state = self.state();
        if state.closing {
            interrupt.cancel();
        }
        state.runs.insert(session, (run, interrupt));
        if !std::mem::replace(&mut state.keeping, true) {
            tokio::spawn(self.clone().keep());
        }
        drop(state);
        LiveRun { runs: self.clone(), session, run }
    }

    /// Asks a run of this process to stop; false when it is not here.
    pub(crate) fn interrupt(&self, session: SessionId) -> bool {
        let token = self.state().runs.get(&session).map(|(_, token)| token.clone());
        token.inspect(CancellationToken::cancel).is_some()
    }

    /// Takes note that a session is being archived.
    pub(crate) fn retire(&self, session: SessionId) -> Retiring {
        *self.state().retiring.entry(session).or_default() += 1;
        Retiring { runs: self.clone(), session }
    }

    /// Says whether a session is being archived.
    pub(crate) fn is_retiring(&self, session: SessionId) -> bool {
        self.state().retiring.contains_key(&session)
    }

    /// Asks every run to stop, those that are just beginning included.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        for (_, token) in state.runs.values() {
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
        let mut place = KeepersPlace { runs: self.clone(), left: false };
        let mut renewed = self.inner.clock.now();
        loop {
            self.inner.clock.sleep(POLL).await;
            let Some(sessions) = self.kept() else {
                place.left = true;
                return;
            };
            let now = self.inner.clock.now();
            // A store that fails here fails the runs at their next commit, with the reason.
            if now >= later(renewed, RENEWAL) {
                renewed = now;
                let changes = vec![Change::RenewLeases { sessions, expires_at: later(now, LEASE) }];
                let _ = self.inner.store.commit(Transaction { guards: Vec::new(), changes }).await;
            }
            for session in self.inner.store.interrupts().await.unwrap_or_default() {
                self.interrupt(session);
            }
        }
    }
}

/// The keeper's place, which is free again even when its task is dropped with the tokio runtime.
struct KeepersPlace {
    runs: LiveRuns,
    left: bool,
}

impl Drop for KeepersPlace {
    fn drop(&mut self) {
        if !self.left {
            self.runs.state().keeping = false;
        }
    }
}

impl Drop for Retiring {
    fn drop(&mut self) {
        let mut state = self.runs.state();
        if let Some(callers) = state.retiring.get_mut(&self.session) {
            *callers -= 1;
            if *callers == 0 {
                state.retiring.remove(&self.session);
            }
        }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.runs.state().admitted -= 1;
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        let mut state = self.runs.state();
        // The session's next run may be on the list already.
        if state.runs.get(&self.session).is_some_and(|(run, _)| *run == self.run) {
            state.runs.remove(&self.session);
        }
    }
}
