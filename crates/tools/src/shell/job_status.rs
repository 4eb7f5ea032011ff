//! `shell_job_status`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jobs::{Jobs, State};
use crate::Error;
use crate::builtin::{Builtin, json};

pub(crate) struct ShellJobStatus(pub(crate) Arc<Jobs>);

/// The job to show.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id of the job.
    job_id: String,
}

#[derive(Serialize)]
struct View {
    id: String,
    command: String,
    working_dir: String,
    timeout_secs: u64,
    started_at_unix: i64,
    status: State,
}

impl Builtin for ShellJobStatus {
    const NAME: &'static str = "shell_job_status";
    const DESCRIPTION: &'static str = "Show a job's status, and its output once it has finished.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Result<ToolOutput, Error> {
        let job = self.0.find(session, &arguments.job_id)?;
        json(&View {
            id: job.id.clone(),
            command: job.command.clone(),
            working_dir: job.working_dir.clone(),
            timeout_secs: job.timeout_secs,
            started_at_unix: job.started_at_unix,
            status: job.state(),
        })
    }
}
