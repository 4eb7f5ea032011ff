//! Runs and their outcomes. A run whose calls were approved while it was waited for continues in another segment.

use meerkat_contracts::ErrorBody;
use meerkat_core::run::{Completion, Outcome, Pending, RunInput, RunReport};
use meerkat_core::{ErrorKind, RunId, SchemaWarning, SessionId};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::commit::release_crashed;
use super::drive::Driver;
use super::drive_result::DriveResult;
use super::plan::{RunParts, RunPlan};
use super::request::{RunControl, RunRequest, Target, TurnOptions};
use super::spans::RunTrace;
use super::{Attempts, SessionService};
use crate::Error;
use crate::error::SessionRef;
use crate::events::{EventQueue, Events};
use crate::panics::contain;
use crate::records::RecordError;

/// Result of a run that completed or is pending.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Session id.
    pub session_id: SessionId,
    /// The model that was used.
    pub model: String,
    /// Warnings for the caller, for example about the model or the schema.
    pub warnings: Vec<String>,
    /// Parts of the output schema that the provider does not support.
    pub schema_warnings: Vec<SchemaWarning>,
    /// Report of the outcome: completed or pending. Failures and interrupts are errors.
    pub report: RunReport,
}

/// A run whose input is durable. Dropping the handle interrupts it, unless it is [detached](RunHandle::detach).
#[derive(Debug)]
pub struct RunHandle {
    /// Session id.
    pub session_id: SessionId,
    /// Id of the run.
    pub run_id: RunId,
    /// The run's events from its start.
    pub events: Events,
    pub(super) cancel: CallerGuard,
    pub(super) task: JoinHandle<Result<RunResult, Error>>,
}

impl RunHandle {
    /// Waits for the end of the run.
    ///
    /// # Errors
    /// Returns an error if the run fails. It names the session, which can be resumed.
    pub async fn outcome(self) -> Result<RunResult, Error> {
        drop(self.events);
        join(self.task).await
    }

    /// Interrupts the run.
    pub fn cancel(&self) {
        self.cancel.token.cancel();
    }

    /// Lets the run continue when the handle, or a future created from it, is dropped.
    #[must_use]
    pub fn detach(mut self) -> Self {
        self.cancel.detached = true;
        self
    }
}

/// Interrupts a run when its caller is dropped.
#[derive(Debug)]
pub(super) struct CallerGuard {
    token: CancellationToken,
    detached: bool,
}

impl CallerGuard {
    pub(super) fn new(token: CancellationToken) -> Self {
        Self { token, detached: false }
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        if !self.detached {
            self.token.cancel();
        }
    }
}

