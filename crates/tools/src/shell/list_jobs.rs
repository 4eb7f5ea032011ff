//! `shell_jobs`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jobs::Jobs;
use crate::Error;
use crate::builtin::{Builtin, json};

pub(crate) struct ShellJobs(pub(crate) Arc<Jobs>);

/// No arguments.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {}

#[derive(Serialize)]
struct Entry {
    id: String,
    command: String,
    status: &'static str,
    started_at_unix: i64,
}

impl Builtin for ShellJobs {
    const NAME: &'static str = "shell_jobs";
    const DESCRIPTION: &'static str = "List this session's running and recently finished jobs.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, _: Arguments, session: SessionId) -> Result<ToolOutput, Error> {
        let jobs = self.0.list(session);
        let entries = jobs.iter().map(|job| Entry {
            id: job.id.clone(),
            command: job.command.clone(),
            status: job.state().name(),
            started_at_unix: job.started_at_unix,
        });
        json(&entries.collect::<Vec<_>>())
    }
}
