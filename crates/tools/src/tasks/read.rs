//! `task_get` and `task_list`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Status, Task, TaskStore};
use crate::builtin::{Builtin, Reply, reply};

pub(crate) struct TaskGet(pub(crate) Arc<TaskStore>);
pub(crate) struct TaskList(pub(crate) Arc<TaskStore>);

/// The task to read.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct TaskId {
    /// Id of the task.
    id: String,
}

/// The tasks to list.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Filter {
    /// Only tasks with this status.
    #[serde(default)]
    status: Option<Status>,
    /// Only tasks with any of these labels.
    #[serde(default)]
    labels: Option<Vec<String>>,
}

impl Filter {
    fn matches(&self, task: &Task) -> bool {
        let labelled = |labels: &Vec<String>| labels.iter().any(|label| task.labels.contains(label));
        self.status.is_none_or(|status| task.status == status)
            && self.labels.as_ref().filter(|labels| !labels.is_empty()).is_none_or(labelled)
    }
}

impl Builtin for TaskGet {
    const NAME: &'static str = "task_get";
    const DESCRIPTION: &'static str = "Read a task of this session.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = TaskId;

    async fn run(&self, TaskId { id }: TaskId, session: SessionId) -> Reply {
        reply(&self.0.get(session, &id).await?)
    }
}

impl Builtin for TaskList {
    const NAME: &'static str = "task_list";
    const DESCRIPTION: &'static str = "List the tasks of this session, in creation order.";
    const IMPACT: ToolImpact = ToolImpact::ReadOnly;
    type Arguments = Filter;

    async fn run(&self, filter: Filter, session: SessionId) -> Reply {
        let mut tasks = self.0.all(session).await?;
        tasks.retain(|task| filter.matches(task));
        reply(&tasks)
    }
}
