//! `shell_job_cancel`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ShellError;
use super::jobs::{Jobs, State};
use crate::Error;
use crate::builtin::{Builtin, json};

pub(crate) struct ShellJobCancel(pub(crate) Arc<Jobs>);

/// The job to cancel.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id of the job.
    job_id: String,
}

#[derive(Serialize)]
struct Cancelled {
    job_id: String,
    status: &'static str,
}

impl Builtin for ShellJobCancel {
    const NAME: &'static str = "shell_job_cancel";
    const DESCRIPTION: &'static str = "Cancel a job and all processes it started.";
    const IMPACT: ToolImpact = ToolImpact::Additive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Result<ToolOutput, Error> {
        let job = self.0.find(session, &arguments.job_id)?;
        let ended = job.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        if !matches!(job.state(), State::Running { .. }) {
            return Err(ShellError::JobEnded(arguments.job_id).into());
        }
        job.cancel.notify_one();
        ended.await;
        json(&Cancelled { job_id: arguments.job_id, status: job.state().name() })
    }
}
