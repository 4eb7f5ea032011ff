//! `task_create`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Priority, Status, Task, TaskStore};
use crate::builtin::{Builtin, Reply, reply};

pub(crate) struct TaskCreate(pub(crate) Arc<TaskStore>);

/// The task to create.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Short title of the task.
    subject: String,
    /// Full description of the task.
    description: String,
    /// Importance; `medium` if omitted.
    #[serde(default)]
    priority: Option<Priority>,
    /// Labels for finding the task.
    #[serde(default)]
    labels: Option<Vec<String>>,
    /// Ids of the tasks that wait for this one.
    #[serde(default)]
    blocks: Option<Vec<String>>,
    /// Ids of the tasks that this one waits for.
    #[serde(default)]
    blocked_by: Option<Vec<String>>,
    /// Owner of the task.
    #[serde(default)]
    owner: Option<String>,
    /// Additional data.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

impl Builtin for TaskCreate {
    const NAME: &'static str = "task_create";
    const DESCRIPTION: &'static str =
        "Create a task in this session. Tasks persist when the session is resumed.";
    const IMPACT: ToolImpact = ToolImpact::Additive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Reply {
        let now = self.0.now();
        let task = Task {
            id: Uuid::now_v7().to_string(),
            subject: arguments.subject,
            description: arguments.description,
            status: Status::Pending,
            priority: arguments.priority.unwrap_or_default(),
            labels: arguments.labels.unwrap_or_default(),
            blocks: arguments.blocks.unwrap_or_default(),
            blocked_by: arguments.blocked_by.unwrap_or_default(),
            created_at: now,
            updated_at: now,
            created_by_session: session,
            updated_by_session: session,
            owner: arguments.owner,
            metadata: arguments.metadata.unwrap_or_default(),
        };
        reply(&self.0.add(session, task).await?)
    }
}