/// Waits for the task of a run.
pub(super) async fn join(task: JoinHandle<Result<RunResult, Error>>) -> Result<RunResult, Error> {
    task.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

/// Facts about a run that its outcome contains.
pub(super) struct Segment {
    pub(super) session: SessionRef,
    pub(super) run_id: RunId,
    model: String,
    warnings: Vec<String>,
    schema_warnings: Vec<SchemaWarning>,
    trace: RunTrace,
}

impl Segment {
    pub(super) fn new(plan: &RunPlan, reference: String, parts: &RunParts) -> Self {
        Self {
            session: SessionRef { id: plan.session, reference, created: plan.creates, resumable: true },
            run_id: plan.settings.run_id,
            model: parts.model.info().id.clone(),
            warnings: plan.warnings.clone(),
            schema_warnings: plan.settings.schema_warnings.clone(),
            trace: parts.trace.clone(),
        }
    }
}

/// A run, from its first segment to its last.
pub(super) struct Run {
    pub(super) service: SessionService,
    /// Options for further segments.
    pub(super) turn: TurnOptions,
    pub(super) queue: EventQueue,
    pub(super) control: RunControl,
}

impl Run {
    /// Drives a run to its end, asking the approver about calls that need approval.
    pub(super) async fn follow(self, driver: Driver, segment: Segment) -> Result<RunResult, Error> {
        let mut done = self.finish(driver, segment).await;
        while let (Ok(result), Some(approver)) = (&done, &self.control.approver) {
            let Outcome::Pending(Pending { calls, approvals }) = &result.report.outcome else { break };
            if !calls.is_empty() {
                break;
            }
            let id = result.session_id;
            match approver.decide(id, approvals).await {
                Some(approvals) => {
                    done = self.resume(id, RunInput { approvals, ..RunInput::default() }).await;
                }
                // Interrupting a question interrupts the run.
                None if self.control.cancel.is_cancelled() => {
                    let reference = self.service.reference(id);
                    let session = SessionRef { id, reference, created: false, resumable: true };
                    return Err(Error::Cancelled { session });
                }
                None => break,
            }
        }
        done
    }

    /// Continues a run with other input. Its skills are in the session already.
    async fn resume(&self, id: SessionId, input: RunInput) -> Result<RunResult, Error> {
        let turn = TurnOptions { input, skills: Vec::new(), ..self.turn.clone() };
        let request = RunRequest { target: Target::Existing(id), turn, control: self.control.clone() };
        let (loaded, mut input) = self.service.planner().load(request, self.queue.clone()).await?;
        let mut attempts = Attempts::default();
        loop {
            let (driver, segment) = attempts
                .plan(&self.service, &Target::Existing(id), (&loaded, &mut input), &self.control)
                .await?;
            match self.finish(driver, segment).await {
                Err(error) if attempts.may_retry(&error) => {}
                done => return done,
            }
        }
    }

    /// Drives one segment, and logs a failure.
    async fn finish(&self, driver: Driver, segment: Segment) -> Result<RunResult, Error> {
        let (session, run, clock) = (segment.session.id, segment.run_id, &self.service.planner().clock);
        let started = clock.now();
        let done = self.drive(driver, segment).await;
        if let Err(error) = &done {
            let duration_ms = clock.now().as_millisecond() - started.as_millisecond();
            let ErrorBody { code, message, .. } = error.body();
            match error.kind() {
                ErrorKind::RequestCancelled | ErrorKind::SessionBusy => {
                    tracing::info!(%session, %run, code, duration_ms, "the run ended early");
                }
                _ => tracing::warn!(%session, %run, code, duration_ms, error = message, "the run failed"),
            }
        }
        done
    }

    /// Drives one segment. If it panics, for example in a model or a listener, its lease is released at once.
    async fn drive(&self, driver: Driver, segment: Segment) -> Result<RunResult, Error> {
        let Segment { mut session, run_id, model, mut warnings, schema_warnings, trace } = segment;
        let result = contain(Box::pin(driver.drive())).await;
        trace.end(&result);
        let report = match result {
            Ok(DriveResult::Ended(report)) => report,
            Ok(DriveResult::Rejected(error)) => return Err(error),
            Ok(DriveResult::NotPersisted(Error::Record(RecordError::Store(source)))) => {
                return Err(Error::NotPersisted { session, source });
            }
            Ok(DriveResult::NotPersisted(error)) => {
                let SessionRef { id, reference, .. } = session;
                return Err(Error::InSession { id, reference, source: Box::new(error) });
            }
            Err(reason) => {
                release_crashed(self.service.planner(), session.id, run_id).await;
                return Err(Error::RunCrashed { session, reason });
            }
        };
        if matches!(report.outcome, Outcome::Failed(_) | Outcome::Cancelled) {
            session.resumable = self.service.is_resumable(session.id).await;
        }
        match report.outcome {
            Outcome::Failed(failure) => Err(Error::Failed { session, failure }),
            Outcome::Cancelled => Err(Error::Cancelled { session }),
            Outcome::Completed(_) | Outcome::Pending(_) => {
                warnings.extend(hidden_failure(&report.outcome));
                Ok(RunResult { session_id: session.id, model, warnings, schema_warnings, report })
            }
        }
    }
}

/// Returns a warning with the last model failure if a budget ended the run before a retry. Otherwise the caller would
/// not see the failure.
fn hidden_failure(outcome: &Outcome) -> Option<String> {
    let Outcome::Completed(Completion { last_failure: Some(failure), .. }) = outcome else { return None };
    Some(format!("the run ended before a retry; the last model call failed: {failure}"))
}
