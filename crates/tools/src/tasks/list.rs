//! `task_list`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Status, Task, TaskStore};
use crate::Error;
use crate::builtin::{Builtin, reply};

pub(crate) struct TaskList(pub(crate) Arc<TaskStore>);

/// The tasks to list.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Only tasks with this status.
    #[serde(default)]
    status: Option<Status>,
    /// Only tasks with any of these labels.
    #[serde(default)]
    labels: Option<Vec<String>>,
}

impl Arguments {
    fn matches(&self, task: &Task) -> bool {
        let labelled = |labels: &Vec<String>| labels.iter().any(|label| task.labels.contains(label));
        self.status.is_none_or(|status| task.status == status)
            && self.labels.as_ref().filter(|labels| !labels.is_empty()).is_none_or(labelled)
    }
}

impl Builtin for TaskList {
    const NAME: &'static str = "task_list";
    const DESCRIPTION: &'static str = "List the tasks of this session, in creation order.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Result<ToolOutput, Error> {
        let mut tasks = self.0.all(session).await?;
        tasks.retain(|task| arguments.matches(task));
        reply(&tasks)
    }
}
