//! `shell_jobs`, `shell_job_status`, and `shell_job_cancel`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ShellError;
use super::jobs::{Jobs, State};
use crate::builtin::{Builtin, NoArguments, Reply, reply};

pub(crate) struct ShellJobs(pub(crate) Arc<Jobs>);
pub(crate) struct ShellJobStatus(pub(crate) Arc<Jobs>);
pub(crate) struct ShellJobCancel(pub(crate) Arc<Jobs>);

/// The job.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct JobId {
    /// Id of the job.
    job_id: String,
}

impl Builtin for ShellJobs {
    const NAME: &'static str = "shell_jobs";
    const DESCRIPTION: &'static str = "List this session's running and recently finished jobs.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = NoArguments;

    async fn run(&self, _: NoArguments, session: SessionId) -> Reply {
        let jobs = self.0.list(session);
        let entries = jobs.iter().map(|job| {
            json!({
                "id": job.id,
                "command": job.command,
                "status": job.state().name(),
                "started_at_unix": job.started_at_unix,
            })
        });
        reply(&entries.collect::<Value>())
    }
}

impl Builtin for ShellJobStatus {
    const NAME: &'static str = "shell_job_status";
    const DESCRIPTION: &'static str = "Show a job's status, and its output once it has finished.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = JobId;

    async fn run(&self, JobId { job_id }: JobId, session: SessionId) -> Reply {
        let job = self.0.find(session, &job_id)?;
        reply(&json!({
            "id": job.id,
            "command": job.command,
            "working_dir": job.working_dir,
            "timeout_secs": job.timeout_secs,
            "started_at_unix": job.started_at_unix,
            "status": job.state(),
        }))
    }
}

impl Builtin for ShellJobCancel {
    const NAME: &'static str = "shell_job_cancel";
    const DESCRIPTION: &'static str = "Cancel a job and all processes it started.";
    const IMPACT: ToolImpact = ToolImpact::Additive;
    type Arguments = JobId;

    async fn run(&self, JobId { job_id }: JobId, session: SessionId) -> Reply {
        let job = self.0.find(session, &job_id)?;
        let ended = job.ended.notified();
        tokio::pin!(ended);
        // Registers before the check, so that the end cannot be missed.
        ended.as_mut().enable();
        if !matches!(job.state(), State::Running { .. }) {
            return Err(ShellError::JobEnded(job_id).into());
        }
        job.cancel.notify_one();
        ended.await;
        reply(&json!({ "job_id": job_id, "status": job.state().name() }))
    }
}
