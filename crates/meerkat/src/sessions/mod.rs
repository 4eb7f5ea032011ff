//! Sessions: running, reading, interrupting, and archiving them.
//!
//! [`SessionService::run`] is the only way a run starts: check the request, plan the run, drive it, and report its
//! outcome.

mod active;
mod answer;
mod commit;
mod configured_output;
mod drive;
mod drive_result;
mod in_flight;
mod input;
mod media;
mod model_call;
mod outcome;
mod plan;
mod prompt;
mod read;
mod request;
mod spans;
mod step_timer;
mod step_tools;
mod stop_signals;
mod streams;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use meerkat_contracts::ErrorBody;
use meerkat_core::{ErrorKind, RealmId, SessionId};
use meerkat_store::{Backend, SessionRow};

pub(crate) use active::ActiveRuns;
pub(crate) use configured_output::ConfiguredOutput;
pub(crate) use plan::Planner;

use drive::Driver;
use input::CallerInput;
use outcome::{CallerGuard, Run, Segment};
use plan::LoadedRequest;

pub use answer::Answer;
pub use outcome::{RunHandle, RunResult};
pub use read::{HistoryPage, SessionView, UnreadableSession};
pub use request::{Approver, NewSessionOptions, RunControl, RunRequest, Target, TurnOptions};

use crate::Error;
use crate::events::Events;
use crate::records::RecordError;

/// Creates, runs, reads, interrupts, and archives sessions.
///
/// A session has at most one active run, across processes: starting a second fails with `SESSION_BUSY`. Reading never
/// waits for a run.
#[derive(Clone)]
pub struct SessionService {
    inner: Arc<Inner>,
}

struct Inner {
    planner: Planner,
    realm: RealmId,
    backend: Backend,
}

impl fmt::Debug for SessionService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionService").field("realm", &self.inner.realm).finish_non_exhaustive()
    }
}

impl SessionService {
    pub(crate) fn new(planner: Planner, realm: RealmId, backend: Backend) -> Self {
        Self { inner: Arc::new(Inner { planner, realm, backend }) }
    }

    pub(crate) fn planner(&self) -> &Planner {
        &self.inner.planner
    }

    /// Interrupts every run, and waits until everything has ended, or until the timeout.
    pub(crate) async fn close(&self, timeout: Duration) {
        let Planner { active, extensions, events, hooks, .. } = self.planner();
        active.close();
        extensions.iter().for_each(|extension| extension.stop());
        events.close_all();
        let extensions = async {
            for extension in extensions {
                extension.close(timeout).await;
            }
        };
        let wait = async {
            while active.count() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::join!(hooks.close(timeout), extensions);
        };
        let _ = tokio::time::timeout(timeout, wait).await;
    }

    /// Returns a session's id together with its realm's.
    pub(crate) fn reference(&self, session: SessionId) -> String {
        format!("{}:{session}", self.inner.realm)
    }

    /// Creates a session and runs its first prompt. If the first commit fails, no session is created. Dropping the
    /// future interrupts the run; to let it continue, use [`SessionService::run`] and [`RunHandle::detach`].
    ///
    /// # Errors
    /// Returns an error if the run fails. After the first commit, the error names the session, which remains and can be
    /// resumed.
    pub async fn create(
        &self,
        options: NewSessionOptions,
        turn: TurnOptions,
        control: RunControl,
    ) -> Result<RunResult, Error> {
        self.run(RunRequest { target: Target::New(options), turn, control }).await?.outcome().await
    }

    /// Runs the next prompt of a session, or resumes it with the results of pending calls. Dropping the future
    /// interrupts the run, as it does for [`SessionService::create`].
    ///
    /// # Errors
    /// Returns `SESSION_BUSY` if the session has an active run, `SESSION_NOT_FOUND` if it does not exist or is
    /// archived, and `INVALID_PARAMS` if the input does not match the session's state. Committed steps are never
    /// undone.
    pub async fn start_turn(
        &self,
        id: SessionId,
        turn: TurnOptions,
        control: RunControl,
    ) -> Result<RunResult, Error> {
        self.run(RunRequest { target: Target::Existing(id), turn, control }).await?.outcome().await
    }

