//! Background commands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use meerkat_core::{Clock, FinishedJob, JobStatus, Redactor, SessionId};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::ShellError;
use super::process::{CommandResult, End};
use crate::storage::ToolStorage;

/// Maximum number of running jobs per session.
const MAX_RUNNING: usize = 10;
/// Maximum number of finished jobs per session, and time until they are removed.
const MAX_ENDED: usize = 100;
const REMEMBERED: Duration = Duration::from_secs(300);

/// The jobs of all sessions. Dropping it ends them.
pub(crate) struct Jobs {
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    sessions: Mutex<HashMap<SessionId, Vec<Job>>>,
}

struct Job {
    record: Arc<Record>,
    task: AbortHandle,
    reported: bool,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Data of a job.
pub(super) struct Record {
    pub(super) id: String,
    pub(super) command: String,
    pub(super) working_dir: String,
    pub(super) timeout_secs: u64,
    pub(super) started_at_unix: i64,
    pub(super) cancel: Notify,
    /// Notified when the job has finished.
    pub(super) ended: Notify,
    state: Mutex<(State, Option<Instant>)>,
}

/// Status of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum State {
    Running { started_at_unix: i64 },
    Completed { exit_code: Option<i32>, stdout: String, stderr: String, duration_secs: f64 },
    Failed { error: String, duration_secs: f64 },
    TimedOut { stdout: String, stderr: String, duration_secs: f64 },
    Cancelled { duration_secs: f64 },
}

impl State {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Running { .. } => "running",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Converts the result of a command.
    pub(super) async fn from_result(
        ended: Result<CommandResult, ShellError>,
        shelf: &dyn ToolStorage,
        redactor: &Redactor,
    ) -> Self {
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                return Self::Failed { error: crate::Error::from(error).error_chain(), duration_secs: 0.0 };
            }
        };
        let duration_secs = ended.duration.as_secs_f64();
        if ended.end == End::Cancelled {
            return Self::Cancelled { duration_secs };
        }
        let stdout = ended.stdout.to_visible(shelf, redactor).await.text;
        let stderr = ended.stderr.to_visible(shelf, redactor).await.text;
        match ended.end {
            End::Exited(exit_code) => Self::Completed { exit_code, stdout, stderr, duration_secs },
            _ => Self::TimedOut { stdout, stderr, duration_secs },
        }
    }
}

impl Record {
    pub(super) fn state(&self) -> State {
        self.locked().0.clone()
    }

    pub(super) fn finish(&self, state: State) {
        *self.locked() = (state, Some(Instant::now()));
        self.ended.notify_waiters();
    }

    fn locked(&self) -> MutexGuard<'_, (State, Option<Instant>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended_at(&self) -> Option<Instant> {
        self.locked().1
    }

    fn finished(&self, redactor: &Redactor) -> FinishedJob {
        let (status, detail) = match self.state() {
            State::Completed { exit_code: Some(code), .. } => {
                (JobStatus::Completed, format!("exit code {code}"))
            }
            State::Completed { exit_code: None, .. } => {
                (JobStatus::Completed, "terminated by a signal".to_owned())
            }
            State::Failed { error, .. } => (JobStatus::Failed, error),
            State::TimedOut { .. } => {
                (JobStatus::Terminated, format!("stopped after {} seconds", self.timeout_secs))
            }
            State::Cancelled { .. } => (JobStatus::Cancelled, "cancelled".to_owned()),
            State::Running { .. } => (JobStatus::Failed, "cancelled".to_owned()),
        };
        let name = redactor.redact(&self.command).chars().take(120).collect();
        FinishedJob { id: self.id.clone(), name, status, detail }
    }
}

impl Jobs {
    pub(crate) fn new(clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        Self { clock, redactor, sessions: Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<Job>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a job; `work` runs it and finishes the record.
    pub(super) fn start<F>(
        &self,
        session: SessionId,
        command: String,
        (working_dir, timeout_secs): (String, u64),
        work: impl FnOnce(Arc<Record>) -> F,
    ) -> Result<Arc<Record>, ShellError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut sessions = self.locked();
        let jobs = sessions.entry(session).or_default();
        remove_expired(jobs);
        if jobs.iter().filter(|job| job.record.ended_at().is_none()).count() >= MAX_RUNNING {
            return Err(ShellError::TooManyJobs(MAX_RUNNING));
        }
        let started_at_unix = self.clock.now().as_second();
        let record = Arc::new(Record {
            id: format!("job_{}", Uuid::now_v7()),
            command,
            working_dir,
            timeout_secs,
            started_at_unix,
            cancel: Notify::new(),
            ended: Notify::new(),
            state: Mutex::new((State::Running { started_at_unix }, None)),
        });
        let task = tokio::spawn(work(Arc::clone(&record))).abort_handle();
        jobs.push(Job { record: Arc::clone(&record), task, reported: false });
        Ok(record)
    }

    pub(super) fn list(&self, session: SessionId) -> Vec<Arc<Record>> {
        let mut sessions = self.locked();
        let jobs = sessions.entry(session).or_default();
        remove_expired(jobs);
        jobs.iter().map(|job| Arc::clone(&job.record)).collect()
    }

    pub(super) fn find(&self, session: SessionId, id: &str) -> Result<Arc<Record>, ShellError> {
        let found = self.list(session).into_iter().find(|record| record.id == id);
        found.ok_or_else(|| ShellError::NoJob(id.to_owned()))
    }

    /// Returns the jobs that finished since the last call.
    pub(crate) fn finished(&self, session: SessionId) -> Vec<FinishedJob> {
        let mut sessions = self.locked();
        let jobs = sessions.get_mut(&session).into_iter().flatten();
        let news = jobs.filter(|job| !job.reported && job.record.ended_at().is_some());
        news.map(|job| {
            job.reported = true;
            job.record.finished(&self.redactor)
        })
        .collect()
    }

    /// Ends the jobs of a session.
    pub(crate) fn forget(&self, session: SessionId) {
        self.locked().remove(&session);
    }

    /// Ends all jobs.
    pub(crate) fn close(&self) {
        self.locked().clear();
    }
}

/// Removes jobs that finished long ago.
fn remove_expired(jobs: &mut Vec<Job>) {
    jobs.retain(|job| job.record.ended_at().is_none_or(|at| !job.reported || at.elapsed() < REMEMBERED));
    let mut excess =
        jobs.iter().filter(|job| job.record.ended_at().is_some()).count().saturating_sub(MAX_ENDED);
    jobs.retain(|job| {
        let goes = excess > 0 && job.record.ended_at().is_some();
        excess -= usize::from(goes);
        !goes
    });
}
