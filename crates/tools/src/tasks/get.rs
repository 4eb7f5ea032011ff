//! `task_get`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::TaskStore;
use crate::Error;
use crate::builtin::{Builtin, reply};

pub(crate) struct TaskGet(pub(crate) Arc<TaskStore>);

/// The task to read.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id of the task.
    id: String,
}

impl Builtin for TaskGet {
    const NAME: &'static str = "task_get";
    const DESCRIPTION: &'static str = "Read a task of this session.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Result<ToolOutput, Error> {
        reply(&self.0.get(session, &arguments.id).await?)
    }
}
