//! Commits of a run: everything durable, fenced by the run's lease.

use std::sync::Arc;

use meerkat_core::run::{CallChange, CallIntent, Commit, Outcome, RunReport};
use meerkat_core::{Clock, CompletedCall, ErrorClass, RunId, SessionId, Usage};
use meerkat_store::{Change, Guard, NewCall, Store, Transaction};
use tokio_util::sync::CancellationToken;

use super::active::{ActiveRun, ActiveRuns, LEASE_DURATION, saturating_add};
use super::plan::Planner;
use super::step_timer::{Part, StepTimer};
use crate::records::{RecordError, encode};
use crate::tools::CompactionIndex;

/// Stores the commits of one run.
pub(super) struct Journal {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) active: ActiveRuns,
    pub(super) session: SessionId,
    pub(super) run_id: RunId,
    /// Cancelling it interrupts the run.
    pub(super) interrupt: CancellationToken,
    /// Guards and changes to add to the first commit; taken when it is built.
    pub(super) admission: Option<Transaction>,
    pub(super) index: Option<Arc<dyn CompactionIndex>>,
    pub(super) lease: Option<Lease>,
}

/// The right to run the session.
pub(super) struct Lease {
    fence: u64,
    _live: ActiveRun,
}

impl Journal {
    /// Stores a commit. The first one also admits the run: it takes the lease and creates the session if it is new.
    pub(super) async fn commit(&mut self, commit: &Commit) -> Result<(), RecordError> {
        let transaction = self.transaction(commit)?;
        let timer = StepTimer::start(self.session, self.run_id);
        let done = self.store.commit(transaction).await;
        timer.finish(Part::Commit, None);
        let done = done?;
        if let Some(fence) = done.fence {
            let live = self.active.add(self.session, self.run_id, self.interrupt.clone());
            self.lease = Some(Lease { fence, _live: live });
        }
        Ok(())
    }

    fn transaction(&mut self, commit: &Commit) -> Result<Transaction, RecordError> {
        let session = self.session;
        let now = self.clock.now();
        let mut transaction = self.admission.take().unwrap_or_default();
        match &self.lease {
            Some(lease) => transaction.guards.push(Guard::HoldsLease { session, fence: lease.fence }),
            None => transaction.changes.push(Change::TakeLease {
                session,
                run: self.run_id,
                expires_at: saturating_add(now, LEASE_DURATION),
            }),
        }
        if !commit.messages.is_empty() {
            let messages = commit.messages.iter().map(|message| encode(&**message));
            let messages = messages.collect::<Result<_, _>>()?;
            transaction.changes.push(Change::Append { session, messages, at: now });
        }
        transaction.changes.extend(call_changes(session, &commit.calls)?);
        if let Some(index) = &self.index {
            transaction.changes.extend(index.changes(session, &commit.compacted, now));
        }
        let &Commit { usage, cost, .. } = commit;
        if usage != Usage::default() {
            transaction.changes.push(Change::AddUsage { session, at: now, usage, cost });
        }
        transaction.changes.push(Change::PutProgress { session, progress: encode(&commit.progress)? });
        if commit.ends {
            transaction.changes.push(Change::ReleaseLease(session));
        }
        Ok(transaction)
    }

    /// Releases the lease if the end of the run could not be stored.
    pub(super) async fn release_lease(&self, report: &RunReport) {
        let Some(lease) = self.lease.as_ref().filter(|_| is_store_failure(report)) else {
            return;
        };
        self.active.release(self.session, lease.fence).await;
    }
}

/// Returns `true` if a run ended because it could not be stored.
pub(super) fn is_store_failure(report: &RunReport) -> bool {
    matches!(&report.outcome, Outcome::Failed(failure) if failure.class == ErrorClass::Store)
}

/// Releases the lease of a run that crashed. If its session cannot be read, the lease expires.
pub(super) async fn release_crashed(planner: &Planner, session: SessionId, run_id: RunId) {
    let row = planner.store.session(session).await.ok().flatten();
    if let Some(lease) = row.and_then(|row| row.lease).filter(|lease| lease.run == run_id) {
        planner.active.release(session, lease.fence).await;
    }
}

fn call_changes(session: SessionId, calls: &CallChange) -> Result<Vec<Change>, RecordError> {
    Ok(match calls {
        CallChange::None => Vec::new(),
        CallChange::Open(intents) => {
            let calls = intents.iter().map(new_call).collect::<Result<_, RecordError>>()?;
            vec![Change::OpenCalls { session, calls }]
        }
        CallChange::Complete(results) => complete_calls(session, results)?,
        CallChange::Update { calls, results } => {
            let put = |intent| Ok(Change::PutCall { session, call: new_call(intent)? });
            let mut changes = calls.iter().map(put).collect::<Result<Vec<_>, RecordError>>()?;
            changes.append(&mut complete_calls(session, results)?);
            changes
        }
        CallChange::Close => vec![Change::CloseCalls(session)],
    })
}

fn new_call(intent: &CallIntent) -> Result<NewCall, RecordError> {
    Ok(NewCall { id: intent.id.clone(), call: encode(intent)? })
}

fn complete_calls(session: SessionId, results: &[CompletedCall]) -> Result<Vec<Change>, RecordError> {
    let complete = |result: &CompletedCall| {
        let call = result.result.tool_use_id.clone();
        Ok(Change::CompleteCall { session, call, result: encode(result)? })
    };
    results.iter().map(complete).collect()
}
