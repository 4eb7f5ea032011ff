//! `task_update`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Priority, Status, Task, TaskStore};
use crate::builtin::{Builtin, Reply, reply};

pub(crate) struct TaskUpdate(pub(crate) Arc<TaskStore>);

/// The changes; omitted fields stay the same.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id of the task.
    id: String,
    /// New subject.
    subject: Option<String>,
    /// New description.
    description: Option<String>,
    /// New status.
    status: Option<Status>,
    /// New importance.
    priority: Option<Priority>,
    /// New labels, replacing the current ones.
    labels: Option<Vec<String>>,
    /// New owner.
    owner: Option<String>,
    /// Merged into the current metadata; a null value removes its key.
    metadata: Option<Map<String, Value>>,
    /// Ids of more tasks that wait for this one.
    add_blocks: Option<Vec<String>>,
    /// Ids of tasks that no longer wait for this one.
    remove_blocks: Option<Vec<String>>,
    /// Ids of more tasks that this one waits for.
    add_blocked_by: Option<Vec<String>>,
    /// Ids of tasks that this one no longer waits for.
    remove_blocked_by: Option<Vec<String>>,
}

impl Builtin for TaskUpdate {
    const NAME: &'static str = "task_update";
    const DESCRIPTION: &'static str = "Change a task of this session.";
    const IMPACT: ToolImpact = ToolImpact::Additive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Reply {
        let id = arguments.id.clone();
        reply(&self.0.change(session, &id, |task| arguments.change(task)).await?)
    }
}

impl Arguments {
    fn change(self, task: &mut Task) {
        replace(&mut task.subject, self.subject);
        replace(&mut task.description, self.description);
        replace(&mut task.status, self.status);
        replace(&mut task.priority, self.priority);
        replace(&mut task.labels, self.labels);
        task.owner = self.owner.or(task.owner.take());
        for (key, value) in self.metadata.unwrap_or_default() {
            if value.is_null() {
                task.metadata.remove(&key);
            } else {
                task.metadata.insert(key, value);
            }
        }
        update_relations(&mut task.blocks, self.add_blocks, self.remove_blocks);
        update_relations(&mut task.blocked_by, self.add_blocked_by, self.remove_blocked_by);
    }
}

fn replace<T>(field: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *field = new;
    }
}

fn update_relations(ids: &mut Vec<String>, added: Option<Vec<String>>, removed: Option<Vec<String>>) {
    for id in added.unwrap_or_default() {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let removed = removed.unwrap_or_default();
    ids.retain(|id| !removed.contains(id));
}