    /// Starts a run, and returns when its input is durable. Dropping the future or the handle interrupts the run,
    /// unless it is [detached](RunHandle::detach).
    ///
    /// # Errors
    /// Returns an error if the request is invalid or the run cannot start; nothing is stored then.
    pub async fn run(&self, request: RunRequest) -> Result<RunHandle, Error> {
        Box::pin(self.start(request)).await
    }

    async fn start(&self, request: RunRequest) -> Result<RunHandle, Error> {
        let target = request.target.clone();
        let cancel = request.control.cancel.child_token();
        let guard = CallerGuard::new(cancel.clone());
        let control = RunControl { cancel, ..request.control.clone() };
        let (queue, events) = Events::queue();
        let loaded = self.inner.planner.load(request, queue.clone()).await;
        let (loaded, mut input) = loaded.inspect_err(log_refusal)?;
        let mut attempts = Attempts::default();
        loop {
            let planned = attempts.plan(self, &target, (&loaded, &mut input), &control).await;
            let (mut driver, segment) = planned.inspect_err(log_refusal)?;
            let (session_id, run_id) = (segment.session.id, segment.run_id);
            let admitted = driver.admission();
            let turn = loaded.turn.clone();
            let run = Run { service: self.clone(), turn, queue: queue.clone(), control: control.clone() };
            let task = tokio::spawn(Box::pin(run.follow(driver, segment)));
            if admitted.await.is_ok() {
                return Ok(RunHandle { session_id, run_id, events, cancel: guard, task });
            }
            // The run ended before its input was durable.
            match outcome::join(task).await {
                Err(error) if attempts.may_retry(&error) => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(Error::Internal("a run ended before it started".to_owned())),
            }
        }
    }

    /// Reads a session that can be run.
    async fn idle_row(&self, id: SessionId) -> Result<SessionRow, Error> {
        self.inner.planner.active.release_ended(id).await?;
        let row = self.row(id).await?;
        if row.archived_at.is_some() {
            return Err(meerkat_store::Error::Archived(id).into());
        }
        if self.is_active(&row) {
            return Err(meerkat_store::Error::Busy(id).into());
        }
        Ok(row)
    }
}

/// Logs a run that cannot start, unless its request is the cause.
fn log_refusal(error: &Error) {
    let ErrorBody { code, message, .. } = error.body();
    match error.kind() {
        ErrorKind::InvalidParams
        | ErrorKind::RequestCancelled
        | ErrorKind::SessionBusy
        | ErrorKind::SessionNotFound => tracing::info!(code, error = message, "a run was refused"),
        _ => tracing::warn!(code, error = message, "a run was refused"),
    }
}

/// Attempts to start a run, which fail if another process runs the session in the meantime.
#[derive(Default)]
struct Attempts(usize);

impl Attempts {
    const MAX: usize = 3;

    /// Plans the run, and returns its driver.
    async fn plan(
        &mut self,
        service: &SessionService,
        target: &Target,
        (loaded, input): (&LoadedRequest, &mut CallerInput),
        control: &RunControl,
    ) -> Result<(Driver, Segment), Error> {
        let planner = service.planner();
        loop {
            self.0 += 1;
            let row = match target {
                Target::New(_) => None,
                Target::Existing(id) => Some(service.idle_row(*id).await?),
            };
            let read = row.as_ref().map(|row| (row.id, row.fence));
            match (planner.plan((loaded, input), (target, row), control).await, read) {
                (Ok((plan, parts)), _) => {
                    let segment = Segment::new(&plan, service.reference(plan.session), &parts);
                    return Ok((Driver::new(planner, plan, parts, control.cancel.child_token()), segment));
                }
                // The input may be invalid because another process ran the session in the meantime.
                (Err(error @ Error::InvalidInput(_)), Some((id, fence))) => {
                    if service.row(id).await?.fence == fence {
                        return Err(error);
                    }
                    if self.0 >= Self::MAX {
                        return Err(meerkat_store::Error::Busy(id).into());
                    }
                }
                (Err(Error::Record(error)), _) => return service.explain_result(Err(error)).await,
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Returns `true` if a run failed because the session changed before it started, and may be planned again.
    fn may_retry(&self, error: &Error) -> bool {
        let is_changed = matches!(error, Error::Record(RecordError::Store(meerkat_store::Error::Changed(_))));
        is_changed && self.0 < Self::MAX
    }
}
